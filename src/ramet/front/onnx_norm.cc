// ONNX's normalisations.
#include <cmath>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_reductions.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

Tensor wide(Tensor a) { return a.valid() ? at_least_f32(a) : a; }
/// Whether the fused ops take operands of this type.
bool is_fused(Tensor a) { return a.dtype() != DType::kF64; }

Values batch_norm(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int rank = a.shape().rank();
  if (rank < 2) at.refuse("BatchNormalization needs samples and channels");
  const double epsilon = at.number("epsilon", 1e-5);
  const Tensor gain = wide(at.input(1)), bias = wide(at.input(2)), mean = wide(at.input(3)),
               variance = wide(at.input(4));
  const bool training = at.version() >= 14 ? at.flag("training_mode") : at.version() < 7 && !at.flag("is_test");
  if (!training && is_fused(a)) {
    for (size_t i = 1; i < 5; ++i)
      if (at.wants(i)) at.refuse("statistics are results in training mode only");
    return {batch_norm_apply(a, in_type(gain, DType::kF32), in_type(bias, DType::kF32), in_type(mean, DType::kF32),
                             in_type(variance, DType::kF32), epsilon)};
  }
  const auto normalized = [&](Tensor x, Tensor m, Tensor v) {
    const Tensor inverse = rsqrt(add_scalar(v, epsilon));
    return add(multiply(multiply(subtract(x, along_channels(m, rank)), along_channels(inverse, rank)),
                        along_channels(gain, rank)),
               along_channels(bias, rank));
  };
  if (!training) return {in_type(normalized(wide(a), mean, variance), a.dtype())};
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i)
    if (i != 1) axes.push_back(i);
  Tensor output, now, spread;
  if (is_fused(a)) {
    const BatchNorm made = ops::batch_norm(a, in_type(gain, DType::kF32), in_type(bias, DType::kF32), epsilon);
    output = made.output, now = made.mean, spread = made.variance;
  } else {
    now = reduce_mean(a, axes), spread = ops::variance(a, axes, 0);
    output = normalized(a, now, spread);
  }
  const double momentum = at.number("momentum", 0.9);
  const auto running = [&](size_t input, Tensor old, Tensor fresh) {
    return in_type(add(scale(old, momentum), scale(in_type(fresh, old.dtype()), 1 - momentum)),
                   at.input(input).dtype());
  };
  return {output, running(3, mean, now), running(4, variance, spread)};
}

Values instance_norm(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const Tensor gain = in_type(at.input(1), DType::kF32), bias = in_type(at.input(2), DType::kF32);
  const double epsilon = at.number("epsilon", 1e-5);
  if (a.dtype() == DType::kF64)
    return {cast(ops::instance_norm(cast(a, DType::kF32), gain, bias, epsilon), DType::kF64)};
  return {ops::instance_norm(a, gain, bias, epsilon)};
}

Values group_norm(const OnnxCall& at) {
  Tensor a = at.input(0), gain = in_type(at.input(1), DType::kF32), bias = in_type(at.input(2), DType::kF32);
  if (a.shape().rank() < 2) at.refuse("GroupNormalization needs samples and channels");
  const int64_t groups = at.integer("num_groups"), channels = a.dim(1);
  if (groups < 1 || channels % groups != 0) at.refuse("the channels are no multiple of the groups");
  if (at.version() < 21) {  // one factor a group
    const auto spread = [&](Tensor b) {
      return reshape(broadcast_to(reshape(b, {groups, 1}), {groups, channels / groups}), {channels});
    };
    gain = spread(gain), bias = spread(bias);
  }
  const DType dtype = a.dtype();
  if (dtype == DType::kF64) a = cast(a, DType::kF32);
  return {in_type(ops::group_norm(a, gain, bias, groups, at.number("epsilon", 1e-5)), dtype)};
}

/// The dimensions from `axis` on, as one that norms go over.
struct Rows {
  Tensor flat;
  Shape outer, inner;
  std::vector<int64_t> axes{};
};
Rows rows_of(const OnnxCall& at, Tensor a) {
  const int rank = a.shape().rank(), axis = at.axis("axis", rank, -1);
  const std::vector<int64_t>& dims = a.shape().dims();
  Rows made;
  made.inner = Shape(std::vector<int64_t>(dims.begin() + axis, dims.end()));
  std::vector<int64_t> outer(dims.begin(), dims.begin() + axis);
  outer.push_back(made.inner.elements());
  made.outer = Shape(outer);
  made.flat = made.outer == a.shape() ? a : reshape(a, made.outer);
  for (int i = axis; i < rank; ++i) made.axes.push_back(i);
  return made;
}
/// A factor in f32, as a vector over the normalised dimensions. An invalid tensor where it depends on the others.
Tensor factor_of(Tensor a, const Rows& rows) {
  if (a.shape().rank() > rows.inner.rank()) return {};
  return reshape(expand(in_type(a, DType::kF32), rows.inner), {rows.inner.elements()});
}

Values layer_norm(const OnnxCall& at) {
  const Tensor a = at.input(0), bias = at.input_if(2);
  const double epsilon = at.number("epsilon", 1e-5);
  const Rows rows = rows_of(at, a);
  Tensor output;
  const Tensor gain = factor_of(at.input(1), rows);
  const Tensor offset = bias.valid() ? factor_of(bias, rows) : at.full(DType::kF32, {rows.inner.elements()}, 0);
  const bool statistics = at.wants(1) || at.wants(2);
  const bool fused = gain.valid() && offset.valid() && is_fused(a);
  if (fused) output = reshape(ops::layer_norm(rows.flat, gain, offset, epsilon), a.shape());
  if (fused && !statistics) return {output};
  const Tensor x = wide(a), mean = reduce_mean(x, rows.axes, true), apart = subtract(x, mean);
  const Tensor inverse = rsqrt(add_scalar(reduce_mean(map_unary("square", apart), rows.axes, true), epsilon));
  if (!fused) {
    output = multiply(multiply(apart, inverse), in_type(at.input(1), x.dtype()));
    if (bias.valid()) output = add(output, in_type(bias, x.dtype()));
    output = in_type(output, a.dtype());
  }
  const DType stash = at.integer("stash_type", 1) == 1 ? DType::kF32 : a.dtype();
  return {output, in_type(mean, stash), in_type(inverse, stash)};
}

Values rms_norm(const OnnxCall& at) {
  const Tensor a = at.input(0), scale_input = at.input(1);
  const double epsilon = at.number("epsilon", 1e-5);
  const Rows rows = rows_of(at, a);
  const Tensor gain = factor_of(scale_input, rows);
  if (gain.valid() && is_fused(a) && a.dtype() == scale_input.dtype())
    return {reshape(ops::rms_norm(rows.flat, gain, epsilon), a.shape())};
  const Tensor x = wide(a);
  const Tensor inverse = rsqrt(add_scalar(reduce_mean(map_unary("square", x), rows.axes, true), epsilon));
  return {in_type(multiply(multiply(x, inverse), in_type(scale_input, x.dtype())), scale_input.dtype())};
}

Values local_response_norm(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int64_t size = at.integer("size");
  return {ops::local_response_norm(a, size, at.number("alpha", 1e-4), at.number("beta", 0.75), at.number("bias", 1),
                                   false, (size - 1) / 2)};
}

Values lp_norm(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int64_t axis = at.axis("axis", a.shape().rank(), -1);
  return {through_f32(a, [&](Tensor b) {
    const Tensor norm = vector_norm(b, static_cast<double>(at.integer("p", 2)), {axis}, true);
    const Tensor zero = at.full(b.dtype(), {}, 0);
    // A line of zeros stays one.
    return select(equal(norm, zero), broadcast_to(zero, b.shape()), divide(b, norm));
  })};
}

Values mean_variance_norm(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const std::vector<int64_t> axes = checked_axes(at.integers("axes", {0, 2, 3}), a.shape().rank());
  return {through_f32(a, [&](Tensor b) {
    const Tensor apart = subtract(b, reduce_mean(b, axes, true));
    return divide(apart, add_scalar(ops::sqrt(reduce_mean(map_unary("square", apart), axes, true)), 1e-9));
  })};
}

constexpr OnnxEntry kEntries[] = {
    {"BatchNormalization", batch_norm},
    {"GroupNormalization", group_norm},
    {"InstanceNormalization", instance_norm},
    {"LRN", local_response_norm},
    {"LayerNormalization", layer_norm},
    {"LpNormalization", lp_norm},
    {"MeanVarianceNormalization", mean_variance_norm},
    {"RMSNormalization", rms_norm},
};

}  // namespace

std::span<const OnnxEntry> onnx_norm_operators() { return kEntries; }

}  // namespace ramet::front

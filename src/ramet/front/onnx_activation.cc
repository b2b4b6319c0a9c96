// ONNX's activations.
#include <limits>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

Values relu(const OnnxCall& at) { return {ops::relu(at.input(0))}; }
Values tanh(const OnnxCall& at) { return {ops::tanh(at.input(0))}; }
Values sigmoid(const OnnxCall& at) { return {ops::sigmoid(at.input(0))}; }
Values leaky_relu(const OnnxCall& at) { return {ops::leaky_relu(at.input(0), at.number("alpha", 0.01))}; }
Values elu(const OnnxCall& at) { return {ops::elu(at.input(0), at.number("alpha", 1))}; }
Values celu(const OnnxCall& at) { return {ops::celu(at.input(0), at.number("alpha", 1))}; }
Values selu(const OnnxCall& at) {
  const double alpha = at.number("alpha", 1.67326319217681884765625),
               gamma = at.number("gamma", 1.05070102214813232421875);
  return {scale(ops::elu(at.input(0), alpha), gamma)};
}
Values prelu(const OnnxCall& at) {
  const Tensor a = at.input(0);
  Tensor slope = at.input(1);
  if (at.version() < 7 && slope.shape().rank() == 1 && slope.dim(0) > 1)
    slope = along_channels(slope, a.shape().rank());
  const Tensor zero = at.full(a.dtype(), {}, 0);
  if (is_floating(a.dtype())) return {ops::prelu(a, slope)};
  return {select(less(a, zero), multiply(a, slope), a)};
}
Values hard_sigmoid(const OnnxCall& at) {
  return {hardsigmoid(at.input(0), at.number("alpha", 0.2), at.number("beta", 0.5))};
}
Values hard_swish(const OnnxCall& at) { return {hardswish(at.input(0))}; }
Values softplus(const OnnxCall& at) { return {map_unary("softplus", at.input(0))}; }
Values softsign(const OnnxCall& at) { return {ops::softsign(at.input(0))}; }
Values mish(const OnnxCall& at) { return {ops::mish(at.input(0))}; }
Values thresholded_relu(const OnnxCall& at) { return {thresholded(at.input(0), at.number("alpha", 1))}; }
Values gelu(const OnnxCall& at) {
  return {at.text("approximate", "none") == "tanh" ? gelu_tanh(at.input(0)) : ops::gelu(at.input(0))};
}
/// a sigmoid(alpha a)
Tensor swish_of(Tensor a, double alpha) {
  if (alpha == 1) return silu(a);
  return multiply(a, ops::sigmoid(scale(a, alpha)));
}
Values swish(const OnnxCall& at) { return {swish_of(at.input(0), at.number("alpha", 1))}; }
Values shrink(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const double lambda = at.number("lambd", 0.5), bias = at.number("bias", 0);
  if (is_floating(a.dtype())) return {ops::shrink(a, lambda, bias)};
  return {in_type(ops::shrink(cast(a, DType::kF64), lambda, bias), a.dtype())};
}

/// A function of rows: over one axis since opset 13; before, over all dimensions from `axis` on.
Values over_rows(const OnnxCall& at, const std::function<Tensor(Tensor, int64_t)>& compute) {
  const Tensor a = at.input(0);
  const int rank = a.shape().rank();
  if (at.version() >= 13) return {through_f32(a, [&](Tensor b) { return compute(b, at.axis("axis", rank, -1)); })};
  const int axis = at.axis("axis", rank, 1);
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= a.dim(i);
  const Tensor flat = reshape(a, {rows, rows == 0 ? 0 : a.shape().elements() / rows});
  return {reshape(through_f32(flat, [&](Tensor b) { return compute(b, -1); }), a.shape())};
}
Values softmax(const OnnxCall& at) {
  const DType dtype = at.input(0).dtype();
  if (size_of(dtype) >= 4) return over_rows(at, [](Tensor a, int64_t axis) { return ops::softmax(a, axis); });
  // Rounded step by step this is no op softmax, which fuse_graph guards: rows that are hidden whole have a gradient of
  // 0.
  return over_rows(at, [&](Tensor a, int64_t axis) {
    return guarded_softmax(a, axis, dtype, std::numeric_limits<double>::quiet_NaN());
  });
}
Values log_softmax(const OnnxCall& at) {
  return over_rows(at, [](Tensor a, int64_t axis) { return ops::log_softmax(a, axis); });
}
Values hardmax(const OnnxCall& at) {
  return over_rows(at, [](Tensor a, int64_t axis) { return ops::hardmax(a, axis); });
}

constexpr OnnxEntry kEntries[] = {
    {"Celu", celu},
    {"Elu", elu},
    {"Gelu", gelu},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"Hardmax", hardmax},
    {"LeakyRelu", leaky_relu},
    {"LogSoftmax", log_softmax},
    {"Mish", mish},
    {"PRelu", prelu},
    {"Relu", relu},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Sigmoid", sigmoid},
    {"Softmax", softmax},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"Swish", swish},
    {"Tanh", tanh},
    {"ThresholdedRelu", thresholded_relu},
};

}  // namespace

std::span<const OnnxEntry> onnx_activation_operators() { return kEntries; }

}  // namespace ramet::front

#include <cmath>
#include <limits>

#include "ramet/front/aten_network.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_reductions.h"

// Norms: of batches, groups, instances, layers, and of weights.

namespace ramet::front {
namespace {

double epsilon_of(const Translation& at) { return at.has("epsilon") ? at.number("epsilon") : at.number("eps", 1e-5); }

/// 1 / sqrt(variance + epsilon).
Tensor inverse_deviation(Tensor variance, double epsilon) { return rsqrt(add_scalar(variance, epsilon)); }

// --- batch norm ---

/// The next value of a running statistic, as output `index` or, where torch changes the buffer itself, as no output.
Tensor run_on(const Translation& at, const char* buffer, size_t index, double momentum, Tensor value) {
  if (!at.has(buffer)) return {};
  value = without_gradient(value);
  at.fold_buffer(buffer, index, "average", momentum, value);
  const Tensor running = at.tensor(buffer);
  return add(scale(running, 1 - momentum), scale(value, momentum));
}

double momentum_of(const Translation& at) {
  return at.has("exponential_average_factor") ? at.number("exponential_average_factor") : at.number("momentum", 0.1);
}

/// `running`: number of the outputs that stand before the running statistics; 0 where these are no outputs.
std::vector<Tensor> train_batch_norm(const Translation& at, size_t running) {
  const Tensor a = at.tensor("input");
  const double epsilon = epsilon_of(at);
  const BatchNorm made = batch_norm(a, at.tensor_if("weight"), at.tensor_if("bias"), epsilon);
  std::vector<Tensor> outputs{made.output, made.mean, {}};
  if (running == 0) {
    if (at.has("running_mean"))
      at.refuse("a batch norm that changes its buffers in place", "Export with run_decompositions({})");
    if (at.call().outputs.size() > 2 && at.reads(2)) outputs[2] = inverse_deviation(made.variance, epsilon);
    outputs.resize(at.call().outputs.size());
    return outputs;
  }
  if (at.reads(2)) outputs[2] = inverse_deviation(made.variance, epsilon);
  outputs.resize(running);
  const double count = static_cast<double>(a.type().elements()) / static_cast<double>(a.dim(1));
  const double momentum = momentum_of(at);
  outputs.push_back(run_on(at, "running_mean", running, momentum, made.mean));
  // PyTorch keeps the estimate of the variance, which divides by one less.
  const Tensor estimate = scale(made.variance, count / (count - 1));
  outputs.push_back(run_on(at, "running_var", running + 1, momentum, estimate));
  return outputs;
}

std::vector<Tensor> apply_batch_norm(const Translation& at) {
  const double epsilon = epsilon_of(at);
  const Tensor mean = at.tensor("running_mean"), variance = at.tensor("running_var");
  std::vector<Tensor> outputs{batch_norm_apply(at.tensor("input"), at.tensor_if("weight"), at.tensor_if("bias"),
                                               in_f32(mean), in_f32(variance), epsilon)};
  outputs.resize(at.call().outputs.size());
  return outputs;
}

std::vector<Tensor> functional_batch_norm(const Translation& at) {
  if (at.flag("training", true)) return train_batch_norm(at, 3);
  std::vector<Tensor> outputs = apply_batch_norm(at);
  outputs[3] = at.tensor("running_mean"), outputs[4] = at.tensor("running_var");
  return outputs;
}
std::vector<Tensor> any_batch_norm(const Translation& at) {
  return at.flag("training") ? train_batch_norm(at, 0) : apply_batch_norm(at);
}
std::vector<Tensor> updating_batch_norm(const Translation& at) { return train_batch_norm(at, 4); }

// --- norms of a sample ---

std::vector<Tensor> group_norms(const Translation& at) {
  const bool native = at.has("group");
  const int64_t groups = at.integer(native ? "group" : "num_groups");
  const double epsilon = epsilon_of(at);
  const Tensor a = at.tensor("input");
  std::vector<Tensor> outputs{group_norm(a, at.tensor_if("weight"), at.tensor_if("bias"), groups, epsilon)};
  outputs.resize(at.call().outputs.size());
  if (native && (at.reads(1) || at.reads(2))) {
    const auto [mean, variance] = channel_moments(a, groups);
    outputs[1] = in_shape_of_result(at, mean, 1);
    outputs[2] = in_shape_of_result(at, inverse_deviation(variance, epsilon), 2);
  }
  return outputs;
}

std::vector<Tensor> instance_norms(const Translation& at) {
  const Tensor a = at.tensor("input"), gain = at.tensor_if("weight"), bias = at.tensor_if("bias");
  if (!at.flag("use_input_stats"))
    return {batch_norm_apply(a, gain, bias, in_f32(at.tensor("running_mean")), in_f32(at.tensor("running_var")),
                             epsilon_of(at))};
  // record_statistics() has taken those statistics out that a training can change.
  if (at.trains() && at.has("running_mean"))
    at.refuse("an instance norm that changes running statistics of another kind than f32 of its channels",
              "Set track_running_stats=False");
  return {instance_norm(a, gain, bias, epsilon_of(at))};
}

/// The tensor with its normalised dimensions joined into the last one, and how many elements that has.
struct LastJoined {
  Tensor a;
  int64_t count = 1;
};
LastJoined join_normalised(const Translation& at) {
  LastJoined joined{at.tensor("input")};
  const std::vector<int64_t> normalised = at.integers("normalized_shape");
  std::vector<int64_t> dims = joined.a.shape().dims();
  if (normalised.size() > dims.size() || normalised.empty())
    at.refuse("a normalized_shape of other rank than the input");
  if (normalised.size() == 1) return {joined.a, normalised[0]};
  for (const int64_t extent : normalised) joined.count *= extent;
  dims.resize(dims.size() - normalised.size());
  dims.push_back(joined.count);
  joined.a = reshape(joined.a, Shape(dims));
  return joined;
}

/// A gain or bias as a vector, `value` where the call has none.
Tensor vector_of(const Translation& at, const char* name, const LastJoined& joined, double value) {
  const Tensor given = at.tensor_if(name);
  if (!given.valid()) return full(at.build(), joined.a.dtype(), {joined.count}, value);
  return given.shape().rank() == 1 ? given : reshape(given, {joined.count});
}

std::vector<Tensor> layer_norms(const Translation& at) {
  const LastJoined joined = join_normalised(at);
  const double epsilon = epsilon_of(at);
  const Tensor made =
      layer_norm(joined.a, vector_of(at, "weight", joined, 1), vector_of(at, "bias", joined, 0), epsilon);
  std::vector<Tensor> outputs{in_shape_of_result(at, made)};
  outputs.resize(at.call().outputs.size());
  if (outputs.size() == 3 && (at.reads(1) || at.reads(2))) {
    const Tensor wide = in_f32(joined.a);
    outputs[1] = in_shape_of_result(at, reduce_mean(wide, {-1}), 1);
    outputs[2] = in_shape_of_result(at, inverse_deviation(variance(wide, {-1}, 0), epsilon), 2);
  }
  return outputs;
}

double smallest_step(DType dtype) {
  switch (dtype) {
    case DType::kF64: return std::numeric_limits<double>::epsilon();
    case DType::kBF16: return 0x1p-7;
    case DType::kF16: return 0x1p-10;
    default: return static_cast<double>(std::numeric_limits<float>::epsilon());
  }
}

std::vector<Tensor> rms_norms(const Translation& at) {
  const LastJoined joined = join_normalised(at);
  const double epsilon = at.number("eps", smallest_step(at.result().dtype));
  const Tensor made = rms_norm(joined.a, vector_of(at, "weight", joined, 1), epsilon);
  std::vector<Tensor> outputs{in_shape_of_result(at, made)};
  outputs.resize(at.call().outputs.size());
  if (outputs.size() == 2 && at.reads(1)) {
    const Tensor squares = map_unary("square", in_f32(joined.a));
    outputs[1] = in_shape_of_result(at, inverse_deviation(reduce_mean(squares, {-1}), epsilon), 1);
  }
  return outputs;
}

/// v g / |v|, with a norm for each index of dimension `dim`; -1 is one norm of all.
std::vector<Tensor> weight_norms(const Translation& at) {
  const Tensor v = at.tensor("v");
  const int64_t dim = at.integer("dim", 0);
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < v.shape().rank(); ++axis)
    if (axis != dim) axes.push_back(axis);
  const Tensor norm = axes.empty() ? map_unary("abs", v) : vector_norm(v, 2, axes, true);
  std::vector<Tensor> outputs{multiply(v, divide(at.tensor("g"), norm))};
  if (at.call().outputs.size() > 1) outputs.push_back(norm);
  return outputs;
}

constexpr OperatorEntry kOperators[] = {
    {"aten._native_batch_norm_legit_functional", functional_batch_norm},
    {"aten._batch_norm_with_update_functional", updating_batch_norm},
    {"aten._native_batch_norm_legit", any_batch_norm},
    {"aten._native_batch_norm_legit_no_training", apply_batch_norm},
    {"aten._batch_norm_no_update", apply_batch_norm},
    {"aten.native_batch_norm", any_batch_norm},
    {"aten.batch_norm", any_batch_norm},
    {"aten.cudnn_batch_norm", any_batch_norm},
    {"aten.miopen_batch_norm", any_batch_norm},
    {"aten.group_norm", group_norms},
    {"aten.native_group_norm", group_norms},
    {"aten.instance_norm", instance_norms},
    {"aten.layer_norm", layer_norms},
    {"aten.native_layer_norm", layer_norms},
    {"aten.rms_norm", rms_norms},
    {"aten._fused_rms_norm", rms_norms},
    {"aten._weight_norm", weight_norms},
    {"aten._weight_norm_interface", weight_norms},
};

}  // namespace

std::span<const OperatorEntry> norm_operators() { return kOperators; }

}  // namespace ramet::front

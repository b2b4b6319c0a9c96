#include <limits>

#include "ramet/front/aten_network.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"

// Activations, softmax and its kin.

namespace ramet::front {
namespace {

/// The operand as floats.
Tensor self_of(const Translation& at) {
  const Tensor a = at.tensor("self");
  return is_floating(a.dtype()) ? a : cast(a, at.result().dtype);
}

template <Tensor (*kFunction)(Tensor)>
std::vector<Tensor> plain(const Translation& at) {
  return {kFunction(self_of(at))};
}

std::vector<Tensor> relus(const Translation& at) {
  const Tensor a = at.tensor("self");
  return {is_floating(a.dtype()) ? relu(a) : clamp(a, 0, std::nullopt)};
}

std::vector<Tensor> gelus(const Translation& at) {
  const std::string form = at.text("approximate", "none");
  if (form != "none" && form != "tanh") at.refuse("unknown form of gelu '" + form + "'");
  return {form == "none" ? gelu(self_of(at)) : gelu_tanh(self_of(at))};
}

std::vector<Tensor> hardtanhs(const Translation& at) {
  return {clamp(at.tensor("self"), at.number("min_val", -1), at.number("max_val", 1))};
}
std::vector<Tensor> relu6s(const Translation& at) { return {clamp(at.tensor("self"), 0, 6)}; }

std::vector<Tensor> hardsigmoids(const Translation& at) { return {hardsigmoid(self_of(at))}; }

/// scale (a where a > 0, else alpha (e^(input_scale a) - 1)).
std::vector<Tensor> elus(const Translation& at) {
  const Tensor a = self_of(at);
  const double alpha = at.number("alpha", 1), factor = at.number("scale", 1), inner = at.number("input_scale", 1);
  Tensor made;
  if (inner == 1) {
    made = elu(a, alpha);
  } else if (alpha > 0 && inner * alpha == 1) {
    made = celu(a, alpha);
  } else {
    const Tensor zero = full(at.build(), a.dtype(), {}, 0);
    const Tensor below = scale(map_unary("expm1", scale(minimum(a, zero), inner)), alpha);
    made = select(map_binary("greater", a, zero), a, below);
  }
  return {factor == 1 ? made : scale(made, factor)};
}

std::vector<Tensor> celus(const Translation& at) { return {celu(self_of(at), at.number("alpha", 1))}; }
std::vector<Tensor> leaky_relus(const Translation& at) {
  return {leaky_relu(self_of(at), at.number("negative_slope", 0.01))};
}

std::vector<Tensor> prelus(const Translation& at) {
  const Tensor a = at.tensor("self");
  Tensor slope = at.tensor("weight");
  if (slope.type().elements() == 1) {
    slope = reshape(slope, {});
  } else if (slope.shape().rank() == 1 && a.shape().rank() > 2) {
    std::vector<int64_t> dims(static_cast<size_t>(a.shape().rank() - 1), 1);
    dims[0] = slope.dim(0);
    slope = reshape(slope, Shape(dims));
  }
  return {prelu(a, slope)};
}
std::vector<Tensor> prelu_kernels(const Translation& at) { return {prelu(at.tensor("self"), at.tensor("weight"))}; }

/// Without training the slope is the middle of its range.
std::vector<Tensor> rrelus(const Translation& at) {
  const Tensor a = self_of(at);
  const double low = at.number("lower", 0.125), high = at.number("upper", 1.0 / 3);
  std::vector<Tensor> outputs;
  if (!at.flag("training", false)) {
    outputs.push_back(leaky_relu(a, (low + high) / 2));
  } else {
    outputs.push_back(prelu(a, random_uniform(draws_of(at), a.shape(), low, high, a.dtype())));
  }
  outputs.resize(at.call().outputs.size());
  if (outputs.size() > 1 && at.reads(1)) at.refuse("the slopes of rrelu as a result");
  return outputs;
}

std::vector<Tensor> softpluses(const Translation& at) {
  return {softplus(self_of(at), at.number("beta", 1), at.number("threshold", 20))};
}
std::vector<Tensor> softshrinks(const Translation& at) { return {softshrink(self_of(at), at.number("lambd", 0.5))}; }
std::vector<Tensor> hardshrinks(const Translation& at) { return {hardshrink(self_of(at), at.number("lambd", 0.5))}; }
std::vector<Tensor> thresholds(const Translation& at) {
  return {thresholded(at.tensor("self"), at.number("threshold"), at.number("value"))};
}
std::vector<Tensor> glus(const Translation& at) { return {glu(at.tensor("self"), at.integer("dim", -1))}; }

std::vector<Tensor> log_sigmoids(const Translation& at) {
  std::vector<Tensor> outputs{log_sigmoid(self_of(at))};
  outputs.resize(at.call().outputs.size());
  if (outputs.size() > 1 && at.reads(1)) at.refuse("the buffer of log_sigmoid_forward as a result");
  return outputs;
}

/// The operand of a softmax in the type of the result, in which PyTorch computes.
Tensor softmax_operand(const Translation& at) {
  const Tensor a = at.tensor("self");
  const Tensor typed = a.dtype() == at.result().dtype ? a : cast(a, at.result().dtype);
  return typed.shape().rank() == 0 ? reshape(typed, {1}) : typed;
}

template <Tensor (*kFunction)(Tensor, int64_t)>
std::vector<Tensor> softmaxes(const Translation& at) {
  return {in_shape_of_result(at, kFunction(softmax_operand(at), at.integer("dim")))};
}

/// Softmax, and 0 where all elements are -infinity.
std::vector<Tensor> safe_softmaxes(const Translation& at) {
  const Tensor a = softmax_operand(at);
  const int64_t axis = at.integer("dim");
  const Tensor least = full(at.build(), a.dtype(), {}, -std::numeric_limits<double>::infinity());
  const Tensor hidden = equal(reduce_max(a, {axis}, true), least);
  const Tensor zero = full(at.build(), a.dtype(), {}, 0);
  return {in_shape_of_result(at, select(hidden, zero, softmax(select(hidden, zero, a), axis)))};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.relu", relus},
    {"aten.sigmoid", plain<sigmoid>},
    {"aten.tanh", plain<tanh>},
    {"aten.gelu", gelus},
    {"aten.silu", plain<silu>},
    {"aten.mish", plain<mish>},
    {"aten.hardswish", plain<hardswish>},
    {"aten.hardsigmoid", hardsigmoids},
    {"aten.hardtanh", hardtanhs},
    {"aten.relu6", relu6s},
    {"aten.elu", elus},
    {"aten.selu", plain<selu>},
    {"aten.celu", celus},
    {"aten.leaky_relu", leaky_relus},
    {"aten.prelu", prelus},
    {"aten._prelu_kernel", prelu_kernels},
    {"aten.rrelu", rrelus},
    {"aten.rrelu_with_noise", rrelus},
    {"aten.rrelu_with_noise_functional", rrelus},
    {"aten.softplus", softpluses},
    {"aten.softshrink", softshrinks},
    {"aten.hardshrink", hardshrinks},
    {"aten.threshold", thresholds},
    {"aten.glu", glus},
    {"aten.log_sigmoid", log_sigmoids},
    {"aten.log_sigmoid_forward", log_sigmoids},
    {"aten.softmax", softmaxes<softmax>},
    {"aten._softmax", softmaxes<softmax>},
    {"aten.special_softmax", softmaxes<softmax>},
    {"aten.log_softmax", softmaxes<log_softmax>},
    {"aten._log_softmax", softmaxes<log_softmax>},
    {"aten.special_log_softmax", softmaxes<log_softmax>},
    {"aten._safe_softmax", safe_softmaxes},
};

}  // namespace

std::span<const OperatorEntry> activation_operators() { return kOperators; }

}  // namespace ramet::front

#include <cmath>

#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/scaling_rules.h"

// A scale whose gradient has a factor of its own: what unit scaling writes its factors down with.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

std::vector<TensorType> infer_rescale(const NodeSignature& node) {
  require_floating(node, 0, "a");
  for (const char* name : {"forward", "backward"})
    if (!std::isfinite(node.attributes.get_float(name)))
      refuse(node, std::string("attribute '") + name + "' is not a number", text_of(node.attributes.get_float(name)));
  return {node.inputs[0]};
}

}  // namespace

void register_rescale_op(OpRegistry& registry) {
  OpDef op;
  op.name = "rescale";
  op.doc = "a * forward, whose gradient is dy * backward";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {{"forward", Kind::kFloat, true, "factor"}, {"backward", Kind::kFloat, true, "the gradient's"}};
  op.infer = infer_rescale;
  op.gradient = [](GradientContext& context) {
    return std::vector{scale(context.output_gradients[0], context.node.attributes.get_float("backward"))};
  };
  // Once differentiated, only the forward factor matters.
  op.simplify = [](SimplifyContext& context) {
    const double forward = context.node.attributes.get_float("forward");
    return forward == 1 ? context.inputs[0] : scale(context.inputs[0], forward);
  };
  op.sharding = elementwise_sharding;
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 1); };
  op.cheap = true;
  op.scaling = passing_rule();
  op.scaling.forward = [](const ScalingContext& context) {
    return std::vector{scaled(context.inputs[0], context.node.attributes.get_float("forward"))};
  };
  op.scaling.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    return std::vector{scaled(gradients[0], context.node.attributes.get_float("backward"))};
  };
  op.scaling.passes = false;
  registry.add(std::move(op));
}

Tensor rescale(Tensor a, double forward, double backward) {
  return a.builder->op("rescale", {a}, {{"forward", forward}, {"backward", backward}});
}

}  // namespace ramet::ops

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"

namespace ramet {
namespace {

void check_logits(const NodeSignature& node) {
  require_floating(node, 0, "logits");
  require_rank(node, 0, "logits", 2, 2);
  if (node.inputs[0].shape[1] < 1) refuse(node, "no classes", node.inputs[0].text(), "logits [rows, classes >= 1]");
  require_type(node, 1, "labels", {DType::kI32, Shape{node.inputs[0].shape[0]}});
}

std::vector<TensorType> infer_cross_entropy(const NodeSignature& node) {
  check_logits(node);
  return {scalar_f32(), scalar_f32(), scalar_f32(), {DType::kF32, Shape{node.inputs[0].shape[0]}}};
}

std::vector<TensorType> infer_cross_entropy_grad(const NodeSignature& node) {
  check_logits(node);
  require_type(node, 2, "lse", {DType::kF32, Shape{node.inputs[0].shape[0]}});
  require_type(node, 3, "count", scalar_f32());
  require_type(node, 4, "dloss", scalar_f32());
  return {node.inputs[0]};
}

/// The numbers of rows and of right ones do not change with the logits, so that only the loss has a gradient.
std::vector<Tensor> cross_entropy_gradient(GradientContext& context) {
  if (context.output_gradients[3].valid())
    refuse(context.node, "output 3 (lse) has no gradient", "", "", "Use log_softmax to differentiate through it");
  const Tensor dloss = context.output_gradients[0];
  if (!dloss.valid()) return std::vector<Tensor>(2);
  return {context.build.op("cross_entropy_grad", {context.inputs[0], context.inputs[1], context.outputs[3],
                                                  context.outputs[1], cast_to(dloss, DType::kF32)}),
          {}};
}

Cost cross_entropy_cost(const NodeSignature& node) {
  return streaming_cost(node, 6.0 * static_cast<double>(node.inputs[0].elements()));
}

}  // namespace

void register_loss_ops(OpRegistry& registry) {
  // The mean over rows is one sum in one order divided once: rows are whole. Its gradient is row by row: rows are free.
  registry.add(
      {.name = "cross_entropy",
       .doc = "(logits [n,v], labels i32[n], -1 = ignored) -> mean loss f32[], rows counted f32[], rows whose "
              "argmax is the label f32[], log-sum-exp f32[n]; a label >= v is an error at run time",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {},
       .infer = infer_cross_entropy,
       .gradient = cross_entropy_gradient,
       .sharding =
           [](const NodeSignature& node) { return ShardingRule::parse("([!n,!v],[!n])->([],[],[],[!n])", node); },
       .cost = cross_entropy_cost});
  registry.add(
      {.name = "cross_entropy_grad",
       .doc = "(logits [n,v], labels, lse, count, dloss) -> dlogits = (softmax - one_hot) dloss / count, 0 in "
              "ignored rows",
       .min_inputs = 5,
       .max_inputs = 5,
       .attributes = {},
       .infer = infer_cross_entropy_grad,
       .gradient = {},
       .sharding =
           [](const NodeSignature& node) { return ShardingRule::parse("([n,!v],[n],[n],[],[])->[n,!v]", node); },
       .cost = cross_entropy_cost,
       .full_inputs = {2, 3, 4}});
}

CrossEntropy cross_entropy(Tensor logits, Tensor labels) {
  const std::vector<Tensor> outputs = logits.builder->ops("cross_entropy", {logits, labels});
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace ramet

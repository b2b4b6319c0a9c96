#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/softmax_statistics.h"

// The losses of single rows from softmax_statistics, for cross-entropies that weigh or keep rows (ops/build_loss.cc).

namespace ramet::ops {
namespace {

void check_statistics(const NodeSignature& node) {
  const TensorType& type = node.inputs[0];
  if (type.dtype != DType::kF32 || type.shape.rank() != 3 || type.shape[1] < 1 || type.shape[2] != kStatistics)
    refuse(node, "input 0 (statistics) has the wrong type", type.text(), "f32[rows,chunks,4]");
}

TensorType rows_of(const NodeSignature& node) { return {DType::kF32, Shape{node.inputs[0].shape[0]}}; }

std::vector<TensorType> infer_rows(const NodeSignature& node) {
  check_statistics(node);
  return {rows_of(node), rows_of(node), rows_of(node)};
}

std::vector<TensorType> infer_rows_grad(const NodeSignature& node) {
  check_statistics(node);
  require_type(node, 1, "dlse", rows_of(node));
  require_type(node, 2, "dloss", rows_of(node));
  return {node.inputs[0]};
}

/// Whether a row has a label does not change with the logits.
std::vector<Tensor> rows_gradient(GradientContext& context) {
  const auto slope = [&](size_t output) {
    const Tensor given = context.output_gradients[output];
    return given.valid() ? given : zeros(context.build, context.node.outputs[output]);
  };
  if (!context.output_gradients[0].valid() && !context.output_gradients[1].valid()) return std::vector<Tensor>(1);
  return {context.build.op("cross_entropy_rows_grad", {context.inputs[0], slope(0), slope(1)})};
}

std::function<Cost(const NodeSignature&)> flops_each(double flops) {
  return [flops](const NodeSignature& node) {
    return streaming_cost(node, flops * static_cast<double>(node.inputs[0].elements()));
  };
}

}  // namespace

void register_loss_row_ops(OpRegistry& registry) {
  registry.add(
      {.name = "cross_entropy_rows",
       .doc = "(statistics [n,chunks,4] of softmax_statistics) -> of each row log-sum-exp f32[n], loss f32[n] "
              "(log-sum-exp less the label's logit, 0 without a label), whether it has a label f32[n]",
       .min_inputs = 1,
       .max_inputs = 1,
       .attributes = {},
       .infer = infer_rows,
       .gradient = rows_gradient,
       .sharding = [](const NodeSignature& node) { return ShardingRule::parse("([n,!c,!f])->([n],[n],[n])", node); },
       .cost = flops_each(6),
       .full_inputs = {0}});
  registry.add(
      {.name = "cross_entropy_rows_grad",
       .doc = "(statistics [n,chunks,4], dlse f32[n], dloss f32[n]) -> dstatistics",
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = {},
       .infer = infer_rows_grad,
       .gradient = {},
       .sharding =
           [](const NodeSignature& node) { return ShardingRule::parse("([n,!c,!f],[n],[n])->[n,!c,!f]", node); },
       .cost = flops_each(6),
       .full_inputs = {0, 1, 2}});
}

}  // namespace ramet::ops

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/position.h"
#include "ramet/ops/scaling_rules.h"
#include "ramet/ops/softmax_statistics.h"

// Cross-entropy is two ops, so that classes may be cut among devices: softmax_statistics sums up each chunk of a row,
// cross_entropy joins the chunks along the balanced tree, wherever they were made.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

void check_logits(const NodeSignature& node) {
  require_floating(node, 0, "logits");
  require_rank(node, 0, "logits", 2, 2);
  if (node.inputs[0].shape[1] < 1) refuse(node, "no classes", node.inputs[0].text(), "logits [rows, classes >= 1]");
  require_type(node, 1, "labels", {DType::kI32, Shape{node.inputs[0].shape[0]}});
  const Position position(node);
  if (const int64_t classes = class_count(node, position); classes < 1 || classes > position.logical()[1])
    refuse(node, "more classes than logits, or none", "classes=" + std::to_string(classes),
           "1 to " + std::to_string(position.logical()[1]));
}

TensorType statistics_type(int64_t rows, int64_t chunks) { return {DType::kF32, Shape{rows, chunks, kStatistics}}; }

std::vector<TensorType> infer_softmax_statistics(const NodeSignature& node) {
  check_logits(node);
  const int64_t chunks = node.attributes.get_int_or("chunks", 1), classes = node.inputs[0].shape[1];
  if (chunks < 1 || classes % chunks != 0)
    refuse(node, "chunks must divide the classes", "chunks=" + std::to_string(chunks),
           "a divisor of " + std::to_string(classes), "Choose train.chunks that divides the size of the vocabulary");
  return {statistics_type(node.inputs[0].shape[0], chunks)};
}

void check_statistics(const NodeSignature& node, int input, const std::string& operand) {
  const TensorType& type = node.inputs[static_cast<size_t>(input)];
  if (type.dtype != DType::kF32 || type.shape.rank() != 3 || type.shape[1] < 1 || type.shape[2] != kStatistics)
    refuse(node, "input " + std::to_string(input) + " (" + operand + ") has the wrong type", type.text(),
           "f32[rows,chunks,4]");
}

std::vector<TensorType> infer_softmax_statistics_grad(const NodeSignature& node) {
  check_logits(node);
  check_statistics(node, 2, "statistics");
  const Shape &logits = node.inputs[0].shape, &statistics = node.inputs[2].shape;
  require_type(node, 2, "statistics", statistics_type(logits[0], statistics[1]));
  require_type(node, 3, "dstatistics", node.inputs[2]);
  if (logits[1] % statistics[1] != 0)
    refuse(node, "chunks must divide the classes", statistics.text(), "a divisor of " + std::to_string(logits[1]));
  return {node.inputs[0]};
}

std::vector<TensorType> infer_cross_entropy(const NodeSignature& node) {
  check_statistics(node, 0, "statistics");
  return {scalar_f32(), scalar_f32(), scalar_f32()};
}

std::vector<TensorType> infer_cross_entropy_grad(const NodeSignature& node) {
  check_statistics(node, 0, "statistics");
  require_type(node, 1, "count", scalar_f32());
  require_type(node, 2, "dloss", scalar_f32());
  return {node.inputs[0]};
}

std::vector<Tensor> softmax_statistics_gradient(GradientContext& context) {
  Attributes attributes;
  if (context.node.attributes.has("classes")) attributes.set("classes", context.node.attributes.get_int("classes"));
  return {context.build.op("softmax_statistics_grad",
                           {context.inputs[0], context.inputs[1], context.outputs[0], context.output_gradients[0]},
                           attributes),
          {}};
}

/// The numbers of rows and of right ones do not change with the logits, so that only the loss has a gradient.
std::vector<Tensor> cross_entropy_gradient(GradientContext& context) {
  const Tensor dloss = context.output_gradients[0];
  if (!dloss.valid()) return std::vector<Tensor>(1);
  return {context.build.op("cross_entropy_grad", {context.inputs[0], context.outputs[1], cast_to(dloss, DType::kF32)})};
}

std::function<Cost(const NodeSignature&)> flops_each(double flops) {
  return [flops](const NodeSignature& node) {
    return streaming_cost(node, flops * static_cast<double>(node.inputs[0].elements()));
  };
}

/// The gradient of a row's loss is p - onehot(label). Before training p is 1/v, and labels are alike as words are.
ScalingRule statistics_scaling() {
  ScalingRule rule = exact_rule();
  rule.logits = true;
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    const int64_t classes = context.node.attributes.get_int_or("classes", context.node.inputs[0].shape[1]);
    const double v = static_cast<double>(classes), all = static_cast<double>(context.node.inputs[0].shape[1]);
    Amplitude logits;
    logits.rms = gradients[0].rms * std::sqrt(std::max(v - 1, 1.0) / (v * all));
    logits.in_sample = logits.across = classes > 1 ? (same_word(classes) - 1 / v) / (1 - 1 / v) : 0;
    return std::vector<Amplitude>{logits, {.rms = 0}};
  };
  return rule;
}

/// The mean over rows gives each one of so many parts.
ScalingRule cross_entropy_scaling() {
  ScalingRule rule = exact_rule();
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    Amplitude statistics = exact_spread();
    statistics.rms = gradients[0].rms / static_cast<double>(std::max<int64_t>(1, context.node.inputs[0].shape[0]));
    return std::vector<Amplitude>{statistics};
  };
  return rule;
}

void register_statistics(OpRegistry& registry) {
  const AttributeSpec classes{"classes", Kind::kInt, false, "of the whole model's logits, how many are classes (all)"};
  registry.add(
      {.name = "softmax_statistics",
       .doc = "(logits [n,v], labels i32[n], < 0: ignored) -> f32[n,chunks,4] of each chunk of classes: greatest logit "
              "m, sum of exp(x - m), the label's logit, whether the label is there (1), first of the greatest (2); a "
              "label that is no class is an error at run time. Logits from `classes` on are padding: as if -infinity",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"chunks", Kind::kInt, false, "equal parts of the classes, summed apart (1)"}, classes},
       .infer = infer_softmax_statistics,
       .gradient = softmax_statistics_gradient,
       .sharding = [](const NodeSignature& node) { return ShardingRule::parse("([n,c*!v],[n])->[n,c,!f]", node); },
       .localize = localize_chunks,
       .chunked_extent = [](const NodeSignature& node) { return node.inputs[0].shape[1]; },
       .cost = flops_each(6),
       .positional = 0,
       .scaling = statistics_scaling()});
  registry.add({.name = "softmax_statistics_grad",
                .doc = "(logits [n,v], labels i32[n], statistics [n,chunks,4], dstatistics) -> dlogits",
                .min_inputs = 4,
                .max_inputs = 4,
                .attributes = {classes},
                .infer = infer_softmax_statistics_grad,
                .gradient = {},
                .sharding =
                    [](const NodeSignature& node) {
                      return ShardingRule::parse("([n,c*!v],[n],[n,c,!f],[n,c,!f])->[n,c*!v]", node);
                    },
                .cost = flops_each(6),
                .positional = 0,
                .full_inputs = {2, 3}});
}

}  // namespace

void register_loss_ops(OpRegistry& registry) {
  register_statistics(registry);
  // The mean over rows is one sum in one order divided once: rows are whole. Its gradient is row by row: rows are free.
  registry.add(
      {.name = "cross_entropy",
       .doc = "(statistics [n,chunks,4] of softmax_statistics) -> mean loss f32[] of the rows with a label, their "
              "number f32[], the number of those whose argmax is the label f32[]",
       .min_inputs = 1,
       .max_inputs = 1,
       .attributes = {{"in_order", Kind::kBool, false, "the sum over rows is one chain of additions in their order"}},
       .infer = infer_cross_entropy,
       .gradient = cross_entropy_gradient,
       .sharding = [](const NodeSignature& node) { return ShardingRule::parse("([!n,!c,!f])->([],[],[])", node); },
       .cost = flops_each(6),
       .full_inputs = {0},
       .scaling = cross_entropy_scaling()});
  registry.add(
      {.name = "cross_entropy_grad",
       .doc = "(statistics [n,chunks,4], count f32[], dloss f32[]) -> dstatistics, 0 in ignored rows",
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = {},
       .infer = infer_cross_entropy_grad,
       .gradient = {},
       .sharding = [](const NodeSignature& node) { return ShardingRule::parse("([n,!c,!f],[],[])->[n,!c,!f]", node); },
       .cost = flops_each(6),
       .full_inputs = {0, 1, 2}});
}

CrossEntropy cross_entropy(Tensor logits, Tensor labels, int64_t classes) {
  GraphBuilder& build = *logits.builder;
  Attributes attributes;
  if (classes > 0 && classes != logits.dim(1)) attributes.set("classes", classes);
  const std::vector<Tensor> outputs =
      build.ops("cross_entropy", {build.op("softmax_statistics", {logits, labels}, attributes)});
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace ramet::ops

#include "ramet/ops/exponents.h"

#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

std::vector<TensorType> infer_histogram(const NodeSignature& node) {
  require_floating(node, 0, "a");
  return {histogram_type()};
}

std::vector<TensorType> infer_sum(const NodeSignature& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    require_type(node, static_cast<int>(i), "a histogram", histogram_type());
  return {histogram_type()};
}

std::vector<TensorType> infer_share(const NodeSignature& node) {
  require_type(node, 0, "a histogram", histogram_type());
  const int64_t exponent = node.attributes.get_int("exponent");
  if (exponent < kLeastExponent || exponent > kMostExponent)
    refuse(node, "exponent is out of range", std::to_string(exponent),
           std::to_string(kLeastExponent) + " to " + std::to_string(kMostExponent));
  return {scalar_f32()};
}

/// Elements may be counted in parts.
ShardingRule histogram_sharding(const NodeSignature& node) {
  ShardingRule rule = ShardingRule::parse("([" + factor_names("d", node.inputs[0].shape.rank()) + "])->[!k]", node);
  for (auto& factor : rule.factors)
    if (!factor.whole) factor.reduce = ShardingRule::Reduce::kSum;
  return rule;
}

ShardingRule whole_histograms(const NodeSignature& node) {
  std::string text;
  for (size_t i = 0; i < node.inputs.size(); ++i) text += text.empty() ? "[!k]" : ",[!k]";
  return ShardingRule::parse("(" + text + ")->" + (node.outputs[0].shape.rank() ? "[!k]" : "[]"), node,
                             ShardingRule::Reduce::kNone);
}

OpDef counting_op(std::string name, std::string doc, int min_inputs, int max_inputs) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.min_inputs = min_inputs;
  op.max_inputs = max_inputs;
  op.sharding = whole_histograms;
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  return op;
}

}  // namespace

void register_exponent_ops(OpRegistry& registry) {
  OpDef histogram = counting_op("exponent_histogram",
                                "elements of a by their exponents as f32 -> i64[280], the bins of ops/exponents.h", 1, 1);
  histogram.infer = infer_histogram;
  histogram.sharding = histogram_sharding;
  histogram.cost = [](const NodeSignature& node) {
    return streaming_cost(node, static_cast<double>(node.inputs[0].elements()));
  };
  registry.add(std::move(histogram));

  OpDef sum = counting_op("histogram_sum", "(a, b, ...), histograms i64[280] of ops/exponents.h -> their sum", 1, -1);
  sum.infer = infer_sum;
  sum.regroups = true;
  registry.add(std::move(sum));

  OpDef share = counting_op("histogram_share",
                            "histogram i64[280] -> f32[]: of its elements that are not 0 the share that is 2^exponent or "
                            "more (below: less); 0 where there are none",
                            1, 1);
  share.attributes = {required_attribute("exponent", Kind::kInt, "the least power of two that is in the share"),
                      optional_attribute("below", Kind::kBool, "the share that is less (false)")};
  share.infer = infer_share;
  registry.add(std::move(share));
}

Tensor exponent_histogram(Tensor a) { return a.builder->op("exponent_histogram", {a}); }

Tensor histogram_sum(const std::vector<Tensor>& histograms) {
  return histograms.at(0).builder->ops("histogram_sum", histograms).at(0);
}

Tensor histogram_share(Tensor histogram, int64_t exponent, bool below) {
  Attributes attributes{{"exponent", exponent}};
  if (below) attributes.set("below", true);
  return histogram.builder->op("histogram_share", {histogram}, std::move(attributes));
}

}  // namespace ramet::ops

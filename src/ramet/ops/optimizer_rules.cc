#include "ramet/ops/optimizer_rules.h"

#include "ramet/base/rounding.h"
#include "ramet/ops/exact_sum.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rounding.h"

namespace ramet::ops {

bool is_split(const NodeSignature& node) { return node.attributes.get_bool_or("split", false); }

void check_update(const NodeSignature& node, std::initializer_list<const char*> names,
                  std::initializer_list<const char*> scalars) {
  const bool draws = rounds_stochastically(node);
  const size_t wanted = names.size() + scalars.size() + is_split(node) + draws;
  if (node.inputs.size() != wanted)
    refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()), std::to_string(wanted));
  int index = 0;
  for (const char* name : names) {
    require_floating(node, index, name);
    require_shape(node, index++, name, node.inputs[0].shape);
  }
  for (const char* name : scalars) require_type(node, index++, name, scalar_f32());
  if (!is_split(node)) return;
  require_type(node, 0, "w, the high half,", {DType::kBF16, node.inputs[0].shape});
  require_type(node, index, "the low half of w", {DType::kU16, node.inputs[0].shape});
}

double rate_attribute(const NodeSignature& node, const std::string& name, double least, double below) {
  const double value = node.attributes.get_float(name);
  if (!(value >= least && value < below))
    refuse(node, name + " is out of range", text_of(value), text_of(least) + " <= " + name + " < " + text_of(below));
  return value;
}

void check_decay(const NodeSignature& node) { rate_attribute(node, "weight_decay", 0, 1e30); }

ShardingRule update_sharding(const NodeSignature& node) {
  const std::string tensor = "[" + factor_names("d", node.inputs[0].shape.rank()) + "]";
  bool sums = false;
  // Input 0 says which operands are tensors: in a scalar weight's update all operands look alike, and are.
  const auto list = [&](const std::vector<TensorType>& types) {
    std::string text;
    for (const TensorType& type : types) {
      const bool sum = type == exact_type();
      sums = sums || sum;
      text += (text.empty() ? "" : ",") + (sum                      ? "[!k]"
                                           : type == counter_type() ? "[!c]"
                                           : type.shape.rank() == 0 ? std::string("[]")
                                                                    : tensor);
    }
    return "(" + text + ")";
  };
  const std::string text = list(node.inputs) + "->" + list(node.outputs);
  ShardingRule rule = ShardingRule::parse(text, node);
  for (auto& factor : rule.factors)
    if (sums && !factor.whole) factor.reduce = ShardingRule::Reduce::kSum;
  return rule;
}

std::function<Cost(const NodeSignature&)> flops_each(double flops) {
  return [flops](const NodeSignature& node) {
    return streaming_cost(node, flops * static_cast<double>(node.inputs[0].elements()));
  };
}

OpDef update_op(std::string name, std::string doc, int min_inputs, int max_inputs) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.min_inputs = min_inputs;
  op.max_inputs = max_inputs;
  op.sharding = update_sharding;
  op.precision = OpDef::Precision::kFull;
  return op;
}

}  // namespace ramet::ops

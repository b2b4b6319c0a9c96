#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

// Ops of states that are neither weights nor moments: constants, and what joins the values of micro-batches.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

/// A constant of one value needs no bytes.
Tensor as_full(SimplifyContext& context) {
  const HostTensor& tensor = context.node.attributes.get_tensor("data").tensor();
  if (tensor.elements() == 0) return {};
  const size_t size = size_of(tensor.type.dtype);
  // Each element equals the one before it.
  if (std::memcmp(tensor.data.data(), tensor.data.data() + size, tensor.data.size() - size) != 0) return {};
  const double value = tensor.get(0);
  HostTensor again(TensorType{tensor.type.dtype, Shape{1}});
  again.set(0, value);
  if (std::memcmp(again.data.data(), tensor.data.data(), size) != 0) return {};
  return full(context.build, tensor.type.dtype, tensor.type.shape, value);
}

OpDef constant_op() {
  OpDef op;
  op.name = "constant";
  op.doc = "a tensor that the graph carries";
  op.attributes = {required_attribute("data", Kind::kTensor, "the result")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    return {node.attributes.get_tensor("data").type()};
  };
  op.gradient_stops = true;
  op.simplify = as_full;
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    ShardingRule::Operand out;
    for (int64_t extent : node.outputs[0].shape.dims()) out.push_back({rule.factor(extent, true)});
    return rule.output(out).build();
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.scaling = constant_rule([](const NodeSignature& node) {
    const HostTensor& tensor = node.attributes.get_tensor("data").tensor();
    double squares = 0;
    for (int64_t i = 0; i < tensor.elements(); ++i) squares += tensor.get(i) * tensor.get(i);
    return std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, tensor.elements())));
  });
  return op;
}

OpDef fold_op() {
  OpDef op;
  op.name = "fold";
  op.doc =
      "a state s [...] and values [M, ...], all f32 -> s after all values in order of m: \"average\" "
      "s = (1 - momentum) s + momentum v, \"sum\" s + v, \"max\", \"min\" (NaN wins), \"last\" v; with guards (f32[], "
      "any "
      "number of them) the state stays as it is where one is not finite";
  op.min_inputs = 2;
  op.max_inputs = -1;
  op.attributes = {required_attribute("by", Kind::kString, "average, sum, max, min or last"),
                   optional_attribute("momentum", Kind::kFloat, "of an average, 0 to 1")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_dtype(node, 0, "the state", {DType::kF32});
    require_dtype(node, 1, "values", {DType::kF32});
    for (size_t i = 2; i < node.inputs.size(); ++i)
      if (node.inputs[i] != TensorType{DType::kF32, Shape{}})
        refuse(node, "a guard is one number", node.inputs[i].text(), "f32[]");
    std::vector<int64_t> dims = node.inputs[1].shape.dims();
    if (dims.empty() || std::vector<int64_t>(dims.begin() + 1, dims.end()) != node.inputs[0].shape.dims())
      refuse(node, "the values are no rows of the state's shape", node.inputs[1].text(),
             "[M, ...] for a state of " + node.inputs[0].text());
    const std::string& by = node.attributes.get_string("by");
    const std::vector<std::string> known = {"average", "sum", "max", "min", "last"};
    if (std::find(known.begin(), known.end(), by) == known.end())
      refuse(node, "unknown way to join values", "'" + by + "'", "average, sum, max, min or last");
    const double momentum = node.attributes.get_float_or("momentum", 0);
    if (node.attributes.has("momentum") != (by == "average") || !(momentum >= 0 && momentum <= 1))
      refuse(node, "wrong momentum", node.attributes.has("momentum") ? std::to_string(momentum) : "none",
             "0 to 1 for an average, none for other ways");
    return {node.inputs[0]};
  };
  op.gradient_stops = true;
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    ShardingRule::Operand state, values{{rule.factor(node.inputs[1].shape.dim(0), true)}};
    for (int64_t extent : node.inputs[0].shape.dims()) state.push_back({rule.factor(extent)});
    values.insert(values.end(), state.begin(), state.end());
    rule.input(state).input(values);
    for (size_t i = 2; i < node.inputs.size(); ++i) rule.input({});
    return rule.output(state).build();
  };
  op.cost = [](const NodeSignature& node) {
    return streaming_cost(node, 3.0 * static_cast<double>(node.inputs[1].elements()));
  };
  return op;
}

}  // namespace

void register_state_ops(OpRegistry& registry) {
  registry.add(constant_op());
  registry.add(fold_op());
}

Tensor constant(GraphBuilder& builder, TensorData data) {
  return builder.op("constant", {}, {{"data", std::move(data)}});
}
Tensor fold(Tensor state, Tensor values, const std::string& by, double momentum, const std::vector<Tensor>& guards) {
  Attributes attributes{{"by", by}};
  if (by == "average") attributes.set("momentum", momentum);
  std::vector<Tensor> inputs{state, values};
  inputs.insert(inputs.end(), guards.begin(), guards.end());
  return state.builder->ops("fold", inputs, attributes).at(0);
}

}  // namespace ramet::ops

#include "ramet/ops/rounding.h"

#include "ramet/base/hash.h"
#include "ramet/ops/build.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

double scale_attribute(const NodeSignature& node) {
  const double scale = node.attributes.has("scale") ? node.attributes.get_float("scale") : 1;
  if (!std::isfinite(scale)) refuse(node, "scale is not finite", text_of(Attribute(scale)));
  return scale;
}

void require_inputs(const NodeSignature& node, size_t tensors) {
  const size_t wanted = tensors + rounds_stochastically(node);
  if (node.inputs.size() != wanted)
    refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()), std::to_string(wanted));
}

std::vector<TensorType> infer_narrow(const NodeSignature& node) {
  require_inputs(node, 1);
  require_floating(node, 0, "a");
  scale_attribute(node);
  const DType dtype = node.attributes.get_dtype("dtype");
  if (!is_floating(dtype)) refuse(node, "cannot round to this type", std::string(name_of(dtype)), "a floating type");
  return {{dtype, node.inputs[0].shape}};
}

std::vector<TensorType> infer_accumulate(const NodeSignature& node) {
  require_inputs(node, 2);
  require_floating(node, 0, "sum");
  require_floating(node, 1, "term");
  require_shape(node, 1, "term", node.inputs[0].shape);
  scale_attribute(node);
  return {node.inputs[0]};
}

std::vector<TensorType> infer_join_halves(const NodeSignature& node) {
  require_dtype(node, 0, "high", {DType::kBF16});
  require_dtype(node, 1, "low", {DType::kU16});
  require_shape(node, 1, "low", node.inputs[0].shape);
  return {{DType::kF32, node.inputs[0].shape}};
}

std::vector<TensorType> infer_split_halves(const NodeSignature& node) {
  require_dtype(node, 0, "a", {DType::kF32});
  return {{DType::kBF16, node.inputs[0].shape}, {DType::kU16, node.inputs[0].shape}};
}

/// Every element alone; the counter, if any, whole.
ShardingRule sharding(const NodeSignature& node) {
  RuleBuilder rule;
  ShardingRule::Operand dims;
  for (const int64_t extent : node.inputs[0].shape.dims()) dims.push_back({rule.factor(extent)});
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (i > 0 && node.inputs[i] == counter_type())
      rule.input({{rule.factor(2, true)}});
    else
      rule.input(dims);
  for (size_t i = 0; i < node.outputs.size(); ++i) rule.output(dims);
  return rule.build();
}

OpDef elementwise_op(std::string name, std::string doc, int inputs, double flops) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.min_inputs = inputs;
  op.max_inputs = inputs;
  op.sharding = sharding;
  op.cost = [flops](const NodeSignature& node) { return streaming_cost_each(node, flops); };
  return op;
}

OpDef rounding_op(std::string name, std::string doc, int inputs) {
  OpDef op = elementwise_op(std::move(name), std::move(doc), inputs, 2);
  ++op.max_inputs;
  op.attributes = rounding_attributes();
  op.attributes.push_back({"scale", Kind::kFloat, false, "factor before rounding; default 1"});
  op.positional = 0;
  return op;
}

/// The attributes and inputs of a node that draws for a logical tensor.
void draw_by(const RoundingBy& by, std::vector<Tensor>& inputs, Attributes& attributes) {
  if (!by.counter.valid()) return;
  attributes.set("rounding", std::string("stochastic"));
  attributes.set("seed", by.seed);
  attributes.set("tensor", static_cast<int64_t>(hash64(by.random_name)));
  inputs.push_back(by.counter);
}

/// Whether the tensor is a constant 0.
bool is_zero(Tensor tensor) {
  const Graph& graph = tensor.builder->graph();
  const Value& value = graph.value(tensor.id);
  if (value.producer == kNoNode) return false;
  const Node& node = graph.node(value.producer);
  return node.inputs.empty() && node.attributes.has("value") && node.attributes.get_float("value") == 0;
}

}  // namespace

std::vector<AttributeSpec> rounding_attributes() {
  return {{"rounding", Kind::kString, false, "of narrow outputs: nearest (to even; the default) or stochastic"},
          {"seed", Kind::kInt, false, "of stochastic rounding"},
          {"tensor", Kind::kInt, false, "id of the logical tensor whose elements draw"}};
}

bool rounds_stochastically(const NodeSignature& node) {
  const Attributes& attributes = node.attributes;
  if (!attributes.has("rounding")) return false;
  const std::string& rounding = attributes.get_string("rounding");
  if (rounding == "nearest") return false;
  if (rounding != "stochastic") refuse(node, "unknown rounding", "'" + rounding + "'", "nearest or stochastic");
  for (const char* name : {"seed", "tensor"})
    if (!attributes.has(name)) refuse(node, std::string("stochastic rounding needs the attribute '") + name + "'");
  if (node.inputs.empty() || node.inputs.back() != counter_type())
    refuse(node, "stochastic rounding needs the counter as last input",
           node.inputs.empty() ? "no inputs" : node.inputs.back().text(), counter_type().text());
  return true;
}

void register_rounding_ops(OpRegistry& registry) {
  OpDef narrow = rounding_op("narrow",
                             "(a[, counter]) -> scale a in the floating type `dtype`, to nearest even or stochastic "
                             "(ops/rounding.h), and with `saturate` never infinite",
                             1);
  narrow.attributes.push_back(required_attribute("dtype", Kind::kDType, "of the result"));
  narrow.attributes.push_back(
      optional_attribute("saturate", Kind::kBool, "beyond the largest finite number give that one"));
  narrow.infer = infer_narrow;
  // As that of a cast: rounding is taken for the identity.
  narrow.gradient = [](GradientContext& context) {
    const Tensor g = cast_to(context.output_gradients[0], DType::kF32);
    const double factor = scale_attribute(context.node);
    std::vector<Tensor> gradients(context.inputs.size());
    gradients[0] = cast_to(factor == 1 ? g : ops::scale(g, factor), context.node.inputs[0].dtype);
    return gradients;
  };
  registry.add(std::move(narrow));

  OpDef accumulate = rounding_op("accumulate",
                                 "(sum, term[, counter]) -> sum + scale term in sum's type, to nearest even or "
                                 "stochastic (ops/rounding.h); beyond the largest finite number infinite",
                                 2);
  accumulate.infer = infer_accumulate;
  // 0 + term is term; the draws are those of the same elements.
  accumulate.simplify = [](SimplifyContext& context) -> Tensor {
    if (!is_zero(context.inputs[0])) return {};
    Attributes attributes = context.node.attributes;
    attributes.set("dtype", context.node.inputs[0].dtype);
    return context.build.ops("narrow", {context.inputs.begin() + 1, context.inputs.end()}, std::move(attributes))[0];
  };
  registry.add(std::move(accumulate));

  OpDef join = elementwise_op("join_halves",
                              "(high bf16, low u16) -> the f32 number that was split in them (base/rounding.h)", 2, 1);
  join.infer = infer_join_halves;
  registry.add(std::move(join));

  OpDef split = elementwise_op("split_halves", "(a f32) -> its halves, high bf16 and low u16 (base/rounding.h)", 1, 1);
  split.infer = infer_split_halves;
  registry.add(std::move(split));
}

Tensor narrow(Tensor a, DType dtype, const NarrowOptions& options, const RoundingBy& by) {
  Attributes attributes{{"dtype", dtype}};
  if (options.scale != 1) attributes.set("scale", options.scale);
  if (options.saturate) attributes.set("saturate", true);
  std::vector<Tensor> inputs{a};
  draw_by(by, inputs, attributes);
  return a.builder->ops("narrow", inputs, std::move(attributes))[0];
}

Tensor add_to_sum(Tensor sum, Tensor term, double scale, const RoundingBy& by) {
  Attributes attributes;
  if (scale != 1) attributes.set("scale", scale);
  std::vector<Tensor> inputs{sum, term};
  draw_by(by, inputs, attributes);
  return sum.builder->ops("accumulate", inputs, std::move(attributes))[0];
}

std::pair<Tensor, Tensor> split_halves(Tensor a) {
  const std::vector<Tensor> halves = a.builder->ops("split_halves", {a});
  return {halves[0], halves[1]};
}

Tensor join_halves(Tensor high, Tensor low) { return high.builder->op("join_halves", {high, low}); }

}  // namespace ramet::ops

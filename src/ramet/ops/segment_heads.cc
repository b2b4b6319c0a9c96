#include "ramet/ops/segment_heads.h"

#include "ramet/ops/build_graphs.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Reduce = ShardingRule::Reduce;

/// The operands of a node by what they are; -1: it has none such.
struct Inputs {
  int rows = -1, edges = -1, weight = -1;
};

SegmentHeadsForm form_of(const NodeSignature& node, const Inputs& at) {
  constexpr int kPtr = 2;
  const auto shape = [&](int input) -> const Shape& { return node.inputs[static_cast<size_t>(input)].shape; };
  for (const auto& [input, name, rank] : {std::tuple(at.rows, "rows", 4), {at.edges, "x", 3}, {at.weight, "weight", 3}})
    if (input >= 0) {
      require_floating(node, input, name);
      require_rank(node, input, name, rank, rank);
    }
  if (node.inputs[0].dtype != node.inputs[1].dtype)
    refuse(node, "the operands are of different types", node.inputs[0].text() + " and " + node.inputs[1].text(),
           "one type", "Cast one of them");
  require_dtype(node, kPtr, "ptr", {DType::kI32});
  require_rank(node, kPtr, "ptr", 2, 2);
  const Shape &of_rows = shape(at.rows < 0 ? at.weight : at.rows),
              &of_edges = shape(at.edges < 0 ? at.weight : at.edges);
  SegmentHeadsForm form;
  form.batch = of_edges[0];
  form.edges = of_edges[1];
  form.heads = at.rows < 0 ? of_rows[2] : of_rows[1];
  form.rows = shape(kPtr)[1] - 1;
  form.width = at.rows < 0 ? of_edges[2] : of_rows[3];
  const auto require = [&](int input, const char* name, const Shape& expected) {
    if (input >= 0 && shape(input) != expected)
      refuse(node, std::string(name) + " does not fit the other operands", shape(input).text(), expected.text());
  };
  if (form.rows < 0) refuse(node, "ptr has no pointer", node.inputs[kPtr].text(), "[B, N + 1]");
  require(kPtr, "ptr", Shape{form.batch, form.rows + 1});
  require(at.rows, "rows", Shape{form.batch, form.heads, form.rows, form.width});
  require(at.edges, "x", Shape{form.batch, form.edges, form.width});
  require(at.weight, "weight", Shape{form.batch, form.edges, form.heads});
  return form;
}

/// Samples are free, and so are heads and features that no sum joins; rows and edges stay whole.
ShardingRule rule_of(const SegmentHeadsForm& form, const Inputs& at) {
  RuleBuilder rule;
  const auto whole = [&](int64_t size) { return rule.factor(size, true, Reduce::kSum); };
  const bool joins_heads = at.edges < 0, joins_features = at.weight < 0;
  const int batch = rule.factor(form.batch), heads = joins_heads ? whole(form.heads) : rule.factor(form.heads);
  const int width = joins_features ? whole(form.width) : rule.factor(form.width);
  const int rows = rule.factor(form.rows, true, at.rows < 0 ? Reduce::kNone : Reduce::kSum);
  const int edges = rule.factor(form.edges, true, at.rows < 0 ? Reduce::kSum : Reduce::kNone);
  const ShardingRule::Operand of_rows{{batch}, {heads}, {rows}, {width}}, of_edges{{batch}, {edges}, {width}},
      of_weights{{batch}, {edges}, {heads}};
  const auto operand = [&](int input) -> const ShardingRule::Operand& {
    return input == at.rows ? of_rows : input == at.edges ? of_edges : of_weights;
  };
  rule.input(operand(0)).input(operand(1)).input({{batch}, {whole(form.rows + 1)}});
  return rule.output(at.rows < 0 ? of_rows : at.edges < 0 ? of_edges : of_weights).build();
}

constexpr Inputs kDot{.rows = 0, .edges = 1}, kCombine{.edges = 0, .weight = 1}, kBlend{.rows = 0, .weight = 1};

/// The gradients of two operands, each of the type of its operand.
template <typename First, typename Second>
std::vector<Tensor> gradients(GradientContext& context, const First& first, const Second& second) {
  const Tensor g = cast_to(context.output_gradients[0], context.inputs[0].dtype());
  std::vector<Tensor> made(3);
  if (context.needed[0]) made[0] = first(g, context.inputs[1], context.inputs[2]);
  if (context.needed[1]) made[1] = second(g, context.inputs[0], context.inputs[2]);
  return made;
}

void add(OpRegistry& registry, const std::string& name, const std::string& doc,
         SegmentHeadsForm (*form)(const NodeSignature&), const Inputs& at, Shape (*shape)(const SegmentHeadsForm&),
         std::vector<Tensor> (*gradient)(GradientContext&)) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = op.max_inputs = 3;
  op.infer = [form, shape](const NodeSignature& node) {
    const Shape made = shape(form(node));
    require_bounded(node, made);
    return std::vector<TensorType>{{node.inputs[0].dtype, made}};
  };
  op.gradient = gradient;
  op.sharding = [form, at](const NodeSignature& node) { return rule_of(form(node), at); };
  op.cost = [form](const NodeSignature& node) {
    const SegmentHeadsForm of = form(node);
    return streaming_cost(node, 2.0 * static_cast<double>(of.batch * of.edges * of.heads * of.width));
  };
  registry.add(std::move(op));
}

}  // namespace

SegmentHeadsForm segment_dot_form(const NodeSignature& node) { return form_of(node, kDot); }
SegmentHeadsForm segment_combine_form(const NodeSignature& node) { return form_of(node, kCombine); }
SegmentHeadsForm segment_blend_form(const NodeSignature& node) { return form_of(node, kBlend); }

void register_segment_head_ops(OpRegistry& registry) {
  add(
      registry, "segment_dot",
      "rows [B,H,N,F], x [B,E,F], ptr i32 [B,N+1] -> [B,E,H]: for each edge and head the sum over features of the "
      "row of the head times x; 0 at places without an edge",
      segment_dot_form, kDot, [](const SegmentHeadsForm& of) { return Shape{of.batch, of.edges, of.heads}; },
      [](GradientContext& context) {
        return gradients(
            context, [](Tensor g, Tensor x, Tensor ptr) { return segment_combine(x, g, ptr); },
            [](Tensor g, Tensor rows, Tensor ptr) { return segment_blend(rows, g, ptr); });
      });
  add(
      registry, "segment_combine",
      "x [B,E,F], weight [B,E,H], ptr i32 [B,N+1] -> [B,H,N,F]: for each row and head the sum over the row's edges of "
      "weight * x, in order, in f32",
      segment_combine_form, kCombine,
      [](const SegmentHeadsForm& of) { return Shape{of.batch, of.heads, of.rows, of.width}; },
      [](GradientContext& context) {
        return gradients(
            context, [](Tensor g, Tensor weight, Tensor ptr) { return segment_blend(g, weight, ptr); },
            [](Tensor g, Tensor x, Tensor ptr) { return segment_dot(g, x, ptr); });
      });
  add(
      registry, "segment_blend",
      "rows [B,H,N,F], weight [B,E,H], ptr i32 [B,N+1] -> [B,E,F]: for each edge the sum over heads of weight * the "
      "row of the head, in order, in f32; 0 at places without an edge",
      segment_blend_form, kBlend, [](const SegmentHeadsForm& of) { return Shape{of.batch, of.edges, of.width}; },
      [](GradientContext& context) {
        return gradients(
            context, [](Tensor g, Tensor weight, Tensor ptr) { return segment_combine(g, weight, ptr); },
            [](Tensor g, Tensor rows, Tensor ptr) { return segment_dot(rows, g, ptr); });
      });
}

Tensor segment_dot(Tensor rows, Tensor x, Tensor ptr) { return rows.builder->op("segment_dot", {rows, x, ptr}); }
Tensor segment_combine(Tensor x, Tensor weight, Tensor ptr) {
  return x.builder->op("segment_combine", {x, weight, ptr});
}
Tensor segment_blend(Tensor rows, Tensor weight, Tensor ptr) {
  return rows.builder->op("segment_blend", {rows, weight, ptr});
}

}  // namespace ramet::ops

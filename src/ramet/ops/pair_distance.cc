#include "ramet/ops/pair_distance.h"

#include "ramet/ops/build_graphs.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Reduce = ShardingRule::Reduce;

PairNorm norm_of(const NodeSignature& node) {
  const std::string name = node.attributes.get_string("norm");
  if (name == "l1") return PairNorm::kL1;
  if (name == "squares") return PairNorm::kSquares;
  if (name == "complex") return PairNorm::kComplex;
  if (name == "box") return PairNorm::kBox;
  refuse(node, "attribute 'norm' has an unknown value", "\"" + name + "\"",
         "\"l1\", \"squares\", \"complex\" or \"box\"");
}

/// How many inputs stand before `a`: the gradients have that of the distances.
size_t first_of(const NodeSignature& node) { return node.op->name == "pair_distance" ? 0 : 1; }

void require_extents(const NodeSignature& node, size_t input, const std::string& operand, int64_t groups, int64_t rows,
                     int64_t width) {
  require_shape(node, static_cast<int>(input), operand, Shape{groups, rows, width});
}

}  // namespace

PairForm pair_form(const NodeSignature& node) {
  const size_t first = first_of(node);
  for (size_t input = 0; input < node.inputs.size(); ++input) {
    require_dtype(node, static_cast<int>(input), "operand", {DType::kF32, DType::kF16, DType::kBF16});
    require_rank(node, static_cast<int>(input), "operand", input == first + 1 ? 2 : 3, 3);
  }
  const Shape &a = node.inputs[first].shape, &b = node.inputs[first + 1].shape;
  PairForm form{.groups = a[0], .rows = a[1], .columns = b.dim(-2), .width = a[2], .norm = norm_of(node)};
  form.flat = b.rank() == 2;
  form.weighted = node.inputs.size() > first + 2;
  const int64_t features = b.dim(-1);
  if (form.width < 1 || features % form.width != 0 || features < form.width)
    refuse(node, "the features of b are not those of a, once or several times", b.text(),
           "a multiple of " + std::to_string(form.width));
  form.terms = features / form.width;
  if ((form.flat ? 1 : b[0]) != form.groups)
    refuse(node, "a and b have other numbers of groups", b.text(), std::to_string(form.groups) + " groups");
  if (form.norm == PairNorm::kComplex && form.width % 2 != 0)
    refuse(node, "complex numbers have an even number of features", std::to_string(form.width));
  const bool box = form.norm == PairNorm::kBox;
  if ((box && (form.terms != 1 || !form.weighted)) || (form.terms > 1 && !form.weighted))
    refuse(node, box ? "a box needs one term and its widths" : "several terms need weights", node.inputs[first].text());
  if (form.weighted) require_extents(node, first + 2, "w", form.groups, form.rows, form.column_width());
  if (first > 0) require_extents(node, 0, "g", form.groups, form.rows, form.columns);
  return form;
}

namespace {

/// The operands a, b and w behind `rule`'s inputs so far; features stay whole.
struct PairFactors {
  RuleBuilder rule;
  int group, row, column, term, feature;
  ShardingRule::Operand rows, columns, weights;

  PairFactors(const PairForm& form, Reduce of_rows, Reduce of_columns, Reduce of_features) {
    group = rule.factor(form.groups);
    row = rule.factor(form.rows, of_rows != Reduce::kNone, of_rows);
    column = rule.factor(form.columns, of_columns != Reduce::kNone, of_columns);
    term = rule.factor(form.terms, true, of_features);
    feature = rule.factor(form.width, true, of_features);
    rows = {{group}, {row}, {feature}};
    columns = {{column}, {term, feature}};
    if (!form.flat) columns.insert(columns.begin(), {group});
    weights = {{group}, {row}, {term, feature}};
  }
  ShardingRule::Operand pairs() const { return {{group}, {row}, {column}}; }
  RuleBuilder& operands(bool weighted) {
    rule.input(rows).input(columns);
    return weighted ? rule.input(weights) : rule;
  }
};

Cost pair_cost(const NodeSignature& node, double flops) {
  const PairForm form = pair_form(node);
  return streaming_cost(node, flops * static_cast<double>(form.groups * form.rows) *
                                  static_cast<double>(form.columns * form.column_width()));
}

std::vector<Tensor> pair_gradient(GradientContext& c) {
  const PairForm form = pair_form(c.node);
  std::vector<Tensor> operands{cast_to(c.output_gradients[0], DType::kF32)}, gradients(c.inputs.size());
  operands.insert(operands.end(), c.inputs.begin(), c.inputs.end());
  if (c.needed[0] || (form.weighted && c.needed[2])) {
    const std::vector<Tensor> found = c.build.ops("pair_row_grad", operands, c.node.attributes);
    for (size_t i = 0; i < found.size(); ++i) gradients[2 * i] = cast_to(found[i], c.inputs[2 * i].dtype());
  }
  if (c.needed[1])
    gradients[1] = cast_to(c.build.ops("pair_column_grad", operands, c.node.attributes).at(0), c.inputs[1].dtype());
  return gradients;
}

OpDef pair_op(const std::string& name, const std::string& doc, int inputs, double flops) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = inputs, op.max_inputs = inputs + 1;
  op.attributes = {required_attribute("norm", Kind::kString, "\"l1\", \"squares\", \"complex\" or \"box\"")};
  op.cost = [flops](const NodeSignature& node) { return pair_cost(node, flops); };
  op.precision = OpDef::Precision::kFull;
  return op;
}

}  // namespace

void register_pair_ops(OpRegistry& registry) {
  OpDef distance = pair_op("pair_distance",
                           "a [G,M,D], b [G,K,T*D], w [G,M,T*D] -> f32 [G,M,K]: for each row and column of a group the "
                           "norm of a - sum over terms of w * b",
                           2, 4);
  distance.infer = [](const NodeSignature& node) {
    const PairForm form = pair_form(node);
    const Shape pairs{form.groups, form.rows, form.columns};
    require_bounded(node, pairs);
    return std::vector<TensorType>{{DType::kF32, pairs}};
  };
  distance.gradient = pair_gradient;
  distance.sharding = [](const NodeSignature& node) {
    const PairForm form = pair_form(node);
    PairFactors factors(form, Reduce::kNone, Reduce::kNone, Reduce::kSum);
    return factors.operands(form.weighted).output(factors.pairs()).build();
  };
  registry.add(std::move(distance));

  OpDef rows = pair_op("pair_row_grad",
                       "g [G,M,K], a [G,M,D], b [G,K,T*D], w [G,M,T*D] -> f32 [G,M,D] and f32 [G,M,T*D]: the gradients "
                       "of pair_distance's a and w",
                       3, 6);
  rows.infer = [](const NodeSignature& node) {
    const PairForm form = pair_form(node);
    std::vector<TensorType> types{{DType::kF32, Shape{form.groups, form.rows, form.width}}};
    if (form.weighted) types.push_back({DType::kF32, Shape{form.groups, form.rows, form.column_width()}});
    return types;
  };
  rows.sharding = [](const NodeSignature& node) {
    const PairForm form = pair_form(node);
    PairFactors factors(form, Reduce::kNone, Reduce::kSum, Reduce::kNone);
    factors.rule.input(factors.pairs());
    factors.operands(form.weighted).output(factors.rows);
    if (form.weighted) factors.rule.output(factors.weights);
    return factors.rule.build();
  };
  registry.add(std::move(rows));

  OpDef columns = pair_op("pair_column_grad",
                          "g [G,M,K], a [G,M,D], b [G,K,T*D], w [G,M,T*D] -> f32 [G,K,T*D]: the gradient of "
                          "pair_distance's b",
                          3, 6);
  columns.infer = [](const NodeSignature& node) {
    const PairForm form = pair_form(node);
    if (form.flat) return std::vector<TensorType>{{DType::kF32, Shape{form.columns, form.column_width()}}};
    return std::vector<TensorType>{{DType::kF32, Shape{form.groups, form.columns, form.column_width()}}};
  };
  columns.sharding = [](const NodeSignature& node) {
    const PairForm form = pair_form(node);
    PairFactors factors(form, Reduce::kSum, Reduce::kNone, Reduce::kNone);
    factors.rule.input(factors.pairs());
    return factors.operands(form.weighted).output(factors.columns).build();
  };
  registry.add(std::move(columns));
}

Tensor pair_distance(Tensor a, Tensor b, const std::string& norm, Tensor w) {
  std::vector<Tensor> operands{a, b};
  if (w.valid()) operands.push_back(w);
  return a.builder->ops("pair_distance", operands, {{"norm", norm}}).at(0);
}

}  // namespace ramet::ops

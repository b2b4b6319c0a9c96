#include "ramet/ops/radial.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/neighbors.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Reduce = ShardingRule::Reduce;

constexpr int64_t kCellPoints = 4;

const Shape& shape_of(const NodeSignature& node, int input) { return node.inputs[static_cast<size_t>(input)].shape; }

/// The rows, the pairs and the cutoff; input `rows` is x or its gradient.
RadialForm pair_form(const NodeSignature& node, const std::string& rows) {
  for (const auto& [at, name] : {std::pair(0, rows), std::pair(1, std::string("distance"))})
    require_dtype(node, at, name, {DType::kF32});
  for (const auto& [at, name] : {std::pair(2, "ptr"), std::pair(3, "second")})
    require_dtype(node, at, name, {DType::kI32});
  require_rank(node, 0, rows, 3, 3);
  require_rank(node, 1, "distance", 2, 2);
  RadialForm form{.batch = shape_of(node, 0)[0],
                  .rows = shape_of(node, 0)[1],
                  .pairs = shape_of(node, 1)[1],
                  .width = shape_of(node, 0)[2],
                  .cutoff = node.attributes.get_float("cutoff")};
  require_shape(node, 1, "distance", {form.batch, form.pairs});
  require_shape(node, 2, "ptr", {form.batch, form.rows + 1});
  require_shape(node, 3, "second", {form.batch, form.pairs});
  if (!(form.cutoff > 0) || !std::isfinite(form.cutoff))
    refuse(node, "the cutoff must be a positive number", std::to_string(form.cutoff));
  return form;
}

void require_points(const NodeSignature& node, int64_t points) {
  if (points < kCellPoints)
    refuse(node, "the table has too few distances", std::to_string(points), std::to_string(kCellPoints) + " or more");
}

/// The layers of a filter network; input `first` is w1.
void take_network(const NodeSignature& node, int first, RadialForm& form) {
  for (const auto& [at, name] : {std::pair(first, "w1"), std::pair(first + 1, "b1"), std::pair(first + 2, "w2")})
    require_dtype(node, at, name, {DType::kF32});
  require_rank(node, first, "w1", 2, 2);
  form.hidden = shape_of(node, first)[0];
  form.gaussians = shape_of(node, first)[1];
  require_shape(node, first + 1, "b1", {form.hidden});
  require_shape(node, first + 2, "w2", {form.width, form.hidden});
  if (form.gaussians < 2 || form.hidden < 1)
    refuse(node, "a filter network has two or more radial basis functions and one or more features",
           shape_of(node, first).text());
}

Error bad_distance(const NodeSignature& node, int64_t sample, int64_t pair, float found, double cutoff) {
  return Error({.what = "the distance of a pair is not within the cutoff",
                .where = node.text() + ", distance[" + std::to_string(sample) + "," + std::to_string(pair) + "]",
                .found = std::to_string(found),
                .expected = "0 to " + std::to_string(cutoff),
                .remedy = "Give the model a cutoff that no edge exceeds"},
               ErrorKind::kFailure);
}

}  // namespace

RadialForm table_filter_form(const NodeSignature& node) {
  RadialForm form = pair_form(node, "x");
  require_dtype(node, 4, "table", {DType::kF32});
  require_rank(node, 4, "table", 2, 2);
  form.points = shape_of(node, 4)[0];
  require_points(node, form.points);
  require_shape(node, 4, "table", {form.points, form.width});
  return form;
}

RadialForm table_gradient_form(const NodeSignature& node) {
  RadialForm form = pair_form(node, "dy");
  form.points = node.attributes.get_int("points");
  require_points(node, form.points);
  require_dtype(node, 4, "x", {DType::kF32});
  require_shape(node, 4, "x", shape_of(node, 0));
  return form;
}

RadialForm network_filter_form(const NodeSignature& node) {
  RadialForm form = pair_form(node, "x");
  take_network(node, 4, form);
  require_dtype(node, 7, "b2", {DType::kF32});
  require_shape(node, 7, "b2", {form.width});
  return form;
}

RadialForm pair_filter_form(const NodeSignature& node) {
  const RadialForm form = pair_form(node, "x");
  require_dtype(node, 4, "filter", {DType::kF32});
  require_shape(node, 4, "filter", {form.batch, form.pairs, form.width});
  return form;
}

RadialForm network_gradient_form(const NodeSignature& node) {
  RadialForm form = pair_form(node, "dy");
  require_dtype(node, 4, "x", {DType::kF32});
  require_shape(node, 4, "x", shape_of(node, 0));
  take_network(node, 5, form);
  return form;
}

namespace {

/// Whether rows and distances of `count` pairs are in range. The loops have no branch, so that compilers make vectors
/// of them.
bool are_right(const RadialForm& form, const float* distance, const int32_t* second, int64_t count) {
  constexpr int64_t kBlock = 32;
  const auto rows = static_cast<uint32_t>(form.rows);
  float most = static_cast<float>(form.cutoff);  // the greatest that is no more than the cutoff
  if (static_cast<double>(most) > form.cutoff) most = std::nextafter(most, 0.0f);
  uint32_t wrong = 0;
  const auto look = [&](int64_t at) {
    wrong |= static_cast<uint32_t>(static_cast<uint32_t>(second[at]) >= rows);
    wrong |= static_cast<uint32_t>(!(distance[at] >= 0)) | static_cast<uint32_t>(!(distance[at] <= most));
  };
  int64_t at = 0;
  for (; at + kBlock <= count; at += kBlock)
    for (int64_t i = 0; i < kBlock; ++i) look(at + i);
  for (; at < count; ++at) look(at);
  return wrong == 0;
}

}  // namespace

void check_pairs(const NodeSignature& node, const RadialForm& form, const float* distance, const int32_t* ptr,
                 const int32_t* second) {
  check_segments(node, ptr, form.batch, form.rows, form.pairs);
  for (int64_t b = 0; b < form.batch; ++b) {
    const int64_t begin = b * form.pairs, count = ptr[b * (form.rows + 1) + form.rows];
    if (are_right(form, distance + begin, second + begin, count)) continue;
    for (int64_t at = begin; at < begin + count; ++at) {
      if (second[at] < 0 || second[at] >= form.rows)
        throw Error({.what = "a pair has a row that is out of range",
                     .where = node.text() + ", second[" + std::to_string(b) + "," + std::to_string(at - begin) + "]",
                     .found = std::to_string(second[at]),
                     .expected = "0 to " + std::to_string(form.rows - 1)},
                    ErrorKind::kFailure);
      if (!(distance[at] >= 0 && distance[at] <= form.cutoff))
        throw bad_distance(node, b, at - begin, distance[at], form.cutoff);
    }
  }
}

namespace {

/// Factors that all rules share.
struct PairFactors {
  int batch, from, to, pairs, pointers, features;
};

/// Samples are free unless sums run over them; features are free unless a network mixes them.
PairFactors factors_of(RuleBuilder& rule, const RadialForm& form, bool sums_samples, bool mixes_features) {
  const auto summed = [&](int64_t size) { return rule.factor(size, true, Reduce::kSum); };
  return {.batch = sums_samples ? summed(form.batch) : rule.factor(form.batch),
          .from = summed(form.rows),
          .to = sums_samples ? -1 : rule.factor(form.rows, true),
          .pairs = summed(form.pairs),
          .pointers = summed(form.rows + 1),
          .features = mixes_features ? rule.factor(form.width, true) : rule.factor(form.width)};
}

void add_pairs(RuleBuilder& rule, const PairFactors& factors) {
  rule.input({{factors.batch}, {factors.from}, {factors.features}}).input({{factors.batch}, {factors.pairs}});
  rule.input({{factors.batch}, {factors.pointers}}).input({{factors.batch}, {factors.pairs}});
}

ShardingRule table_filter_rule(const NodeSignature& node) {
  const RadialForm form = table_filter_form(node);
  RuleBuilder rule;
  const PairFactors factors = factors_of(rule, form, false, false);
  add_pairs(rule, factors);
  rule.input({{rule.factor(form.points, true, Reduce::kSum)}, {factors.features}});
  return rule.output({{factors.batch}, {factors.to}, {factors.features}}).build();
}

ShardingRule table_gradient_rule(const NodeSignature& node) {
  const RadialForm form = table_gradient_form(node);
  RuleBuilder rule;
  const PairFactors factors = factors_of(rule, form, true, false);
  add_pairs(rule, factors);
  rule.input({{factors.batch}, {factors.from}, {factors.features}});
  return rule.output({{rule.factor(form.points, true)}, {factors.features}}).build();
}

ShardingRule network_filter_rule(const NodeSignature& node) {
  const RadialForm form = network_filter_form(node);
  RuleBuilder rule;
  const PairFactors factors = factors_of(rule, form, false, false);
  add_pairs(rule, factors);
  const int hidden = rule.factor(form.hidden, true, Reduce::kSum);
  rule.input({{hidden}, {rule.factor(form.gaussians, true, Reduce::kSum)}}).input({{hidden}});
  rule.input({{factors.features}, {hidden}}).input({{factors.features}});
  rule.output({{factors.batch}, {factors.to}, {factors.features}});
  if (node.outputs.size() > 1) rule.output({{factors.batch}, {rule.factor(form.pairs, true)}, {factors.features}});
  return rule.build();
}

ShardingRule pair_filter_rule(const NodeSignature& node) {
  RuleBuilder rule;
  const PairFactors factors = factors_of(rule, pair_filter_form(node), false, false);
  add_pairs(rule, factors);
  rule.input({{factors.batch}, {factors.pairs}, {factors.features}});
  return rule.output({{factors.batch}, {factors.to}, {factors.features}}).build();
}

ShardingRule network_gradient_rule(const NodeSignature& node) {
  const RadialForm form = network_gradient_form(node);
  RuleBuilder rule;
  const PairFactors factors = factors_of(rule, form, true, true);
  add_pairs(rule, factors);
  const int hidden = rule.factor(form.hidden, true), gaussians = rule.factor(form.gaussians, true);
  rule.input({{factors.batch}, {factors.from}, {factors.features}});
  rule.input({{hidden}, {gaussians}}).input({{hidden}}).input({{factors.features}, {hidden}});
  rule.output({{hidden}, {gaussians}}).output({{hidden}});
  return rule.output({{factors.features}, {hidden}}).output({{factors.features}}).build();
}

PairLists pairs_at(const GradientContext& context) { return {context.inputs[1], context.inputs[2], context.inputs[3]}; }

/// Distances are data: only the rows and the filter get a gradient.
std::vector<Tensor> table_filter_gradient(GradientContext& context) {
  const RadialForm form = table_filter_form(context.node);
  const PairLists pairs = pairs_at(context);
  const Tensor dy = context.output_gradients[0];
  std::vector<Tensor> gradients(5);
  if (context.needed[0]) gradients[0] = table_filter_sum(dy, pairs, context.inputs[4], form.cutoff);
  if (context.needed[4])
    gradients[4] =
        context.build.op("table_filter_gradient", {dy, pairs.distance, pairs.ptr, pairs.second, context.inputs[0]},
                         {{"cutoff", form.cutoff}, {"points", form.points}});
  return gradients;
}

std::vector<Tensor> network_filter_gradient(GradientContext& context) {
  const RadialForm form = network_filter_form(context.node);
  const PairLists pairs = pairs_at(context);
  const Tensor dy = context.output_gradients[0];
  const bool kept = context.outputs.size() > 1;
  if (kept && context.output_gradients[1].valid())
    refuse(context.node, "output 1 (filters) has no gradient", "", "", "Read the sums, which are output 0");
  const FilterNetwork network{context.inputs[4], context.inputs[5], context.inputs[6], context.inputs[7]};
  std::vector<Tensor> gradients(8);
  if (context.needed[0])
    gradients[0] = kept ? pair_filter_sum(dy, pairs, context.outputs[1], form.cutoff)
                        : network_filter_sum(dy, pairs, network, form.cutoff);
  if (!context.needed[4] && !context.needed[5] && !context.needed[6] && !context.needed[7]) return gradients;
  const std::vector<Tensor> of_network = context.build.ops(
      "network_filter_gradient",
      {dy, pairs.distance, pairs.ptr, pairs.second, context.inputs[0], network.w1, network.b1, network.w2},
      {{"cutoff", form.cutoff}});
  for (size_t i = 0; i < of_network.size(); ++i) gradients[4 + i] = of_network[i];
  return gradients;
}

Cost pair_cost(const NodeSignature& node, const RadialForm& form, double flops_a_pair) {
  Cost cost = streaming_cost(node, flops_a_pair * static_cast<double>(form.batch * form.pairs));
  cost.bytes_read += form.batch * form.pairs * form.width * 2 * 4;
  return cost;
}

/// Floating-point operations of a pair's filter.
double network_flops(const RadialForm& form) {
  return 2.0 * static_cast<double>(form.hidden) * static_cast<double>(form.gaussians + form.width);
}

OpDef pair_op(const std::string& name, const std::string& doc, int inputs) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = op.max_inputs = inputs;
  op.precision = OpDef::Precision::kFull;
  op.attributes = {required_attribute("cutoff", Kind::kFloat, "the greatest distance")};
  return op;
}

std::vector<TensorType> rows_type(const RadialForm& form) {
  return {{DType::kF32, Shape{form.batch, form.rows, form.width}}};
}

void register_table_ops(OpRegistry& registry) {
  OpDef sum = pair_op("table_filter_sum",
                      "x [B,N,F], distance [B,P], ptr i32 [B,N+1], second i32 [B,P], table [G,F] -> [B,N,F]: sums over "
                      "the pairs of each row, in order, of filter times the other row; a filter is the cubic "
                      "polynomial through four rows of the table, whose row g is that of distance cutoff g / (G - 1)",
                      5);
  sum.infer = [](const NodeSignature& node) { return rows_type(table_filter_form(node)); };
  sum.gradient = table_filter_gradient;
  sum.sharding = table_filter_rule;
  sum.cost = [](const NodeSignature& node) {
    const RadialForm form = table_filter_form(node);
    return pair_cost(node, form, 11.0 * static_cast<double>(form.width));
  };
  registry.add(std::move(sum));

  OpDef gradient = pair_op("table_filter_gradient",
                           "dy [B,N,F], distance [B,P], ptr i32 [B,N+1], second i32 [B,P], x [B,N,F] -> [G,F]: "
                           "table_filter_sum's gradient of the table; an element is one chain over all pairs",
                           5);
  gradient.attributes.push_back(required_attribute("points", Kind::kInt, "rows of the table"));
  gradient.infer = [](const NodeSignature& node) {
    const RadialForm form = table_gradient_form(node);
    require_bounded(node, {form.points, form.width});
    return std::vector<TensorType>{{DType::kF32, Shape{form.points, form.width}}};
  };
  gradient.sharding = table_gradient_rule;
  gradient.cost = [](const NodeSignature& node) {
    const RadialForm form = table_gradient_form(node);
    return pair_cost(node, form, 11.0 * static_cast<double>(form.width));
  };
  registry.add(std::move(gradient));
}

void register_network_ops(OpRegistry& registry) {
  OpDef sum = pair_op("network_filter_sum",
                      "x [B,N,F], distance [B,P], ptr i32 [B,N+1], second i32 [B,P], w1 [H,K], b1 [H], w2 [F,H], b2 "
                      "[F] -> [B,N,F]: sums over the pairs of each row, in order, of filter times the other row; a "
                      "filter is (w2 s(w1 r + b1) + b2) (cos(pi distance / cutoff) + 1) / 2 with K Gaussians r of the "
                      "distance and s(z) = log(1 + exp(z)) - log(2). With `keeps` also the filters [B,P,F], 0 at "
                      "places without a pair, from which gradients of x are made",
                      8);
  sum.attributes.push_back(optional_attribute("keeps", Kind::kBool, "whether the filters are an output, too"));
  sum.infer = [](const NodeSignature& node) {
    const RadialForm form = network_filter_form(node);
    std::vector<TensorType> types = rows_type(form);
    if (node.attributes.get_bool_or("keeps", false))
      types.push_back({DType::kF32, Shape{form.batch, form.pairs, form.width}});
    return types;
  };
  sum.gradient = network_filter_gradient;
  sum.sharding = network_filter_rule;
  sum.cost = [](const NodeSignature& node) {
    const RadialForm form = network_filter_form(node);
    return pair_cost(node, form, network_flops(form));
  };
  registry.add(std::move(sum));

  OpDef given = pair_op("pair_filter_sum",
                        "x [B,N,F], distance [B,P], ptr i32 [B,N+1], second i32 [B,P], filter [B,P,F] -> [B,N,F]: sums "
                        "over the pairs of each row, in order, of filter times the other row",
                        5);
  given.infer = [](const NodeSignature& node) { return rows_type(pair_filter_form(node)); };
  given.sharding = pair_filter_rule;
  given.cost = [](const NodeSignature& node) {
    const RadialForm form = pair_filter_form(node);
    return pair_cost(node, form, 4.0 * static_cast<double>(form.width));
  };
  registry.add(std::move(given));

  OpDef gradient = pair_op("network_filter_gradient",
                           "dy [B,N,F], distance [B,P], ptr i32 [B,N+1], second i32 [B,P], x [B,N,F], w1 [H,K], b1 "
                           "[H], w2 [F,H] -> [H,K], [H], [F,H], [F]: network_filter_sum's gradients of the network",
                           8);
  gradient.infer = [](const NodeSignature& node) {
    const RadialForm form = network_gradient_form(node);
    const auto type = [](Shape shape) { return TensorType{DType::kF32, std::move(shape)}; };
    return std::vector<TensorType>{type({form.hidden, form.gaussians}), type({form.hidden}),
                                   type({form.width, form.hidden}), type({form.width})};
  };
  gradient.sharding = network_gradient_rule;
  gradient.cost = [](const NodeSignature& node) {
    const RadialForm form = network_gradient_form(node);
    return pair_cost(node, form, 2 * network_flops(form) + 2.0 * static_cast<double>(form.hidden * form.gaussians));
  };
  registry.add(std::move(gradient));
}

}  // namespace

void register_radial_ops(OpRegistry& registry) {
  register_table_ops(registry);
  register_network_ops(registry);
}

Tensor table_filter_sum(Tensor x, const PairLists& pairs, Tensor table, double cutoff) {
  return x.builder->op("table_filter_sum", {x, pairs.distance, pairs.ptr, pairs.second, table}, {{"cutoff", cutoff}});
}

Tensor network_filter_sum(Tensor x, const PairLists& pairs, const FilterNetwork& network, double cutoff, bool keeps) {
  return x.builder->ops("network_filter_sum",
                        {x, pairs.distance, pairs.ptr, pairs.second, network.w1, network.b1, network.w2, network.b2},
                        {{"cutoff", cutoff}, {"keeps", keeps}})[0];
}

Tensor pair_filter_sum(Tensor x, const PairLists& pairs, Tensor filter, double cutoff) {
  return x.builder->op("pair_filter_sum", {x, pairs.distance, pairs.ptr, pairs.second, filter}, {{"cutoff", cutoff}});
}

}  // namespace ramet::ops

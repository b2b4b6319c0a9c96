#include "ramet/ops/neighbors.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;
using Reduce = ShardingRule::Reduce;

/// Product of all dimensions from the third on.
int64_t width_of(const Shape& shape) {
  int64_t width = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) width *= shape[axis];
  return width;
}

/// The extent behind the batch of a table of integers, which must have one row for each sample.
int64_t table_extent(const NodeSignature& node, int input, const std::string& name, int64_t batch) {
  require_dtype(node, input, name, {DType::kI32});
  require_rank(node, input, name, 2, 2);
  const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
  if (shape[0] != batch)
    refuse(node, name + " has another number of samples", std::to_string(shape[0]), std::to_string(batch));
  return shape[1];
}

/// N of pointers [B, N + 1].
int64_t pointer_rows(const NodeSignature& node, int input, const std::string& name, int64_t batch) {
  const int64_t extent = table_extent(node, input, name, batch);
  if (extent < 1) refuse(node, name + " has no pointer", node.inputs[static_cast<size_t>(input)].text(), "[B, N + 1]");
  return extent - 1;
}

void take_lists(const NodeSignature& node, int first, NeighborForm& form) {
  form.edges = table_extent(node, first, "source", form.batch);
  form.targets = pointer_rows(node, first + 1, "ptr", form.batch);
  for (const auto& [at, name] : {std::pair(first + 2, "target"), std::pair(first + 3, "by_source")})
    if (const int64_t edges = table_extent(node, at, name, form.batch); edges != form.edges)
      refuse(node, std::string(name) + " has another number of edges than source", std::to_string(edges),
             std::to_string(form.edges));
  form.sources = pointer_rows(node, first + 4, "source_ptr", form.batch);
}

void require_rows(const NodeSignature& node, int input, const std::string& name, int64_t rows, int64_t width) {
  const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
  if (shape[1] != rows || shape[2] != width)
    refuse(node, name + " does not fit the lists", shape.text(),
           "[B," + std::to_string(rows) + "," + std::to_string(width) + "]");
}

constexpr int64_t kBlock = 32;  // of numbers that are checked by vectors

/// The numbers of the places that hold edges.
void check_numbers(const NodeSignature& node, const std::string& name, const int32_t* numbers, const int32_t* ptr,
                   int64_t batch, int64_t rows, int64_t edges, int64_t bound) {
  const auto limit = static_cast<uint32_t>(bound);
  for (int64_t b = 0; b < batch; ++b) {
    const int32_t* const of_sample = numbers + b * edges;
    const int64_t count = ptr[b * (rows + 1) + rows];
    // The loops over all numbers have no branch; the number that is wrong is found behind them.
    uint32_t wrong = 0;
    int64_t at = 0;
    for (; at + kBlock <= count; at += kBlock)
      for (int64_t i = 0; i < kBlock; ++i) wrong |= static_cast<uint32_t>(of_sample[at + i]) >= limit;
    for (; at < count; ++at) wrong |= static_cast<uint32_t>(of_sample[at]) >= limit;
    for (int64_t e = 0; wrong && e < count; ++e)
      if (const int32_t number = of_sample[e]; number < 0 || number >= bound)
        throw wrong_edge_list(node, name + "[" + std::to_string(b) + "," + std::to_string(e) + "]", number, 0,
                              bound - 1);
  }
}

}  // namespace

Error wrong_edge_list(const NodeSignature& node, const std::string& where, int64_t found, int64_t low, int64_t high) {
  return Error({.what = "a list of edges has a number that is out of range",
                .where = node.text() + ", " + where,
                .found = std::to_string(found),
                .expected = std::to_string(low) + " to " + std::to_string(high)},
               ErrorKind::kFailure);
}

SegmentForm segment_form(const NodeSignature& node) {
  require_rank(node, 0, "x", 2);
  const Shape& x = node.inputs[0].shape;
  return {x[0], pointer_rows(node, 1, "ptr", x[0]), x[1], width_of(x)};
}

SegmentForm expand_form(const NodeSignature& node) {
  SegmentForm form = segment_form(node);
  const Shape& rows = node.inputs[0].shape;
  if (rows[1] != form.rows)
    refuse(node, "there is not one pointer a row", std::to_string(form.rows), std::to_string(rows[1]));
  form.edges = node.attributes.get_int("edges");
  if (form.edges < 0) refuse(node, "the number of edges is negative", std::to_string(form.edges));
  return form;
}

int64_t edge_weight_heads(const NodeSignature& node, int input, int64_t batch, int64_t edges, int64_t width) {
  const TensorType& weight = node.inputs[static_cast<size_t>(input)];
  if (weight.dtype != node.inputs[0].dtype)
    refuse(node, "x and the weights are of different types", node.inputs[0].text() + " and " + weight.text(),
           "one type", "Cast one of them");
  require_rank(node, input, "weight", 2, 3);
  const int64_t heads = weight.shape.rank() == 3 ? weight.shape[2] : 0;
  if (weight.shape[0] != batch || weight.shape[1] != edges ||
      (weight.shape.rank() == 3 && (heads < 1 || width % heads != 0)))
    refuse(node, "the weights do not fit the edges", weight.shape.text(),
           "[" + std::to_string(batch) + "," + std::to_string(edges) + "], or with a third extent that divides " +
               std::to_string(width));
  return heads;
}

NeighborForm neighbor_sum_form(const NodeSignature& node) {
  require_floating(node, 0, "x");
  require_rank(node, 0, "x", 3, 3);
  NeighborForm form;
  form.batch = node.inputs[0].shape[0];
  form.width = node.inputs[0].shape[2];
  form.transposed = node.attributes.get_bool_or("transposed", false);
  take_lists(node, 1, form);
  require_rows(node, 0, "x", form.from(), form.width);
  form.weighted = node.inputs.size() > 6;
  if (!form.weighted) return form;
  form.heads = edge_weight_heads(node, 6, form.batch, form.edges, form.width);
  return form;
}

NeighborForm neighbor_dot_form(const NodeSignature& node) {
  require_floating(node, 0, "a");
  require_rank(node, 0, "a", 3, 3);
  require_rank(node, 1, "b", 3, 3);
  if (node.inputs[0].dtype != node.inputs[1].dtype)
    refuse(node, "a and b are of different types", node.inputs[0].text() + " and " + node.inputs[1].text(), "one type",
           "Cast one of them");
  NeighborForm form;
  form.batch = node.inputs[0].shape[0];
  form.width = node.inputs[0].shape[2];
  form.weighted = true;
  form.heads = node.attributes.get_int_or("heads", 0);
  take_lists(node, 2, form);
  require_rows(node, 0, "a", form.targets, form.width);
  require_rows(node, 1, "b", form.sources, form.width);
  if (node.inputs[1].shape[0] != form.batch || form.heads < 0 || (form.heads > 0 && form.width % form.heads != 0))
    refuse(node, "the heads do not divide the features", std::to_string(form.heads),
           "0, or a divisor of " + std::to_string(form.width));
  return form;
}

void check_segments(const NodeSignature& node, const int32_t* ptr, int64_t batch, int64_t rows, int64_t edges) {
  for (int64_t b = 0; b < batch; ++b, ptr += rows + 1) {
    uint32_t wrong = ptr[0] != 0 || ptr[rows] > edges;
    int64_t at = 0;
    for (; at + kBlock <= rows; at += kBlock)
      for (int64_t i = at; i < at + kBlock; ++i) wrong |= static_cast<uint32_t>(ptr[i + 1] < ptr[i]);
    for (; at < rows; ++at) wrong |= static_cast<uint32_t>(ptr[at + 1] < ptr[at]);
    for (int64_t i = 0; wrong && i <= rows; ++i)
      if (const int64_t least = i == 0 ? 0 : ptr[i - 1]; ptr[i] < least || ptr[i] > (i == 0 ? 0 : edges))
        throw wrong_edge_list(node, "pointer [" + std::to_string(b) + "," + std::to_string(i) + "]", ptr[i], least,
                              i == 0 ? 0 : edges);
  }
}

void check_neighbors(const NodeSignature& node, const NeighborForm& form, const NeighborPointers& lists) {
  check_segments(node, lists.ptr, form.batch, form.targets, form.edges);
  check_segments(node, lists.source_ptr, form.batch, form.sources, form.edges);
  check_numbers(node, "source", lists.source, lists.ptr, form.batch, form.targets, form.edges, form.sources);
  check_numbers(node, "target", lists.target, lists.source_ptr, form.batch, form.sources, form.edges, form.targets);
  check_numbers(node, "by_source", lists.by_source, lists.source_ptr, form.batch, form.sources, form.edges, form.edges);
}

namespace {

/// Samples and features are free; rows and edges stay whole.
ShardingRule segment_rule(const NodeSignature& node) {
  RuleBuilder rule;
  const Shape& in = node.inputs[0].shape;
  const Shape& out = node.outputs[0].shape;
  const int batch = rule.factor(in[0]);
  // A dimension that input and output share stands in both; the others are summed over, or made.
  const bool keeps = node.op->name == "segment_softmax";
  const int first = rule.factor(in[1], true, keeps ? Reduce::kNone : Reduce::kSum);
  const int second = keeps ? first : rule.factor(out[1], true);
  ShardingRule::Operand from{{batch}, {first}}, to{{batch}, {second}};
  for (int axis = 2; axis < in.rank(); ++axis) {
    const int feature = rule.factor(in[axis]);
    from.push_back({feature}), to.push_back({feature});
  }
  rule.input(from).input({{batch}, {rule.factor(node.inputs[1].shape[1], true, Reduce::kSum)}});
  for (size_t i = 0; i < node.outputs.size(); ++i) rule.output(to);
  return rule.build();
}

/// Operands of the five lists.
void add_lists(RuleBuilder& rule, const NeighborForm& form, int batch, int edges) {
  const auto whole = [&](int64_t size) { return rule.factor(size, true, Reduce::kSum); };
  const int targets = whole(form.targets + 1), sources = whole(form.sources + 1);
  rule.input({{batch}, {edges}}).input({{batch}, {targets}}).input({{batch}, {edges}}).input({{batch}, {edges}});
  rule.input({{batch}, {sources}});
}

ShardingRule neighbor_sum_rule(const NodeSignature& node) {
  const NeighborForm form = neighbor_sum_form(node);
  RuleBuilder rule;
  const int batch = rule.factor(form.batch), edges = rule.factor(form.edges, true, Reduce::kSum);
  const int from = rule.factor(form.from(), true, Reduce::kSum), to = rule.factor(form.to(), true);
  ShardingRule::Dim features;
  if (form.heads > 0)
    features = {rule.factor(form.heads), rule.factor(form.width / form.heads, true)};
  else
    features = {rule.factor(form.width)};
  rule.input({{batch}, {from}, features});
  add_lists(rule, form, batch, edges);
  if (form.weighted) {
    ShardingRule::Operand weight{{batch}, {edges}};
    if (form.heads > 0) weight.push_back({features[0]});
    rule.input(weight);
  }
  return rule.output({{batch}, {to}, features}).build();
}

ShardingRule neighbor_dot_rule(const NodeSignature& node) {
  const NeighborForm form = neighbor_dot_form(node);
  RuleBuilder rule;
  const int batch = rule.factor(form.batch), edges = rule.factor(form.edges, true);
  const int targets = rule.factor(form.targets, true, Reduce::kSum),
            sources = rule.factor(form.sources, true, Reduce::kSum);
  // The attribute `heads` holds the extent of all heads, so these are not cut.
  ShardingRule::Dim features{
      rule.factor(form.heads > 0 ? form.heads : form.width, true, form.heads > 0 ? Reduce::kNone : Reduce::kSum)};
  ShardingRule::Operand out{{batch}, {edges}};
  if (form.heads > 0) {
    out.push_back({features[0]});
    features.push_back(rule.factor(form.width / form.heads, true, Reduce::kSum));
  }
  rule.input({{batch}, {targets}, features}).input({{batch}, {sources}, features});
  add_lists(rule, form, batch, edges);
  return rule.output(out).build();
}

NeighborLists lists_at(const GradientContext& context, size_t first) {
  return {context.inputs[first], context.inputs[first + 1], context.inputs[first + 2], context.inputs[first + 3],
          context.inputs[first + 4]};
}

/// [B, N, 1...] of x's rank: how many edges a row has, at least 1, as f32.
Tensor edge_counts(Tensor ptr, int rank) {
  const int64_t pointers = ptr.shape()[1];
  const Tensor counts = subtract(slice_axis(ptr, 1, 1, pointers), slice_axis(ptr, 1, 0, pointers - 1));
  Dims dims{ptr.shape()[0], pointers - 1};
  dims.resize(static_cast<size_t>(rank), 1);
  return maximum(cast(reshape(counts, Shape(dims)), DType::kF32), full(*ptr.builder, DType::kF32, Shape{}, 1));
}

std::vector<Tensor> segment_sum_gradient(GradientContext& context) {
  const SegmentForm form = segment_form(context.node);
  const Tensor ptr = context.inputs[1];
  Tensor dy = context.output_gradients[0];
  if (context.node.attributes.get_bool_or("mean", false))
    dy = cast_to(divide(cast_to(dy, DType::kF32), edge_counts(ptr, dy.shape().rank())), dy.dtype());
  return {segment_expand(cast_to(dy, context.inputs[0].dtype()), ptr, form.edges), {}};
}

std::vector<Tensor> segment_extreme_gradient(GradientContext& context) {
  const SegmentForm form = segment_form(context.node);
  const Tensor x = context.inputs[0], ptr = context.inputs[1];
  const Tensor dy = segment_expand(cast_to(context.output_gradients[0], x.dtype()), ptr, form.edges);
  const Tensor place = segment_expand(context.outputs[1], ptr, form.edges);
  const Tensor own = iota(context.build, DType::kI32, x.shape(), 1);
  return {select(equal(own, place), dy, zeros(context.build, x.type())), {}};
}

std::vector<Tensor> segment_softmax_gradient(GradientContext& context) {
  const SegmentForm form = segment_form(context.node);
  const Tensor ptr = context.inputs[1], y = context.outputs[0];
  const Tensor product = multiply(y, context.output_gradients[0]);
  return {subtract(product, multiply(y, segment_expand(segment_sum(product, ptr), ptr, form.edges))), {}};
}

std::vector<Tensor> segment_expand_gradient(GradientContext& context) {
  return {segment_sum(context.output_gradients[0], context.inputs[1]), {}};
}

std::vector<Tensor> neighbor_sum_gradient(GradientContext& context) {
  const NeighborForm form = neighbor_sum_form(context.node);
  const NeighborLists lists = lists_at(context, 1);
  const Tensor x = context.inputs[0], dy = cast_to(context.output_gradients[0], x.dtype());
  const Tensor weight = form.weighted ? context.inputs[6] : Tensor{};
  std::vector<Tensor> gradients(context.inputs.size());
  if (context.needed[0]) gradients[0] = neighbor_sum(dy, lists, weight, !form.transposed);
  if (form.weighted && context.needed[6])
    gradients[6] = neighbor_dot(form.transposed ? x : dy, form.transposed ? dy : x, lists, form.heads);
  return gradients;
}

std::vector<Tensor> neighbor_dot_gradient(GradientContext& context) {
  const NeighborLists lists = lists_at(context, 2);
  const Tensor a = context.inputs[0], b = context.inputs[1], g = cast_to(context.output_gradients[0], a.dtype());
  std::vector<Tensor> gradients(context.inputs.size());
  if (context.needed[0]) gradients[0] = neighbor_sum(b, lists, g);
  if (context.needed[1]) gradients[1] = neighbor_sum(a, lists, g, true);
  return gradients;
}

Cost edge_cost(const NodeSignature& node, const NeighborForm& form, double flops) {
  // Each edge reads a row, beside what is read once.
  Cost cost =
      streaming_cost(node, flops * static_cast<double>(form.batch * form.edges) * static_cast<double>(form.width));
  cost.bytes_read += form.batch * form.edges * form.width * static_cast<int64_t>(size_of(node.inputs[0].dtype));
  return cost;
}

/// The type of x with rows in place of edges.
TensorType row_type(const NodeSignature& node, const SegmentForm& form) {
  Dims dims = node.inputs[0].shape.dims();
  dims[1] = form.rows;
  return {node.inputs[0].dtype, Shape(std::move(dims))};
}

OpDef segment_op(const std::string& name, const std::string& doc) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = op.max_inputs = 2;
  op.sharding = segment_rule;
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 1); };
  return op;
}

void register_segment_ops(OpRegistry& registry) {
  OpDef sum = segment_op(
      "segment_sum", "x [B,E,...], ptr i32 [B,N+1] -> [B,N,...]: sums over the edges of each row, in order, in f32");
  sum.attributes = {optional_attribute("mean", Kind::kBool, "divide by the number of edges (false)")};
  sum.infer = [](const NodeSignature& node) {
    require_floating(node, 0, "x");
    return std::vector{row_type(node, segment_form(node))};
  };
  sum.gradient = segment_sum_gradient;
  sum.cost = [](const NodeSignature& node) {
    return streaming_cost(node, static_cast<double>(node.inputs[0].elements()));
  };
  registry.add(std::move(sum));

  OpDef extreme =
      segment_op("segment_extreme",
                 "x [B,E,...], ptr i32 [B,N+1] -> [B,N,...] and i32 [B,N,...]: the greatest element over the "
                 "edges of each row, and its first edge; 0 and -1 of rows without edges");
  extreme.attributes = {optional_attribute("least", Kind::kBool, "the least element (false)")};
  extreme.infer = [](const NodeSignature& node) {
    require_floating(node, 0, "x");
    const TensorType rows = row_type(node, segment_form(node));
    return std::vector{rows, TensorType{DType::kI32, rows.shape}};
  };
  extreme.gradient = segment_extreme_gradient;
  registry.add(std::move(extreme));

  OpDef softmax =
      segment_op("segment_softmax",
                 "x [B,E,...], ptr i32 [B,N+1] -> [B,E,...]: softmax over the edges of each row; 0 at places "
                 "without an edge");
  softmax.infer = [](const NodeSignature& node) {
    require_floating(node, 0, "x");
    static_cast<void>(segment_form(node));
    return std::vector{node.inputs[0]};
  };
  softmax.gradient = segment_softmax_gradient;
  softmax.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 20); };
  registry.add(std::move(softmax));

  OpDef expand = segment_op("segment_expand",
                            "rows [B,N,...], ptr i32 [B,N+1] -> [B,edges,...]: each row for all of its edges; 0 at "
                            "places without an edge");
  expand.attributes = {required_attribute("edges", Kind::kInt, "places for edges")};
  expand.infer = [](const NodeSignature& node) {
    Dims dims = node.inputs[0].shape.dims();
    const SegmentForm form = expand_form(node);
    dims[1] = form.edges;
    require_bounded(node, Shape(dims));
    return std::vector<TensorType>{{node.inputs[0].dtype, Shape(std::move(dims))}};
  };
  expand.gradient = segment_expand_gradient;
  registry.add(std::move(expand));
}

}  // namespace

void register_neighbor_ops(OpRegistry& registry) {
  register_segment_ops(registry);
  registry.add({.name = "neighbor_sum",
                .doc = "x [B,V,F], source i32 [B,E], ptr i32 [B,N+1], target, by_source i32 [B,E], source_ptr i32 "
                       "[B,V+1], weight [B,E] or [B,E,heads] -> [B,N,F]: sums of weight[e] * x[source[e]] over the "
                       "edges of each row, in order, in f32",
                .min_inputs = 6,
                .max_inputs = 7,
                .attributes = {optional_attribute("transposed", Kind::kBool,
                                                  "x [B,N,F] -> [B,V,F]: sums of weight[e] * x[target[e]] over the "
                                                  "edges that come from each row (false)")},
                .infer =
                    [](const NodeSignature& node) {
                      const NeighborForm form = neighbor_sum_form(node);
                      return std::vector<TensorType>{{node.inputs[0].dtype, Shape{form.batch, form.to(), form.width}}};
                    },
                .gradient = neighbor_sum_gradient,
                .sharding = neighbor_sum_rule,
                .cost = [](const NodeSignature& node) { return edge_cost(node, neighbor_sum_form(node), 2); }});
  registry.add({.name = "neighbor_dot",
                .doc = "a [B,N,F], b [B,V,F], source i32 [B,E], ptr i32 [B,N+1], target, by_source i32 [B,E], "
                       "source_ptr i32 [B,V+1] -> [B,E,heads] ([B,E] without heads): for each edge the sum of "
                       "a[target] * b[source] over the features of a head; 0 at places without an edge",
                .min_inputs = 7,
                .max_inputs = 7,
                .attributes = {optional_attribute("heads", Kind::kInt,
                                                  "groups of features (0: one, without a "
                                                  "dimension)")},
                .infer =
                    [](const NodeSignature& node) {
                      const NeighborForm form = neighbor_dot_form(node);
                      Dims dims{form.batch, form.edges};
                      if (form.heads > 0) dims.push_back(form.heads);
                      return std::vector<TensorType>{{node.inputs[0].dtype, Shape(std::move(dims))}};
                    },
                .gradient = neighbor_dot_gradient,
                .sharding = neighbor_dot_rule,
                .cost = [](const NodeSignature& node) { return edge_cost(node, neighbor_dot_form(node), 2); }});
}

Tensor segment_sum(Tensor x, Tensor ptr) { return x.builder->op("segment_sum", {x, ptr}); }
Tensor segment_mean(Tensor x, Tensor ptr) { return x.builder->op("segment_sum", {x, ptr}, {{"mean", true}}); }
Tensor segment_max(Tensor x, Tensor ptr) { return x.builder->ops("segment_extreme", {x, ptr}, {}).at(0); }
Tensor segment_min(Tensor x, Tensor ptr) {
  return x.builder->ops("segment_extreme", {x, ptr}, {{"least", true}}).at(0);
}
Tensor segment_softmax(Tensor x, Tensor ptr) { return x.builder->op("segment_softmax", {x, ptr}); }
Tensor segment_expand(Tensor rows, Tensor ptr, int64_t edges) {
  return rows.builder->op("segment_expand", {rows, ptr}, {{"edges", edges}});
}

Tensor gather_rows(Tensor rows, Tensor indices) {
  Addressing addressing{.axes = {1}};
  addressing.along.assign(static_cast<size_t>(indices.shape().rank()), -1);
  addressing.along[0] = 0;
  return take(rows, {indices}, addressing);
}

Tensor neighbor_sum(Tensor x, const NeighborLists& lists, Tensor weight, bool transposed) {
  std::vector<Tensor> inputs{x, lists.source, lists.ptr, lists.target, lists.by_source, lists.source_ptr};
  if (weight.valid()) inputs.push_back(weight);
  Attributes attributes;
  if (transposed) attributes.set("transposed", true);
  return x.builder->ops("neighbor_sum", inputs, std::move(attributes)).at(0);
}

Tensor neighbor_dot(Tensor a, Tensor b, const NeighborLists& lists, int64_t heads) {
  Attributes attributes;
  if (heads > 0) attributes.set("heads", heads);
  return a.builder->op("neighbor_dot", {a, b, lists.source, lists.ptr, lists.target, lists.by_source, lists.source_ptr},
                       std::move(attributes));
}

}  // namespace ramet::ops

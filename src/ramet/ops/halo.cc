#include "ramet/ops/halo.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/neighbors.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/position.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;
using Reduce = ShardingRule::Reduce;

/// Elements of the dimensions from `first` on.
int64_t elements_from(const Shape& shape, int first) {
  int64_t elements = 1;
  for (int axis = first; axis < shape.rank(); ++axis) elements *= shape[axis];
  return elements;
}

/// The shape with other extents in front.
Shape with_front(const Shape& shape, int64_t first, int64_t second) {
  Dims dims = shape.dims();
  dims[0] = first, dims[1] = second;
  return Shape(std::move(dims));
}

/// A table of i32 that the node carries, of `rank` dimensions whose first is `clusters`, with values in [low, high).
const int32_t* table_of(const NodeSignature& node, const std::string& name, int rank, int64_t first, int64_t low,
                        int64_t high) {
  const TensorData& table = node.attributes.get_tensor(name);
  if (table.type().dtype != DType::kI32 || table.type().shape.rank() != rank || table.type().shape[0] != first)
    refuse(node, "table '" + name + "' is of a wrong type", table.type().text(),
           "i32 of " + std::to_string(rank) + " dimensions, the first " + std::to_string(first));
  const auto* numbers = reinterpret_cast<const int32_t*>(table.bytes().data());
  for (int64_t i = 0; i < table.type().elements(); ++i)
    if (numbers[i] < low || numbers[i] >= high)
      refuse(node, "table '" + name + "' has a number that is out of range", std::to_string(numbers[i]),
             std::to_string(low) + " to " + std::to_string(high - 1));
  return numbers;
}

/// Which part of the clusters a device has: its number among the devices.
int64_t device_of(const NodeSignature& node) {
  const std::vector<PositionCut> cuts = position_cuts(node);
  if (cuts.size() != 1 || cuts[0].dim != 0 || cuts[0].blocks != 1) refuse(node, "needs one cut, of the clusters");
  return cuts[0].position;
}

void require_index(const NodeSignature& node, int input, const std::string& name, int64_t clusters, int64_t extent) {
  require_dtype(node, input, name, {DType::kI32});
  require_rank(node, input, name, 2, 2);
  const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
  if (shape[0] != clusters || (extent >= 0 && shape[1] != extent))
    refuse(node, name + " does not fit the rows", shape.text(),
           "[" + std::to_string(clusters) + "," + (extent >= 0 ? std::to_string(extent) : "E") + "]");
}

/// x at `first` and the far rows behind it.
HaloForm rows_form(const NodeSignature& node, int first) {
  require_floating(node, first, "x");
  require_rank(node, first, "x", 3, 3);
  require_rank(node, first + 1, "far", 3, 3);
  const TensorType &x = node.inputs[static_cast<size_t>(first)], &far = node.inputs[static_cast<size_t>(first) + 1];
  HaloForm form{.clusters = x.shape[0], .rows = x.shape[1], .far = far.shape[1], .width = x.shape[2]};
  if (far.dtype != x.dtype || far.shape[0] != form.clusters || far.shape[2] != form.width)
    refuse(node, "the far rows do not fit x", far.text(), x.text() + " with any number of rows");
  require_index(node, first + 2, "index", form.clusters, -1);
  require_index(node, first + 3, "ptr", form.clusters, form.rows + 1);
  form.edges = node.inputs[static_cast<size_t>(first) + 2].shape[1];
  return form;
}

}  // namespace

bool fetches_rows(const OpDef& op) {
  static const OpDef* const rows = OpRegistry::instance().find("halo_rows");
  return &op == rows;
}

HaloRowsForm halo_rows_form(const NodeSignature& node) {
  require_rank(node, 0, "x", 2);
  const Shape& x = node.inputs[0].shape;
  HaloRowsForm form{.clusters = x[0], .rows = x[1], .width = elements_from(x, 2)};
  form.table = table_of(node, "rows", 2, form.clusters, -1, form.clusters * form.rows);
  form.places = node.attributes.get_tensor("rows").type().shape[1];
  return form;
}

HaloForm halo_sum_form(const NodeSignature& node) {
  HaloForm form = rows_form(node, 0);
  require_index(node, 4, "back_index", form.clusters, -1);
  require_index(node, 5, "back_ptr", form.clusters, form.rows + 1);
  form.weighted = node.inputs.size() > 6;
  if (!form.weighted) return form;
  form.heads = edge_weight_heads(node, 6, form.clusters, form.edges, form.width);
  return form;
}

HaloForm halo_dot_form(const NodeSignature& node) {
  HaloForm form = rows_form(node, 1);
  require_type(node, 0, "a", node.inputs[1]);
  form.weighted = true;
  form.heads = node.attributes.get_int_or("heads", 0);
  if (form.heads < 0 || (form.heads > 0 && form.width % form.heads != 0))
    refuse(node, "the heads do not divide the features", std::to_string(form.heads),
           "0, or a divisor of " + std::to_string(form.width));
  return form;
}

void check_halo(const NodeSignature& node, const HaloForm& form, const int32_t* index, const int32_t* ptr) {
  check_segments(node, ptr, form.clusters, form.rows, form.edges);
  for (int64_t k = 0; k < form.clusters; ++k)
    for (int64_t e = 0; e < ptr[k * (form.rows + 1) + form.rows]; ++e)
      if (const int32_t row = index[k * form.edges + e]; row < 0 || row >= form.rows + form.far)
        throw Error({.what = "an edge comes from a row that there is not",
                     .where = node.text() + ", index[" + std::to_string(k) + "," + std::to_string(e) + "]",
                     .found = std::to_string(row),
                     .expected = "0 to " + std::to_string(form.rows + form.far - 1)},
                    ErrorKind::kFailure);
}

HaloPackForm halo_pack_form(const NodeSignature& node) {
  require_rank(node, 0, "x", 2);
  const Shape& x = node.inputs[0].shape;
  HaloPackForm form{.width = elements_from(x, 2), .rows = x[0] * x[1]};
  const Shape& table = node.attributes.get_tensor("send").type().shape;
  if (table.rank() != 3 || table[0] != table[1]) refuse(node, "table 'send' is of a wrong shape", table.text());
  form.devices = table[0], form.places = table[2];
  form.send = table_of(node, "send", 3, form.devices, -1, form.rows);
  const int64_t device = device_of(node);
  if (device >= form.devices) refuse(node, "there is no such device", std::to_string(device));
  form.send += device * form.devices * form.places;
  return form;
}

HaloUnpackForm halo_unpack_form(const NodeSignature& node) {
  require_rank(node, 0, "x", 2);
  require_rank(node, 1, "what came", 2);
  const Shape &x = node.inputs[0].shape, &came = node.inputs[1].shape;
  HaloUnpackForm form{.clusters = x[0], .width = elements_from(x, 2), .rows = x[0] * x[1], .came = came[0] * came[1]};
  if (node.inputs[1].dtype != node.inputs[0].dtype || with_front(came, x[0], x[1]) != x)
    refuse(node, "what came does not fit x", came.text(), x.text() + " with other extents in front");
  const Shape& table = node.attributes.get_tensor("place").type().shape;
  if (table.rank() != 3 || table[1] != form.clusters)
    refuse(node, "table 'place' is of a wrong shape", table.text(), "[devices," + std::to_string(x[0]) + ",H]");
  form.places = table[2];
  form.place = table_of(node, "place", 3, table[0], -form.rows, form.came + 1);
  const int64_t device = device_of(node);
  if (device >= table[0]) refuse(node, "there is no such device", std::to_string(device));
  form.place += device * form.clusters * form.places;
  return form;
}

namespace {

/// Clusters are cut where the far rows are there already; rows and edges stay whole.
ShardingRule halo_rule(const NodeSignature& node, const HaloForm& form, int first, bool sums) {
  RuleBuilder rule;
  const auto whole = [&](int64_t size) { return rule.factor(size, true, Reduce::kSum); };
  const int clusters = rule.factor(form.clusters);
  const int rows = rule.factor(form.rows, true, sums ? Reduce::kNone : Reduce::kSum);
  const int edges = rule.factor(form.edges, true, sums ? Reduce::kSum : Reduce::kNone);
  ShardingRule::Dim features;
  if (!sums && form.heads == 0)
    features = {whole(form.width)};
  else if (form.heads > 0)
    // The attribute `heads` of a product holds the extent of all heads, so these are not cut.
    features = {rule.factor(form.heads, !sums),
                rule.factor(form.width / form.heads, true, sums ? Reduce::kNone : Reduce::kSum)};
  else
    features = {rule.factor(form.width)};
  if (first > 0) rule.input({{clusters}, {rows}, features});
  rule.input({{clusters}, {rows}, features}).input({{clusters}, {whole(form.far)}, features});
  rule.input({{clusters}, {edges}}).input({{clusters}, {whole(form.rows + 1)}});
  ShardingRule::Operand weight{{clusters}, {edges}};
  if (form.heads > 0) weight.push_back({features[0]});
  if (!sums) return rule.output(weight).build();
  rule.input({{clusters}, {whole(node.inputs[4].shape[1])}}).input({{clusters}, {whole(form.rows + 1)}});
  if (form.weighted) rule.input(weight);
  return rule.output({{clusters}, {rows}, features}).build();
}

/// A shard has no use for the tables of all clusters: the gradient, which reads them, is made before a layout.
Attributes without_tables(const NodeSignature& node, const std::vector<int64_t>&, const ShardingRule&) {
  Attributes attributes = node.attributes;
  for (const char* name : {"rows", "back_rows", "edges", "back_edges"}) attributes.erase(name);
  return attributes;
}

HaloGraph graph_at(const GradientContext& context) {
  const Attributes& attributes = context.node.attributes;
  for (const char* name : {"rows", "back_rows"})
    if (!attributes.has(name)) refuse(context.node, "has no gradient without the tables of its clusters", name);
  HaloGraph graph{.index = context.inputs[2],
                  .ptr = context.inputs[3],
                  .back_index = context.inputs[4],
                  .back_ptr = context.inputs[5],
                  .rows = attributes.get_tensor("rows"),
                  .back_rows = attributes.get_tensor("back_rows")};
  if (attributes.has("edges")) graph.edges = attributes.get_tensor("edges");
  if (attributes.has("back_edges")) graph.back_edges = attributes.get_tensor("back_edges");
  return graph;
}

std::vector<Tensor> halo_sum_gradient(GradientContext& context) {
  const HaloForm form = halo_sum_form(context.node);
  const HaloGraph graph = graph_at(context), back = graph.reversed();
  const Tensor x = context.inputs[0], far = context.inputs[1];
  const Tensor dy = cast_to(context.output_gradients[0], x.dtype());
  std::vector<Tensor> gradients(context.inputs.size());
  // The far rows are rows of x: their part of the gradient is in x's.
  if (context.needed[0]) {
    const Tensor weight = form.weighted ? halo_edges(context.inputs[6], back) : Tensor{};
    gradients[0] = halo_sum(dy, back, weight);
  }
  if (form.weighted && context.needed[6]) {
    Attributes heads;
    if (form.heads > 0) heads.set("heads", form.heads);
    gradients[6] = context.build.op("halo_dot", {dy, x, far, graph.index, graph.ptr}, std::move(heads));
  }
  return gradients;
}

/// Edges that change their order: the other table brings their gradients back. Rows that are only read have no gradient
/// of their own (halo_sum).
std::vector<Tensor> halo_rows_gradient(GradientContext& context) {
  const Attributes& attributes = context.node.attributes;
  if (!attributes.has("back")) return {Tensor{}};
  return {context.build.op("halo_rows", {context.output_gradients[0]},
                           {{"rows", attributes.get_tensor("back")}, {"back", attributes.get_tensor("rows")}})};
}

Cost halo_cost(const NodeSignature& node, const HaloForm& form) {
  const double edges = static_cast<double>(form.clusters * form.edges);
  Cost cost = streaming_cost(node, 2 * edges * static_cast<double>(form.width));
  cost.bytes_read += form.clusters * form.edges * form.width * static_cast<int64_t>(size_of(node.inputs[0].dtype));
  return cost;
}

Cost move_cost(const NodeSignature& node) {
  return {.flops = 0, .bytes_read = node.outputs[0].bytes(), .bytes_written = node.outputs[0].bytes()};
}

void register_rows(OpRegistry& registry) {
  OpDef rows;
  rows.name = "halo_rows";
  rows.doc = "x [K,R,...] -> [K,H,...]: rows of all clusters by the table that the node carries, and 0 where it has -1";
  rows.min_inputs = rows.max_inputs = 1;
  rows.attributes = {required_attribute("rows", Kind::kTensor, "i32 [K,H]: numbers k R + r of rows, or -1"),
                     optional_attribute("back", Kind::kTensor,
                                        "i32 [K,R]: where each row went, for a table that moves every row once; "
                                        "without it no gradient flows")};
  rows.infer = [](const NodeSignature& node) {
    const HaloRowsForm form = halo_rows_form(node);
    if (node.attributes.has("back")) table_of(node, "back", 2, form.clusters, -1, form.clusters * form.places);
    return std::vector<TensorType>{
        {node.inputs[0].dtype, with_front(node.inputs[0].shape, form.clusters, form.places)}};
  };
  rows.gradient = halo_rows_gradient;
  rows.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    const Shape &in = node.inputs[0].shape, &out = node.outputs[0].shape;
    ShardingRule::Operand from{{rule.factor(in[0], true, Reduce::kSum)}, {rule.factor(in[1], true, Reduce::kSum)}};
    ShardingRule::Operand to{{rule.factor(out[0], true)}, {rule.factor(out[1], true)}};
    for (int axis = 2; axis < in.rank(); ++axis) {
      const int feature = rule.factor(in[axis]);
      from.push_back({feature}), to.push_back({feature});
    }
    return rule.input(from).output(to).build();
  };
  rows.cost = move_cost;
  registry.add(std::move(rows));
}

void register_sums(OpRegistry& registry) {
  OpDef sum;
  sum.name = "halo_sum";
  sum.doc =
      "x [K,N,F], far [K,H,F], index i32 [K,E], ptr i32 [K,N+1], back_index i32 [K,E'], back_ptr i32 [K,N+1], weight "
      "[K,E] or [K,E,heads] -> [K,N,F]: sums of weight[e] * row index[e] of x and far over the edges of each row, in "
      "order, in f32";
  sum.min_inputs = 6, sum.max_inputs = 7;
  sum.attributes = {
      optional_attribute("rows", Kind::kTensor, "i32 [K,H]: numbers of the far rows, for the gradient"),
      optional_attribute("back_rows", Kind::kTensor, "i32 [K,H']: the same by the reversed lists"),
      optional_attribute("edges", Kind::kTensor, "i32 [K,E]: numbers of the same edges in the reversed lists"),
      optional_attribute("back_edges", Kind::kTensor, "i32 [K,E']: the inverse of `edges`")};
  sum.infer = [](const NodeSignature& node) {
    const HaloForm form = halo_sum_form(node);
    return std::vector<TensorType>{{node.inputs[0].dtype, Shape{form.clusters, form.rows, form.width}}};
  };
  sum.gradient = halo_sum_gradient;
  sum.sharding = [](const NodeSignature& node) { return halo_rule(node, halo_sum_form(node), 0, true); };
  sum.localize = without_tables;
  sum.cost = [](const NodeSignature& node) { return halo_cost(node, halo_sum_form(node)); };
  registry.add(std::move(sum));

  OpDef dot;
  dot.name = "halo_dot";
  dot.doc =
      "a [K,N,F], x [K,N,F], far [K,H,F], index i32 [K,E], ptr i32 [K,N+1] -> [K,E,heads] ([K,E] without heads): for "
      "each edge the sum of its row of a times row index[e] of x and far; 0 at places without an edge";
  dot.min_inputs = dot.max_inputs = 5;
  dot.attributes = {optional_attribute("heads", Kind::kInt, "groups of features (0: one, without a dimension)")};
  dot.infer = [](const NodeSignature& node) {
    const HaloForm form = halo_dot_form(node);
    Dims dims{form.clusters, form.edges};
    if (form.heads > 0) dims.push_back(form.heads);
    return std::vector<TensorType>{{node.inputs[0].dtype, Shape(std::move(dims))}};
  };
  dot.sharding = [](const NodeSignature& node) { return halo_rule(node, halo_dot_form(node), 1, false); };
  dot.cost = [](const NodeSignature& node) { return halo_cost(node, halo_dot_form(node)); };
  registry.add(std::move(dot));
}

/// What a layout makes of `halo_rows`, with an all_to_all between the two.
void register_messages(OpRegistry& registry) {
  OpDef pack;
  pack.name = "halo_pack";
  pack.doc =
      "x [k,R,...] -> [devices,S,...]: the rows that this device sends to each device, and 0 where there is none";
  pack.min_inputs = pack.max_inputs = 1;
  pack.attributes = {
      required_attribute("send", Kind::kTensor, "i32 [devices,devices,S]: of each device rows of x, or -1")};
  pack.infer = [](const NodeSignature& node) {
    const HaloPackForm form = halo_pack_form(node);
    return std::vector<TensorType>{{node.inputs[0].dtype, with_front(node.inputs[0].shape, form.devices, form.places)}};
  };
  pack.gradient_stops = true;
  pack.sharding = whole_sharding;
  pack.cost = move_cost;
  pack.positional = 0;
  registry.add(std::move(pack));

  OpDef unpack;
  unpack.name = "halo_unpack";
  unpack.doc =
      "x [k,R,...] and what came [devices,S,...] -> [k,H,...]: the rows of `halo_rows` for this device's clusters";
  unpack.min_inputs = unpack.max_inputs = 2;
  unpack.attributes = {
      required_attribute("place", Kind::kTensor,
                         "i32 [devices,k,H]: i + 1 for row i of what came, -(i + 1) for row i of x, 0 for none"),
      required_attribute("rows", Kind::kTensor, "i32 [K,H]: the table of `halo_rows`, for the verifier"),
      required_attribute("deal", Kind::kInts, "the clusters in the order of the devices")};
  unpack.infer = [](const NodeSignature& node) {
    const HaloUnpackForm form = halo_unpack_form(node);
    return std::vector<TensorType>{
        {node.inputs[0].dtype, with_front(node.inputs[0].shape, form.clusters, form.places)}};
  };
  unpack.gradient_stops = true;
  unpack.sharding = whole_sharding;
  unpack.cost = move_cost;
  unpack.positional = 0;
  registry.add(std::move(unpack));
}

}  // namespace

void register_halo_ops(OpRegistry& registry) {
  register_rows(registry);
  register_sums(registry);
  register_messages(registry);
}

HaloGraph HaloGraph::reversed() const { return {back_index, back_ptr, index, ptr, back_rows, rows, back_edges, edges}; }

Tensor halo_sum(Tensor x, const HaloGraph& graph, Tensor weight) {
  GraphBuilder& build = *x.builder;
  const Tensor far = build.op("halo_rows", {x}, {{"rows", graph.rows}});
  Attributes tables{{"rows", graph.rows}, {"back_rows", graph.back_rows}};
  std::vector<Tensor> inputs{x, far, graph.index, graph.ptr, graph.back_index, graph.back_ptr};
  if (weight.valid()) {
    inputs.push_back(weight);
    tables.set("edges", graph.edges).set("back_edges", graph.back_edges);
  }
  return build.ops("halo_sum", inputs, std::move(tables)).at(0);
}

Tensor halo_edges(Tensor values, const HaloGraph& graph) {
  return values.builder->op("halo_rows", {values}, {{"rows", graph.edges}, {"back", graph.back_edges}});
}

}  // namespace ramet::ops

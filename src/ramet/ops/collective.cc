#include "ramet/ops/collective.h"

#include <algorithm>

#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

// What partitioning puts between devices. Sums run along the balanced tree over the members of the group
// (ops/reduce_order.h): members that hold sums of equal numbers of chunks or lanes so continue the recipe's own tree.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

int64_t positive(const NodeSignature& node, const std::string& name, int64_t otherwise) {
  const int64_t value = node.attributes.get_int_or(name, otherwise);
  if (value < 1) refuse(node, name + " must be positive", std::to_string(value));
  return value;
}

/// The dimension of attribute `dim` of the whole tensor `shape`, checked to hold blocks x parts equal pieces.
int cut_dimension(const NodeSignature& node, const Shape& shape, int64_t parts, int64_t blocks) {
  const int dim = axis_attribute(node, "dim", shape.rank());
  if (shape[dim] % (parts * blocks) != 0)
    refuse(node, "a dimension does not fall into equal parts", std::to_string(shape[dim]),
           "a multiple of " + std::to_string(parts * blocks));
  return dim;
}

TensorType resized(TensorType type, int dim, int64_t extent) {
  std::vector<int64_t> dims = type.shape.dims();
  dims[static_cast<size_t>(dim)] = extent;
  type.shape = Shape(std::move(dims));
  return type;
}

std::vector<TensorType> infer_all_reduce(const NodeSignature& node) {
  const std::string kind = node.attributes.get_string_or("kind", "sum");
  if (kind != "sum" && kind != "max" && kind != "min")
    refuse(node, "unknown reduction", "'" + kind + "'", "sum, max or min");
  positive(node, "parts", 1);
  positive(node, "stride", 1);
  if (!is_floating(node.inputs[0].dtype) && !is_integer(node.inputs[0].dtype))
    refuse(node, "this element type cannot be reduced", node.inputs[0].text());
  return {node.inputs[0]};
}

std::vector<TensorType> infer_all_gather(const NodeSignature& node) {
  const int64_t parts = positive(node, "parts", 1), blocks = positive(node, "blocks", 1);
  positive(node, "stride", 1);
  const int dim = cut_dimension(node, node.inputs[0].shape, 1, blocks);
  return {resized(node.inputs[0], dim, node.inputs[0].shape[dim] * parts)};
}

std::vector<TensorType> infer_reduce_scatter(const NodeSignature& node) {
  const int64_t parts = positive(node, "parts", 1), blocks = positive(node, "blocks", 1);
  infer_all_reduce(node);
  const int dim = cut_dimension(node, node.inputs[0].shape, parts, blocks);
  return {resized(node.inputs[0], dim, node.inputs[0].shape[dim] / parts)};
}

/// Member k gets part k of `split` from every member, joined along `concat` in order of members.
std::vector<TensorType> infer_all_to_all(const NodeSignature& node) {
  const int64_t parts = positive(node, "parts", 1);
  positive(node, "stride", 1);
  const TensorType& a = node.inputs[0];
  const int split = axis_attribute(node, "split", a.shape.rank());
  const int concat = axis_attribute(node, "concat", a.shape.rank());
  if (a.shape[split] % parts != 0)
    refuse(node, "a dimension does not fall into equal parts", std::to_string(a.shape[split]),
           "a multiple of " + std::to_string(parts));
  const TensorType part = resized(a, split, a.shape[split] / parts);
  return {resized(part, concat, part.shape[concat] * parts)};
}

/// What one member sends and receives, whatever the algorithm.
Cost exchange_cost(const NodeSignature& node) {
  Cost cost;
  cost.bytes_read = node.inputs[0].bytes();
  cost.bytes_written = node.outputs[0].bytes();
  return cost;
}

std::vector<AttributeSpec> group_attributes() {
  return {{"axis", Kind::kInt, true, "mesh axis along which the members differ (0 p, 1 r, 2 t1, 3 t2)"},
          {"parts", Kind::kInt, true, "members"},
          {"stride", Kind::kInt, false, "distance of their coordinates (1)"}};
}

void add(OpRegistry& registry, const std::string& name, const std::string& doc, Exchange exchange,
         std::vector<TensorType> (*infer)(const NodeSignature&), std::initializer_list<AttributeSpec> more) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = op.max_inputs = 1;
  op.attributes = group_attributes();
  op.attributes.insert(op.attributes.end(), more);
  op.infer = infer;
  op.gradient_stops = true;  // partitioning comes after differentiation
  op.sharding = whole_sharding;
  op.cost = exchange_cost;
  op.exchange = exchange;
  registry.add(std::move(op));
}

/// A device's own part of a tensor that it holds whole: a copy that depends on the device's position, and no exchange.
OpDef shard_op() {
  OpDef op;
  op.name = "shard";
  op.doc = "the part of a tensor that the attribute `cuts` gives to the device";
  op.min_inputs = op.max_inputs = 1;
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    TensorType type = node.inputs[0];
    const std::vector<PositionCut> cuts = position_cuts(node);
    for (const PositionCut& cut : cuts) {
      if (cut.dim < 0 || cut.dim >= type.shape.rank() ||
          type.shape[static_cast<int>(cut.dim)] % (cut.parts * cut.blocks) != 0)
        refuse(node, "a tensor cannot be cut so",
               "dimension " + std::to_string(cut.dim) + " in " + std::to_string(cut.blocks) + " x " +
                   std::to_string(cut.parts));
      if (std::count_if(cuts.begin(), cuts.end(), [&](const PositionCut& other) { return other.dim == cut.dim; }) > 1)
        refuse(node, "a dimension is cut twice", "dimension " + std::to_string(cut.dim));
      type = resized(type, static_cast<int>(cut.dim), type.shape[static_cast<int>(cut.dim)] / cut.parts);
    }
    return {type};
  };
  op.gradient_stops = true;
  op.sharding = whole_sharding;
  op.cost = [](const NodeSignature& node) {
    return Cost{.flops = 0, .bytes_read = node.outputs[0].bytes(), .bytes_written = node.outputs[0].bytes()};
  };
  op.positional = OpDef::kPositionalOutput;
  op.cheap = true;
  return op;
}

}  // namespace

CollectiveForm collective_form(const NodeSignature& node) {
  if (node.op->exchange == Exchange::kNone) refuse(node, "not a collective");
  CollectiveForm form;
  form.exchange = node.op->exchange;
  form.axis = node.attributes.get_int("axis");
  form.parts = node.attributes.get_int("parts");
  form.stride = node.attributes.get_int_or("stride", 1);
  form.kind = node.attributes.get_string_or("kind", "sum");
  form.input = node.inputs[0];
  form.output = node.op->infer(node)[0];
  if (form.exchange == Exchange::kAllReduce) {
    form.run = form.input.elements();
  } else if (form.exchange == Exchange::kAllToAll) {
    form.run = form.input.elements() / form.parts;
  } else {
    const Shape& whole = form.exchange == Exchange::kAllGather ? form.output.shape : form.input.shape;
    const int dim = axis_attribute(node, "dim", whole.rank());
    form.outer = node.attributes.get_int_or("blocks", 1);
    for (int i = 0; i < dim; ++i) form.outer *= whole[i];
    form.run = form.outer > 0 ? whole.elements() / (form.outer * form.parts) : 0;
  }
  return form;
}

void register_collective_ops(OpRegistry& registry) {
  registry.add(shard_op());
  const AttributeSpec kind{"kind", Kind::kString, false, "sum (the default), max or min"};
  const AttributeSpec dim{"dim", Kind::kInt, true, "dimension that is cut among the members"};
  const AttributeSpec blocks{"blocks", Kind::kInt, false,
                             "the dimension is [blocks, parts, inner]; a member has one part of each block (1)"};
  add(registry, "all_reduce", "the members' tensors reduced; each gets all of it", Exchange::kAllReduce,
      infer_all_reduce, {kind});
  add(registry, "all_gather", "the members' tensors joined along `dim`; each gets all of it", Exchange::kAllGather,
      infer_all_gather, {dim, blocks});
  add(registry, "reduce_scatter", "the members' tensors reduced; each gets its part of `dim`", Exchange::kReduceScatter,
      infer_reduce_scatter, {kind, dim, blocks});
  add(registry, "all_to_all", "member k gets part k of dimension `split` of every member, joined along `concat`",
      Exchange::kAllToAll, infer_all_to_all,
      {{"split", Kind::kInt, true, "dimension that is dealt out"},
       {"concat", Kind::kInt, true, "dimension along which parts are joined"}});
}

}  // namespace ramet::ops

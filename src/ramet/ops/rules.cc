#include "ramet/ops/rules.h"

#include <algorithm>

#include "ramet/base/error_types.h"
#include "ramet/ops/build.h"

namespace ramet::ops {
namespace {

constexpr int kMostRank = 16;
constexpr int64_t kMostExtent = int64_t{1} << 40;
constexpr int64_t kMostElements = int64_t{1} << 48;

const TensorType& operand_of(const NodeSignature& node, int input) {
  return node.inputs.at(static_cast<size_t>(input));
}

std::string describe(int input, const std::string& operand) {
  return "input " + std::to_string(input) + " (" + operand + ")";
}

}  // namespace

void refuse(const NodeSignature& node, const std::string& what, const std::string& found, const std::string& expected,
            const std::string& remedy) {
  throw ShapeError({.what = what, .where = node.text(), .found = found, .expected = expected, .remedy = remedy});
}

void require_floating(const NodeSignature& node, int input, const std::string& operand) {
  const TensorType& type = operand_of(node, input);
  if (!is_floating(type.dtype))
    refuse(node, describe(input, operand) + " is not floating-point", type.text(),
           "f32, bf16, f16, f8e4m3, f8e5m2 or f64", "Cast it first");
}

void require_dtype(const NodeSignature& node, int input, const std::string& operand,
                   std::initializer_list<DType> allowed) {
  const TensorType& type = operand_of(node, input);
  std::string names;
  for (DType dtype : allowed) {
    if (type.dtype == dtype) return;
    names += (names.empty() ? "" : " or ") + std::string(name_of(dtype));
  }
  refuse(node, describe(input, operand) + " has the wrong element type", type.text(), names, "Cast it first");
}

void require_rank(const NodeSignature& node, int input, const std::string& operand, int least, int most) {
  const TensorType& type = operand_of(node, input);
  if (type.shape.rank() >= least && type.shape.rank() <= most) return;
  const std::string expected = least == most       ? "rank " + std::to_string(least)
                               : most >= kMostRank ? "rank " + std::to_string(least) + " or more"
                                                   : "rank " + std::to_string(least) + " to " + std::to_string(most);
  refuse(node, describe(input, operand) + " has the wrong rank", type.text(), expected);
}

void require_shape(const NodeSignature& node, int input, const std::string& operand, const Shape& expected) {
  const TensorType& type = operand_of(node, input);
  if (type.shape != expected)
    refuse(node, describe(input, operand) + " has the wrong shape", type.shape.text(), expected.text());
}

void require_bounded(const NodeSignature& node, const Shape& shape) {
  if (shape.rank() > kMostRank) refuse(node, "too many dimensions", std::to_string(shape.rank()), "at most 16");
  int64_t elements = 1;
  bool empty = false;
  for (int64_t extent : shape.dims()) {
    if (extent < 0 || extent > kMostExtent)
      refuse(node, "extent out of range", std::to_string(extent) + " in " + shape.text(), "0 to 2^40");
    empty = empty || extent == 0;
    if (extent == 0) continue;
    if (elements > kMostElements / extent) refuse(node, "a tensor of too many elements", shape.text(), "at most 2^48");
    elements *= extent;
  }
}

Shape shape_attribute(const NodeSignature& node, const std::string& name) {
  Shape shape(node.attributes.get_ints(name));
  require_bounded(node, shape);
  return shape;
}

static int axis_of(const NodeSignature& node, int64_t axis, int rank) {
  // The text of a node is expensive to make, and only the error needs it.
  return normalize_axis(axis, rank, axis < -rank || axis >= rank ? node.text() : std::string());
}

int axis_attribute(const NodeSignature& node, const std::string& name, int rank) {
  return axis_of(node, node.attributes.get_int(name), rank);
}

std::vector<int> axes_attribute(const NodeSignature& node, const std::string& name, int rank) {
  std::vector<int> axes;
  if (node.attributes.has(name))
    for (int64_t axis : node.attributes.get_ints(name)) axes.push_back(axis_of(node, axis, rank));
  if (axes.empty())
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    refuse(node, "the same axis twice in '" + name + "'", text_of(node.attributes.get_ints(name)), "distinct axes");
  return axes;
}

DType promote_floats(const NodeSignature& node, DType a, DType b) {
  if (!is_floating(a) || !is_floating(b))
    refuse(node, "element types do not go together", std::string(name_of(a)) + " and " + std::string(name_of(b)),
           "floating-point types", "Cast one of them");
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return a == b ? a : DType::kF32;
}

Tensor cast_to(Tensor gradient, DType dtype) { return gradient.dtype() == dtype ? gradient : cast(gradient, dtype); }

Tensor sum_to(Tensor gradient, const TensorType& type) {
  const Shape shape = gradient.shape();
  const int extra = shape.rank() - type.shape.rank();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axis < extra || (type.shape.dim(axis - extra) == 1 && shape.dim(axis) != 1)) axes.push_back(axis);
  if (!axes.empty()) {
    Attributes attributes{{"axes", axes}, {"dtype", type.dtype}};
    gradient = gradient.builder->op("reduce_sum", {gradient}, attributes);
  }
  if (gradient.shape() != type.shape) gradient = reshape(gradient, type.shape);
  return cast_to(gradient, type.dtype);
}

Tensor zeros(GraphBuilder& build, const TensorType& type) { return full(build, type.dtype, type.shape, 0); }

Cost streaming_cost(const NodeSignature& node, double flops) {
  Cost cost;
  cost.flops = flops;
  for (const TensorType& type : node.inputs) cost.bytes_read += type.bytes();
  for (const TensorType& type : node.outputs) cost.bytes_written += type.bytes();
  return cost;
}

Cost streaming_cost_each(const NodeSignature& node, double flops_each) {
  return streaming_cost(node, flops_each * static_cast<double>(node.outputs.at(0).elements()));
}

Cost no_cost(const NodeSignature&) { return {}; }

int RuleBuilder::factor(int64_t size, bool whole, ShardingRule::Reduce reduce) {
  const int index = static_cast<int>(rule_.factors.size());
  std::string name(1, static_cast<char>('a' + index % 26));
  if (index >= 26) name += std::to_string(index / 26);
  rule_.factors.push_back({name, size, whole, reduce});
  return index;
}

RuleBuilder& RuleBuilder::input(ShardingRule::Operand operand) {
  rule_.inputs.push_back(std::move(operand));
  return *this;
}

RuleBuilder& RuleBuilder::output(ShardingRule::Operand operand) {
  rule_.outputs.push_back(std::move(operand));
  return *this;
}

ShardingRule::Operand broadcast_operand(const Shape& shape, const Shape& space, const std::vector<int>& factors) {
  ShardingRule::Operand operand;
  const int extra = space.rank() - shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool stretched = shape.dim(axis) == 1 && space.dim(axis + extra) != 1;
    operand.push_back(stretched ? ShardingRule::Dim{} : ShardingRule::Dim{factors[static_cast<size_t>(axis + extra)]});
  }
  return operand;
}

ShardingRule elementwise_sharding(const NodeSignature& node) {
  RuleBuilder rule;
  const Shape& space = node.outputs.at(0).shape;
  std::vector<int> factors;
  for (int64_t extent : space.dims()) factors.push_back(rule.factor(extent));
  for (const TensorType& type : node.inputs) rule.input(broadcast_operand(type.shape, space, factors));
  for (const TensorType& type : node.outputs) rule.output(broadcast_operand(type.shape, space, factors));
  return rule.build();
}

ShardingRule whole_sharding(const NodeSignature& node) {
  RuleBuilder rule;
  const auto dims = [&](const TensorType& type) {
    ShardingRule::Operand operand;
    for (int64_t extent : type.shape.dims()) operand.push_back({rule.factor(extent, true)});
    return operand;
  };
  for (const TensorType& type : node.inputs) rule.input(dims(type));
  for (const TensorType& type : node.outputs) rule.output(dims(type));
  return rule.build();
}

ShardingRule same_dims_sharding(const NodeSignature& node, const std::vector<int>& whole) {
  RuleBuilder rule;
  const Shape& shape = node.inputs.at(0).shape;
  const auto is_whole = [&](int axis) { return std::find(whole.begin(), whole.end(), axis) != whole.end(); };
  ShardingRule::Operand operand;
  for (int axis = 0; axis < shape.rank(); ++axis) operand.push_back({rule.factor(shape.dim(axis), is_whole(axis))});
  rule.input(operand);
  for (const TensorType& output : node.outputs) {
    ShardingRule::Operand dims = operand;
    // A whole dimension may change its extent from input to output (pad, top-k): then it is a factor of its own.
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (output.shape.dim(axis) != shape.dim(axis))
        dims[static_cast<size_t>(axis)] = {rule.factor(output.shape.dim(axis), true)};
    rule.output(std::move(dims));
  }
  return rule.build();
}

int64_t local_extent(const ShardingRule::Dim& dim, const std::vector<int64_t>& parts, const ShardingRule& rule) {
  int64_t extent = 1;
  for (int factor : dim) extent *= rule.factors[static_cast<size_t>(factor)].size / parts[static_cast<size_t>(factor)];
  return extent;
}

Attributes localize_shape(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule) {
  Attributes attributes = node.attributes;
  std::vector<int64_t> shape;
  for (const ShardingRule::Dim& dim : rule.outputs.at(0)) shape.push_back(local_extent(dim, parts, rule));
  return attributes.set("shape", shape);
}

Attributes localize_chunks(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule) {
  Attributes attributes = node.attributes;
  if (attributes.get_int_or("chunks", 1) == 1) return attributes;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (rule.factors[f].name == "c" && parts[f] > 1) attributes.set("chunks", attributes.get_int("chunks") / parts[f]);
  return attributes;
}

AttributeSpec required_attribute(const std::string& name, AttributeSpec::Kind kind, const std::string& doc) {
  return {name, kind, true, doc};
}

AttributeSpec optional_attribute(const std::string& name, AttributeSpec::Kind kind, const std::string& doc) {
  return {name, kind, false, doc};
}

}  // namespace ramet::ops

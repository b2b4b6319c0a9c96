#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/index_space.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

// Ops whose elements are found by index or by order.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;
using Reduce = ShardingRule::Reduce;

Cost move_cost(const NodeSignature& node) { return streaming_cost(node, 0); }

// --- one_hot ---

OpDef one_hot_op() {
  OpDef op;
  op.name = "one_hot";
  op.doc = "indices [...] -> [..., depth]: 1 at the index, 0 elsewhere; all 0 when the index is outside [0, depth)";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("depth", Kind::kInt, "extent of the new last dimension"),
                   required_attribute("dtype", Kind::kDType, "of the result")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_dtype(node, 0, "indices", {DType::kI32, DType::kI64});
    Dims dims = node.inputs[0].shape.dims();
    dims.push_back(node.attributes.get_int("depth"));
    require_bounded(node, Shape(dims));
    return {{node.attributes.get_dtype("dtype"), Shape(std::move(dims))}};
  };
  op.gradient_stops = true;
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    ShardingRule::Operand dims;
    for (int64_t extent : node.inputs[0].shape.dims()) dims.push_back({rule.factor(extent)});
    rule.input(dims);
    dims.push_back({rule.factor(node.outputs[0].shape.dim(-1), true)});
    return rule.output(dims).build();
  };
  op.cost = move_cost;
  op.cheap = true;
  op.scaling = constant_rule([](const NodeSignature& node) {
    return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, node.outputs[0].shape.dim(-1))));
  });
  return op;
}

// --- gather and scatter_add ---

/// Rows of a weight are met as often as words are, rows of another value once.
ScalingRule gather_scaling() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    Amplitude out = context.inputs[0];
    if (out.parameter) {
      const double again = same_word(context.node.inputs[0].shape.dim(0));
      out.in_sample += (1 - out.in_sample) * again;
      out.across += (1 - out.across) * again;
    }
    out.parameter = false;
    return std::vector{out};
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    const auto updates = static_cast<double>(std::max<int64_t>(1, context.node.inputs[1].elements()));
    const int64_t rows = std::max<int64_t>(1, context.node.inputs[0].shape.dim(0));
    const double part = updates / static_cast<double>(rows);
    Amplitude table = scaled(gradients[0], std::sqrt(part));
    if (context.inputs[0].parameter) {
      const double again = same_word(rows), of_sample = std::max(1.0, updates / static_cast<double>(context.samples));
      table.rms *= std::sqrt(
          1 + again * ((of_sample - 1) * gradients[0].in_sample + (updates - of_sample) * gradients[0].across));
      table.in_sample = table.across = 0;
    } else {
      table.in_sample *= std::min(1.0, part), table.across *= std::min(1.0, part);
    }
    return std::vector<Amplitude>{table, {.rms = 0}};
  };
  return rule;
}

OpDef gather_op() {
  OpDef op;
  op.name = "gather";
  op.doc =
      "rows of a table [V, ...] by indices [I...] -> [I..., ...]; an index outside [0, V) is an error at run time. A "
      "part of a "
      "table gives rows of -0 for indices of other parts, so that the parts' results add up to the whole's bits";
  op.min_inputs = op.max_inputs = 2;
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_rank(node, 0, "table", 1);
    require_dtype(node, 1, "indices", {DType::kI32, DType::kI64});
    Dims dims = node.inputs[1].shape.dims();
    const Dims& table = node.inputs[0].shape.dims();
    dims.insert(dims.end(), table.begin() + 1, table.end());
    require_bounded(node, Shape(dims));
    return {{node.inputs[0].dtype, Shape(std::move(dims))}};
  };
  op.gradient = [](GradientContext& c) {
    const TensorType& table = c.node.inputs[0];
    Attributes attributes{{"rows", table.shape.dim(0)}, {"dtype", table.dtype}};
    return std::vector{c.build.op("scatter_add", {c.inputs[1], c.output_gradients[0]}, attributes), Tensor{}};
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    // Bools have no sum, and devices add no f64 and no integers other than i32 and i64.
    const DType dtype = node.inputs[0].dtype;
    const bool adds = (is_floating(dtype) && dtype != DType::kF64) || is_index(dtype);
    const Reduce reduce = adds ? Reduce::kSum : Reduce::kNone;
    ShardingRule::Operand table{{rule.factor(node.inputs[0].shape.dim(0), !adds, reduce)}}, indices, out;
    for (int64_t extent : node.inputs[1].shape.dims()) indices.push_back({rule.factor(extent)});
    out = indices;
    for (int axis = 1; axis < node.inputs[0].shape.rank(); ++axis) {
      table.push_back({rule.factor(node.inputs[0].shape.dim(axis))});
      out.push_back(table.back());
    }
    return rule.input(table).input(indices).output(out).build();
  };
  op.cost = [](const NodeSignature& node) {
    Cost cost;
    cost.bytes_read = node.inputs[1].bytes() + node.outputs[0].bytes();
    cost.bytes_written = node.outputs[0].bytes();
    return cost;
  };
  op.cheap = true;
  op.scaling = gather_scaling();
  op.positional = 0;
  op.picks_rows = true;
  return op;
}

OpDef scatter_add_op() {
  OpDef op;
  op.name = "scatter_add";
  op.doc =
      "zeros [rows, ...] with updates [I..., ...] added at indices [I...], in order of index position, in f32; a part "
      "of the "
      "rows skips the indices of others. With accumulate=true the sums are added to a third input of the result's "
      "type, whose "
      "rows without an index stay as they are";
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.attributes = {required_attribute("rows", Kind::kInt, "extent of the first dimension of the result"),
                   optional_attribute("dtype", Kind::kDType, "of the result (the third input's or the updates')"),
                   optional_attribute("accumulate", Kind::kBool, "add to what the third input holds")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_dtype(node, 0, "indices", {DType::kI32, DType::kI64});
    require_floating(node, 1, "updates");
    const bool adds = node.attributes.get_bool_or("accumulate", false);
    if (adds != (node.inputs.size() > 2))
      refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()), adds ? "3" : "2",
             "accumulate=true takes a third input, and only then");
    const Dims &indices = node.inputs[0].shape.dims(), &updates = node.inputs[1].shape.dims();
    if (updates.size() < indices.size() || !std::equal(indices.begin(), indices.end(), updates.begin()))
      refuse(node, "the first dimensions of the updates are not those of the indices", node.inputs[1].text(),
             node.inputs[0].shape.text());
    Dims dims{node.attributes.get_int("rows")};
    dims.insert(dims.end(), updates.begin() + static_cast<long>(indices.size()), updates.end());
    require_bounded(node, Shape(dims));
    const DType dtype =
        node.attributes.has("dtype") ? node.attributes.get_dtype("dtype") : node.inputs[adds ? 2 : 1].dtype;
    if (!is_floating(dtype)) refuse(node, "sums of updates are floating-point", std::string(name_of(dtype)));
    const TensorType result{dtype, Shape(std::move(dims))};
    if (adds) require_type(node, 2, "what is added to", result);
    return {result};
  };
  op.gradient = [](GradientContext& c) {
    std::vector<Tensor> gradients{Tensor{}, cast_to(gather(c.output_gradients[0], c.inputs[0]), c.inputs[1].dtype())};
    if (c.inputs.size() > 2) gradients.push_back(c.output_gradients[0]);
    return gradients;
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    // Updates of a row are added in order of position: no part of the positions may be added apart.
    ShardingRule::Operand indices, out{{rule.factor(node.outputs[0].shape.dim(0))}};
    for (int64_t extent : node.inputs[0].shape.dims()) indices.push_back({rule.factor(extent, true, Reduce::kSum)});
    ShardingRule::Operand updates = indices;
    for (int axis = 1; axis < node.outputs[0].shape.rank(); ++axis) {
      out.push_back({rule.factor(node.outputs[0].shape.dim(axis))});
      updates.push_back(out.back());
    }
    rule.input(indices).input(updates);
    if (node.inputs.size() > 2) rule.input(out);
    return rule.output(out).build();
  };
  op.localize = [](const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule) {
    Attributes attributes = node.attributes;
    return attributes.set("rows", local_extent(rule.outputs.at(0).at(0), parts, rule));
  };
  op.cost = [](const NodeSignature& node) {
    const auto updates = static_cast<double>(node.inputs[1].elements());
    if (node.inputs.size() == 2) return streaming_cost(node, updates);
    // Only rows with an index are read and written.
    const TensorType& out = node.outputs[0];
    const int64_t rows = std::min(out.bytes(), node.inputs[1].elements() * static_cast<int64_t>(size_of(out.dtype)));
    return Cost{.flops = 2 * updates,
                .bytes_read = node.inputs[0].bytes() + node.inputs[1].bytes() + rows,
                .bytes_written = rows};
  };
  op.positional = OpDef::kPositionalOutput;
  return op;
}

// --- argmax, argmin ---

OpDef arg_op(const std::string& name, const std::string& what) {
  OpDef op;
  op.name = name;
  op.doc = "i32 index of the " + what + " element along `axis`, the first of equals; a NaN counts as " + what;
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("axis", Kind::kInt, "along which to look")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const TensorType& a = node.inputs[0];
    if (!is_floating(a.dtype) && !is_integer(a.dtype))
      refuse(node, "cannot order this element type", a.text(), "floats or integers");
    const int axis = axis_attribute(node, "axis", a.shape.rank());
    if (a.shape.dim(axis) < 1 || a.shape.dim(axis) > INT32_MAX)
      refuse(node, "no index fits this extent", std::to_string(a.shape.dim(axis)), "1 to 2^31 - 1");
    Dims dims = a.shape.dims();
    dims.erase(dims.begin() + axis);
    return {{DType::kI32, Shape(std::move(dims))}};
  };
  op.gradient_stops = true;
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    const Shape& shape = node.inputs[0].shape;
    const int axis = axis_attribute(node, "axis", shape.rank());
    ShardingRule::Operand in, out;
    for (int i = 0; i < shape.rank(); ++i) {
      in.push_back({rule.factor(shape.dim(i), i == axis)});
      if (i != axis) out.push_back(in.back());
    }
    return rule.input(in).output(out).build();
  };
  op.cost = [](const NodeSignature& node) {
    return streaming_cost(node, static_cast<double>(node.inputs[0].elements()));
  };
  return op;
}

// --- cumsum ---

OpDef cumsum_op() {
  OpDef op;
  op.name = "cumsum";
  op.doc = "running sums along `axis`, in order of index, in f32";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("axis", Kind::kInt, "along which to add"),
                   optional_attribute("reverse", Kind::kBool, "start at the last element (false)")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const TensorType& a = node.inputs[0];
    if (!is_floating(a.dtype) && !is_integer(a.dtype))
      refuse(node, "cannot add this element type", a.text(), "floats or integers");
    axis_attribute(node, "axis", a.shape.rank());
    return {a};
  };
  op.gradient = [](GradientContext& c) {
    Attributes attributes{{"axis", c.node.attributes.get_int("axis")}};
    if (!c.node.attributes.get_bool_or("reverse", false)) attributes.set("reverse", true);
    return std::vector{c.build.op("cumsum", {c.output_gradients[0]}, attributes)};
  };
  op.sharding = [](const NodeSignature& node) {
    return same_dims_sharding(node, {axis_attribute(node, "axis", node.inputs[0].shape.rank())});
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 1); };
  op.cheap = true;
  return op;
}

// --- reverse ---

OpDef reverse_op() {
  OpDef op;
  op.name = "reverse";
  op.doc = "elements in the opposite order along `axes`";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("axes", Kind::kInts, "along which the order turns; empty: all")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    axes_attribute(node, "axes", node.inputs[0].shape.rank());
    return {node.inputs[0]};
  };
  op.gradient = [](GradientContext& c) {
    return std::vector{c.build.op("reverse", {c.output_gradients[0]}, c.node.attributes)};
  };
  op.sharding = [](const NodeSignature& node) {
    return same_dims_sharding(node, axes_attribute(node, "axes", node.inputs[0].shape.rank()));
  };
  op.cost = move_cost;
  op.scaling = passing_rule();
  op.cheap = true;
  return op;
}

// --- top_k ---

int top_k_axis(const NodeSignature& node) {
  const int rank = node.inputs[0].shape.rank();
  return node.attributes.has("axis") ? axis_attribute(node, "axis", rank) : rank - 1;
}

OpDef top_k_op() {
  OpDef op;
  op.name = "top_k";
  op.doc =
      "the k greatest elements along an axis, greatest first, and their i32 indices; of equals the first. With "
      "least=true the least, least first; a NaN counts as the greatest";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("k", Kind::kInt, "how many"),
                   optional_attribute("axis", Kind::kInt, "along which to look (the last)"),
                   optional_attribute("least", Kind::kBool, "the least instead of the greatest (false)")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const TensorType& a = node.inputs[0];
    require_rank(node, 0, "values", 1);
    if (!is_floating(a.dtype) && !is_integer(a.dtype))
      refuse(node, "cannot order this element type", a.text(), "floats or integers");
    const int axis = top_k_axis(node);
    const int64_t k = node.attributes.get_int("k"), extent = a.shape.dim(axis);
    if (k < 0 || k > extent || extent > INT32_MAX)
      refuse(node, "'k' out of range", std::to_string(k),
             "0 to the " + std::string(axis == a.shape.rank() - 1 ? "last extent" : "extent of the axis") + ", " +
                 std::to_string(extent));
    Dims dims = a.shape.dims();
    dims[static_cast<size_t>(axis)] = k;
    return {{a.dtype, Shape(dims)}, {DType::kI32, Shape(dims)}};
  };
  op.gradient = [](GradientContext& c) {
    if (!c.output_gradients[0].valid()) return std::vector{Tensor{}};
    const TensorType& type = c.node.inputs[0];
    Attributes attributes = line_attributes(type.shape.rank(), top_k_axis(c.node));
    attributes.set("by", "add");
    const Tensor gradient = cast_to(c.output_gradients[0], type.dtype);
    return std::vector{c.build.op("put", {zeros(c.build, type), gradient, c.outputs[1]}, attributes)};
  };
  op.sharding = [](const NodeSignature& node) { return same_dims_sharding(node, {top_k_axis(node)}); };
  op.cost = [](const NodeSignature& node) {
    return streaming_cost(node, 8.0 * static_cast<double>(node.inputs[0].elements()));
  };
  return op;
}

}  // namespace

void register_indexing_ops(OpRegistry& registry) {
  for (OpDef (*make)() : {one_hot_op, gather_op, scatter_add_op, cumsum_op, reverse_op, top_k_op}) registry.add(make());
  registry.add(arg_op("argmax", "greatest"));
  registry.add(arg_op("argmin", "least"));
}

Tensor one_hot(Tensor indices, int64_t depth, DType dtype) {
  return indices.builder->op("one_hot", {indices}, {{"depth", depth}, {"dtype", dtype}});
}
Tensor gather(Tensor table, Tensor indices) { return table.builder->op("gather", {table, indices}); }
Tensor scatter_add(Tensor indices, Tensor updates, int64_t rows) {
  return indices.builder->op("scatter_add", {indices, updates}, {{"rows", rows}});
}
Tensor argmax(Tensor a, int64_t axis) { return a.builder->op("argmax", {a}, {{"axis", axis}}); }
Tensor cumsum(Tensor a, int64_t axis) { return a.builder->op("cumsum", {a}, {{"axis", axis}}); }
std::pair<Tensor, Tensor> top_k(Tensor a, int64_t k) {
  const std::vector<Tensor> outputs = a.builder->ops("top_k", {a}, {{"k", k}});
  return {outputs[0], outputs[1]};
}

}  // namespace ramet::ops

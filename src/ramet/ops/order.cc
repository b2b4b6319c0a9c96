#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/index_space.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rules.h"

// Elements in order along an axis, and results that run along an axis.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

void require_order(const NodeSignature& node) {
  const TensorType& a = node.inputs[0];
  if (!is_floating(a.dtype) && !is_integer(a.dtype))
    refuse(node, "cannot order this element type", a.text(), "floats or integers", "Cast it first");
}

int axis_of(const NodeSignature& node) { return axis_attribute(node, "axis", node.inputs[0].shape.rank()); }

/// Elements and their i32 indices on the axis.
std::vector<TensorType> infer_indexed(const NodeSignature& node) {
  require_order(node);
  const TensorType& a = node.inputs[0];
  if (a.shape.dim(axis_of(node)) > INT32_MAX)
    refuse(node, "no index fits this extent", a.text(), "at most 2^31 - 1 along the axis");
  return {a, {DType::kI32, a.shape}};
}

/// Of ops that move each element of output 0 from the index in output 1.
std::vector<Tensor> moved_gradient(GradientContext& c) {
  if (!c.output_gradients[0].valid()) return {Tensor{}};
  const TensorType& type = c.node.inputs[0];
  Attributes attributes = line_attributes(type.shape.rank(), axis_of(c.node));
  attributes.set("by", "add");
  return {
      c.build.op("put", {zeros(c.build, type), cast_to(c.output_gradients[0], type.dtype), c.outputs[1]}, attributes)};
}

ShardingRule line_sharding(const NodeSignature& node) { return same_dims_sharding(node, {axis_of(node)}); }

/// Of finding a place among `extent` elements by halves: a comparison whose outcome cannot be predicted takes as long
/// as some 64 operations of a vector unit.
double search_flops(int64_t extent) {
  double levels = 1;
  for (; extent > 1; extent /= 2) ++levels;
  return 64 * levels;
}

OpDef sort_op() {
  OpDef op;
  op.name = "sort";
  op.doc =
      "elements in order along `axis`, and their i32 indices; equal elements keep their order, a NaN counts as the "
      "greatest";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("axis", Kind::kInt, "along which to sort"),
                   optional_attribute("descending", Kind::kBool, "the greatest first (false)")};
  op.infer = infer_indexed;
  op.gradient = moved_gradient;
  op.sharding = line_sharding;
  op.cost = [](const NodeSignature& node) {
    return streaming_cost_each(node, search_flops(node.inputs[0].shape.dim(axis_of(node))));
  };
  return op;
}

OpDef search_sorted_op() {
  OpDef op;
  op.name = "search_sorted";
  op.doc =
      "for values [..., m] the number of elements of `sorted` ([n], or [..., n]; ascending) that are less, or with "
      "`right` less or equal: i32; a NaN counts as the greatest";
  op.min_inputs = op.max_inputs = 2;
  op.attributes = {optional_attribute("right", Kind::kBool, "count equal elements (false)")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_order(node);
    require_rank(node, 0, "sorted", 1);
    const TensorType &sorted = node.inputs[0], &values = node.inputs[1];
    if (values.dtype != sorted.dtype)
      refuse(node, "values and sorted elements have different types", values.text(), std::string(name_of(sorted.dtype)),
             "Cast one of them");
    Dims dims = sorted.shape.dims();
    if (sorted.shape.rank() > 1) {
      if (values.shape.rank() == sorted.shape.rank()) dims.back() = values.shape.dim(-1);
      if (values.shape.dims() != dims)
        refuse(node, "the leading dimensions of values and sorted elements differ", values.text(), sorted.text());
    }
    if (sorted.shape.dim(-1) > INT32_MAX) refuse(node, "no i32 counts so many elements", sorted.text());
    return {{DType::kI32, values.shape}};
  };
  op.gradient_stops = true;
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    ShardingRule::Operand values, sorted;
    for (int64_t extent : node.inputs[1].shape.dims()) values.push_back({rule.factor(extent)});
    if (node.inputs[0].shape.rank() > 1) sorted.assign(values.begin(), values.end() - 1);
    sorted.push_back({rule.factor(node.inputs[0].shape.dim(-1), true)});
    return rule.input(sorted).input(values).output(values).build();
  };
  op.cost = [](const NodeSignature& node) {
    return streaming_cost_each(node, search_flops(node.inputs[0].shape.dim(-1)));
  };
  op.cheap = true;
  return op;
}

OpDef cumulative_extreme_op(const std::string& name, const std::string& what) {
  OpDef op;
  op.name = name;
  op.doc = "the " + what + " element so far along `axis`, and its i32 index, the last of equals; a NaN stays";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("axis", Kind::kInt, "along which to go")};
  op.infer = infer_indexed;
  op.gradient = moved_gradient;
  op.sharding = line_sharding;
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 1); };
  op.cheap = true;
  return op;
}

// --- products and recurrences ---

std::vector<AttributeSpec> scan_attributes() {
  return {required_attribute("axis", Kind::kInt, "along which to go"),
          optional_attribute("reverse", Kind::kBool, "start at the last element (false)")};
}

bool is_reverse(const NodeSignature& node) { return node.attributes.get_bool_or("reverse", false); }

Tensor scan(Tensor factors, Tensor terms, int64_t axis, bool reverse, bool shifted) {
  Attributes attributes{{"axis", axis}};
  if (reverse) attributes.set("reverse", true);
  if (shifted) attributes.set("shifted", true);
  return factors.builder->op("linear_scan", {factors, terms}, attributes);
}

OpDef cumprod_op() {
  OpDef op;
  op.name = "cumprod";
  op.doc = "running products along `axis`, in order of index, in f32";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = scan_attributes();
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const TensorType& a = node.inputs[0];
    if (!is_floating(a.dtype) && !is_integer(a.dtype))
      refuse(node, "cannot multiply this element type", a.text(), "floats or integers");
    axis_of(node);
    return {a};
  };
  // dx[k] = (product before k) * S[k] with S[k] = dy[k] + x[k+1] * S[k+1]: no division, so zeros need no care.
  op.gradient = [](GradientContext& c) {
    const int axis = axis_of(c.node);
    const bool reverse = is_reverse(c.node);
    const Tensor behind = scan(c.inputs[0], cast_to(c.output_gradients[0], c.inputs[0].dtype()), axis, !reverse, true);
    return std::vector{multiply(shift(c.outputs[0], axis, reverse ? -1 : 1, 1), behind)};
  };
  op.sharding = line_sharding;
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 1); };
  op.cheap = true;
  op.precision = OpDef::Precision::kFull;  // products have a range that low types lack
  return op;
}

OpDef linear_scan_op() {
  OpDef op;
  op.name = "linear_scan";
  op.doc =
      "h[t] = factors[t] * h[t-1] + terms[t] along `axis`, h = 0 before the first, in f32; with shifted=true the "
      "factor "
      "is that of the element before, factors[t-1]";
  op.min_inputs = op.max_inputs = 2;
  op.attributes = scan_attributes();
  op.attributes.push_back(optional_attribute("shifted", Kind::kBool, "factors of the element before (false)"));
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    require_floating(node, 0, "factors");
    require_type(node, 1, "terms", node.inputs[0]);
    axis_of(node);
    return {node.inputs[0]};
  };
  // The gradient of the terms is a scan in the other direction, whose factors are those of the element behind.
  op.gradient = [](GradientContext& c) {
    const int axis = axis_of(c.node);
    const bool reverse = is_reverse(c.node), shifted = c.node.attributes.get_bool_or("shifted", false);
    const Tensor terms =
        scan(c.inputs[0], cast_to(c.output_gradients[0], c.inputs[0].dtype()), axis, !reverse, !shifted);
    const int64_t step = reverse ? -1 : 1;
    const Tensor factors =
        shifted ? multiply(shift(terms, axis, -step), c.outputs[0]) : multiply(terms, shift(c.outputs[0], axis, step));
    return std::vector{factors, terms};
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    ShardingRule::Operand operand;
    const Shape& shape = node.inputs[0].shape;
    for (int axis = 0; axis < shape.rank(); ++axis)
      operand.push_back({rule.factor(shape.dim(axis), axis == axis_of(node))});
    return rule.input(operand).input(operand).output(operand).build();
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 2); };
  op.cheap = true;
  return op;
}

int64_t positive_axis(const Tensor& a, int64_t axis, const char* op) {
  return normalize_axis(axis, a.shape().rank(), std::string(op) + " of " + a.type().text());
}

std::pair<Tensor, Tensor> pair_of(const std::vector<Tensor>& outputs) { return {outputs.at(0), outputs.at(1)}; }

}  // namespace

void register_order_ops(OpRegistry& registry) {
  for (OpDef (*make)() : {sort_op, search_sorted_op, cumprod_op, linear_scan_op}) registry.add(make());
  registry.add(cumulative_extreme_op("cummax", "greatest"));
  registry.add(cumulative_extreme_op("cummin", "least"));
}

std::pair<Tensor, Tensor> sort(Tensor a, int64_t axis, bool descending) {
  Attributes attributes{{"axis", axis}};
  if (descending) attributes.set("descending", true);
  return pair_of(a.builder->ops("sort", {a}, attributes));
}

Tensor argsort(Tensor a, int64_t axis, bool descending) { return sort(a, axis, descending).second; }

std::pair<Tensor, Tensor> top_k(Tensor a, int64_t k, int64_t axis, bool largest) {
  axis = positive_axis(a, axis, "top_k");
  Attributes attributes{{"k", k}};
  if (axis != a.shape().rank() - 1) attributes.set("axis", axis);
  if (!largest) attributes.set("least", true);
  return pair_of(a.builder->ops("top_k", {a}, attributes));
}

Tensor search_sorted(Tensor sorted, Tensor values, bool right, Tensor sorter) {
  if (sorter.valid()) sorted = gather_elements(sorted, sorter, -1);
  Attributes attributes;
  if (right) attributes.set("right", true);
  return sorted.builder->op("search_sorted", {sorted, values}, attributes);
}

Tensor cumsum(Tensor a, int64_t axis, const RunningOptions& options) {
  axis = positive_axis(a, axis, "cumsum");
  Attributes attributes{{"axis", axis}};
  if (options.reverse) attributes.set("reverse", true);
  const Tensor sums = a.builder->op("cumsum", {a}, attributes);
  return options.exclusive ? shift(sums, axis, options.reverse ? -1 : 1) : sums;
}

Tensor cumprod(Tensor a, int64_t axis, const RunningOptions& options) {
  axis = positive_axis(a, axis, "cumprod");
  Attributes attributes{{"axis", axis}};
  if (options.reverse) attributes.set("reverse", true);
  const Tensor products = a.builder->op("cumprod", {a}, attributes);
  return options.exclusive ? shift(products, axis, options.reverse ? -1 : 1, 1) : products;
}

std::pair<Tensor, Tensor> cummax(Tensor a, int64_t axis) {
  return pair_of(a.builder->ops("cummax", {a}, {{"axis", axis}}));
}
std::pair<Tensor, Tensor> cummin(Tensor a, int64_t axis) {
  return pair_of(a.builder->ops("cummin", {a}, {{"axis", axis}}));
}

Tensor linear_scan(Tensor factors, Tensor terms, int64_t axis, bool reverse) {
  return scan(factors, terms, axis, reverse, false);
}

}  // namespace ramet::ops

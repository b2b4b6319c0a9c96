#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/reduce_shape.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

// Reductions over axes; the order of sums is defined in ops/reduce_order.h.

namespace ramet::ops {
namespace {

using Reduce = ShardingRule::Reduce;

bool is_reduced(const std::vector<int>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keep_dims) {
  std::vector<int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!is_reduced(axes, axis))
      dims.push_back(shape.dim(axis));
    else if (keep_dims)
      dims.push_back(1);
  }
  return Shape(std::move(dims));
}

/// Extent of the dimension that chunks cut: the last of the reduced ones. 0 where no order of sums in chunks is
/// defined.
int64_t chunked_extent(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  const std::vector<int> axes = reduce_axes(node);
  const DType dtype = node.inputs[0].dtype;
  if (!is_floating(dtype) || dtype == DType::kF64 || axes.empty() ||
      axes.back() - axes.front() + 1 != static_cast<int>(axes.size()))
    return 0;
  if (axes.size() > 1 && axes.back() == shape.rank() - 1) return 0;
  return shape.dim(axes.back());
}

std::vector<TensorType> infer(const NodeSignature& node) {
  const TensorType& a = node.inputs[0];
  if (!is_floating(a.dtype) && !is_integer(a.dtype))
    refuse(node, "cannot reduce this element type", a.text(), "floats or integers", "Cast it first");
  const std::vector<int> axes = axes_attribute(node, "axes", a.shape.rank());
  const DType dtype = node.attributes.has("dtype") ? node.attributes.get_dtype("dtype") : a.dtype;
  if (is_floating(dtype) != is_floating(a.dtype) || (!is_floating(dtype) && dtype != a.dtype))
    refuse(node, "a sum cannot have this element type", std::string(name_of(dtype)),
           is_floating(a.dtype) ? "a floating-point type" : std::string(name_of(a.dtype)));
  const int64_t chunks = node.attributes.get_int_or("chunks", 1), extent = chunked_extent(node);
  if (chunks < 1 || (chunks > 1 && (extent == 0 || extent % chunks != 0)))
    refuse(node, "attribute 'chunks' does not fit", std::to_string(chunks),
           "1, or a divisor of the extent of the last of the reduced dimensions, which must be neighbours with another "
           "one "
           "behind them, or a single one");
  if (chunks > 1 && node.attributes.get_bool_or("in_order", false))
    refuse(node, "a sum in order has no chunks", "chunks=" + std::to_string(chunks));
  const bool extreme = node.op->name == "reduce_max" || node.op->name == "reduce_min";
  for (int axis : axes)
    if (extreme && a.shape.dim(axis) == 0)
      refuse(node, "the greatest or least of no elements", a.text(), "an extent of 1 or more");
  return {{dtype, reduced_shape(a.shape, axes, node.attributes.get_bool_or("keep_dims", false))}};
}

/// Sums of floats have one order, so their terms stay whole except between chunks. Reductions that shards cannot
/// combine stay whole, too.
ShardingRule sharding_as(const NodeSignature& node, Reduce reduce, bool ordered) {
  RuleBuilder rule;
  const Shape& shape = node.inputs[0].shape;
  const std::vector<int> axes = axes_attribute(node, "axes", shape.rank());
  const bool keep_dims = node.attributes.get_bool_or("keep_dims", false);
  const DType dtype = node.inputs[0].dtype;
  // Devices combine no partial results of f64 and of integers other than i32 and i64.
  const bool apart = is_index(dtype) || (is_floating(dtype) && dtype != DType::kF64);
  const bool whole = reduce == Reduce::kNone || !apart || (ordered && is_floating(dtype));
  const int64_t chunks = node.attributes.get_int_or("chunks", 1);
  ShardingRule::Operand in, out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = is_reduced(axes, axis);
    const Reduce way = reduced ? reduce : Reduce::kNone;
    const bool cut = whole && chunks > 1 && axis == axes.back();
    ShardingRule::Dim dim;
    if (cut) dim.push_back(rule.factor(chunks, false, way));
    dim.push_back(rule.factor(shape.dim(axis) / (cut ? chunks : 1), whole && reduced, way));
    if (chunks > 1)
      for (size_t i = 0; i < dim.size(); ++i) rule.at(dim[i]).name = cut && i == 0 ? "c" : "d" + std::to_string(axis);
    if (!reduced)
      out.push_back(dim);
    else if (keep_dims)
      out.push_back({});
    in.push_back(std::move(dim));
  }
  return rule.input(in).output(out).build();
}

/// The output, or its gradient, with the reduced dimensions back as extents of 1.
Tensor with_kept_dims(Tensor reduced, const Shape& input, const std::vector<int>& axes) {
  const Shape kept = reduced_shape(input, axes, true);
  return reduced.shape() == kept ? reduced : reshape(reduced, kept);
}

std::vector<Tensor> sum_gradient(GradientContext& context) {
  const TensorType& type = context.node.inputs[0];
  const std::vector<int> axes = axes_attribute(context.node, "axes", type.shape.rank());
  const Tensor g = cast_to(context.output_gradients[0], type.dtype);
  return {broadcast_to(with_kept_dims(g, type.shape, axes), type.shape)};
}

/// The gradient is shared equally by all elements that are the greatest (least).
std::vector<Tensor> extreme_gradient(GradientContext& context) {
  const TensorType& type = context.node.inputs[0];
  const std::vector<int> axes = axes_attribute(context.node, "axes", type.shape.rank());
  const Tensor y = with_kept_dims(context.outputs[0], type.shape, axes);
  const Tensor g = with_kept_dims(context.output_gradients[0], type.shape, axes);
  const Tensor chosen = cast(equal(context.inputs[0], y), type.dtype);
  const std::vector<int64_t> wide_axes(axes.begin(), axes.end());
  const Tensor count = axes.empty() ? chosen : reduce_sum(chosen, wide_axes, true);
  return {cast_to(multiply(chosen, divide(g, count)), type.dtype)};
}

/// d prod / d a_i is the product of the others: 0 where one of the others is 0, else the product of all that are not 0,
/// without a_i.
std::vector<Tensor> product_gradient(GradientContext& context) {
  GraphBuilder& build = context.build;
  const TensorType& type = context.node.inputs[0];
  const std::vector<int> axes = axes_attribute(context.node, "axes", type.shape.rank());
  const std::vector<int64_t> wide_axes(axes.begin(), axes.end());
  const Tensor a = context.inputs[0], g = with_kept_dims(context.output_gradients[0], type.shape, axes);
  const Tensor nothing = zeros(build, {type.dtype, {}});
  const Tensor is_zero = equal(a, nothing), one = full(build, type.dtype, {}, 1);
  const Tensor safe = select(is_zero, one, a), zero_count = cast(is_zero, type.dtype);
  const Tensor product = axes.empty() ? safe : reduce_prod(safe, wide_axes, true);
  const Tensor zeros_of_all = axes.empty() ? zero_count : reduce_sum(zero_count, wide_axes, true);
  const Tensor other_zeros = subtract(zeros_of_all, zero_count);
  const Tensor others = select(equal(other_zeros, nothing), divide(product, safe), nothing);
  return {cast_to(multiply(g, others), type.dtype)};
}

/// A reduction over extents of 1 only is a change of shape.
Tensor simplify(SimplifyContext& context) {
  const Tensor a = context.inputs[0];
  const std::vector<int> axes = axes_attribute(context.node, "axes", a.shape().rank());
  for (int axis : axes)
    if (a.dim(axis) != 1) return {};
  const TensorType output = context.node.op->infer(context.node).at(0);
  if (output.dtype != a.dtype()) return {};
  return output.shape == a.shape() ? a : reshape(a, output.shape);
}

/// Other axes. Without kept dimensions, those that stay must keep their order.
std::optional<PermutedNode> permute(const NodeSignature& node, const std::vector<int64_t>& order) {
  const std::vector<int> axes = reduce_axes(node);
  const bool keep_dims = node.attributes.get_bool_or("keep_dims", false);
  if (node.attributes.get_int_or("chunks", 1) > 1 || node.attributes.get_bool_or("in_order", false)) return {};
  std::vector<int64_t> reduced, kept;
  for (size_t i = 0; i < order.size(); ++i)
    if (is_reduced(axes, static_cast<int>(order[i])))
      reduced.push_back(static_cast<int64_t>(i));
    else
      kept.push_back(order[i]);
  if (!keep_dims && !std::is_sorted(kept.begin(), kept.end())) return {};
  PermutedNode permuted{node.attributes, keep_dims};
  permuted.attributes.set("axes", reduced);
  return permuted;
}

OpDef make_op(const std::string& name, const std::string& what, Reduce reduce, bool ordered) {
  using Kind = AttributeSpec::Kind;
  OpDef op;
  op.name = name;
  op.doc = what + " over axes, computed in f32";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {optional_attribute("axes", Kind::kInts, "reduced axes; absent or empty: all"),
                   optional_attribute("keep_dims", Kind::kBool, "keep reduced dimensions with extent 1 (false)")};
  if (name == "reduce_sum") {
    op.attributes.push_back(optional_attribute("dtype", Kind::kDType, "of the result (the input's)"));
    op.attributes.push_back(
        optional_attribute("chunks", Kind::kInt, "equal parts of the last reduced dimension, combined by a tree (1)"));
    op.attributes.push_back(
        optional_attribute("in_order", Kind::kBool, "one chain of additions in the order of elements (false)"));
    op.localize = localize_chunks;
    op.chunked_extent = chunked_extent;
  }
  op.infer = infer;
  op.simplify = simplify;
  op.sharding = [reduce, ordered](const NodeSignature& node) { return sharding_as(node, reduce, ordered); };
  op.cost = [](const NodeSignature& node) {
    return streaming_cost(node, static_cast<double>(node.inputs[0].elements()));
  };
  // Sums name the type of their result, so that a low input needs no cast; products have a range that low types lack.
  if (name == "reduce_prod") op.precision = OpDef::Precision::kFull;
  op.permuted = permute;
  return op;
}

Tensor reduce(const char* op, Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  Attributes attributes;
  if (!axes.empty()) attributes.set("axes", axes);
  if (keep_dims) attributes.set("keep_dims", true);
  if (op == std::string_view("reduce_sum")) attributes.set("dtype", a.dtype());
  return a.builder->op(op, {a}, attributes);
}

}  // namespace

std::vector<ReduceGroup> reduce_groups(const Shape& shape, const std::vector<int>& axes) {
  std::vector<ReduceGroup> groups;
  Shape left = shape;
  for (int last = static_cast<int>(axes.size()) - 1; last >= 0;) {
    int first = last;
    while (first > 0 && axes[static_cast<size_t>(first - 1)] == axes[static_cast<size_t>(first)] - 1) --first;
    const int begin = axes[static_cast<size_t>(first)], end = axes[static_cast<size_t>(last)] + 1;
    ReduceGroup group;
    group.extent = left.dim(end - 1);
    group.last = end == left.rank();
    std::vector<int64_t> dims = left.dims();
    for (int axis = 0; axis < left.rank(); ++axis)
      (axis < begin ? group.outer : axis < end ? group.reduced : group.inner) *= left.dim(axis);
    dims.erase(dims.begin() + begin, dims.begin() + end);
    left = Shape(std::move(dims));
    groups.push_back(group);
    last = first - 1;
  }
  return groups;
}

std::vector<int> reduce_axes(const NodeSignature& node) {
  return axes_attribute(node, "axes", node.inputs[0].shape.rank());
}

void register_reduce_ops(OpRegistry& registry) {
  OpDef sum = make_op("reduce_sum", "sum", Reduce::kSum, true);
  sum.gradient = sum_gradient;
  sum.scaling = reducing_rule();
  registry.add(std::move(sum));
  OpDef greatest = make_op("reduce_max", "greatest", Reduce::kMax, false);
  greatest.gradient = extreme_gradient;
  registry.add(std::move(greatest));
  OpDef least = make_op("reduce_min", "least", Reduce::kMin, false);
  least.gradient = extreme_gradient;
  registry.add(std::move(least));
  OpDef product = make_op("reduce_prod", "product", Reduce::kNone, true);
  product.gradient = product_gradient;
  registry.add(std::move(product));
}

Tensor reduce_sum(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce("reduce_sum", a, axes, keep_dims);
}
Tensor reduce_max(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce("reduce_max", a, axes, keep_dims);
}
Tensor reduce_min(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce("reduce_min", a, axes, keep_dims);
}
Tensor reduce_prod(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce("reduce_prod", a, axes, keep_dims);
}

Tensor reduce_mean(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  // A sum and a factor: shards of a sum can be combined, those of a mean cannot. Long sums are kept in f32.
  Attributes attributes{{"dtype", DType::kF32}};
  if (!axes.empty()) attributes.set("axes", axes);
  if (keep_dims) attributes.set("keep_dims", true);
  const Tensor sum = a.builder->op("reduce_sum", {a}, attributes);
  const double count =
      static_cast<double>(a.shape().elements()) / static_cast<double>(std::max<int64_t>(1, sum.shape().elements()));
  return cast_to(scale(sum, 1 / count), a.dtype());
}

}  // namespace ramet::ops

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/index_space.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/rules.h"

// Elements at index tensors on any axes of a tensor, read and written.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

std::vector<AttributeSpec> addressing_attributes() {
  return {required_attribute("axes", Kind::kInts, "of the tensor that the index tensors hold coordinates on"),
          optional_attribute("along", Kind::kInts,
                             "for each dimension of the indices the axis of the tensor that it runs along, -1: none "
                             "(all -1)"),
          optional_attribute("before", Kind::kInt, "axes kept whole that stand before the indices' dimensions (0)"),
          optional_attribute("from_end", Kind::kBool, "a negative index counts from the end (false)")};
}

Attributes attributes_of(const Addressing& addressing) {
  Attributes attributes{{"axes", addressing.axes}};
  const Dims& along = addressing.along;
  if (std::any_of(along.begin(), along.end(), [](int64_t axis) { return axis >= 0; })) attributes.set("along", along);
  if (addressing.before != 0) attributes.set("before", addressing.before);
  if (addressing.from_end) attributes.set("from_end", true);
  return attributes;
}

/// The attributes of a node that address elements.
Attributes addressing_of(const Attributes& attributes) {
  Attributes chosen;
  for (const AttributeSpec& spec : addressing_attributes())
    for (const auto& [name, value] : attributes)
      if (name == spec.name) chosen.set(name, value);
  return chosen;
}

Tensor take_by(Tensor a, std::span<const Tensor> indices, const Attributes& addressing) {
  std::vector<Tensor> inputs{a};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return a.builder->ops("take", inputs, addressing).at(0);
}

Tensor put_by(Tensor a, Tensor updates, std::span<const Tensor> indices, Attributes addressing, const UpdateBy& by) {
  std::vector<Tensor> inputs{a, updates};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  addressing.set("by", by.by);
  if (!by.include_self) addressing.set("include_self", false);
  return a.builder->ops("put", inputs, addressing).at(0);
}

/// Axes that are kept or run along may be cut, addressed axes stay whole. Dimensions of the indices that run along no
/// axis are free where each position has a result of its own, and whole where positions meet.
ShardingRule addressing_sharding(const NodeSignature& node, const IndexSpace& space, bool reads) {
  RuleBuilder rule;
  std::vector<int> dims;
  ShardingRule::Operand whole(static_cast<size_t>(space.whole.rank()));
  for (int dim = 0; dim < space.space.rank(); ++dim) {
    const int axis = space.along[static_cast<size_t>(dim)];
    const int64_t extent = space.space.dim(dim);
    const bool shared = axis >= 0 && space.whole.dim(axis) == extent;
    dims.push_back(rule.factor(extent, !shared && (axis >= 0 || !reads)));
    if (axis < 0) continue;
    whole[static_cast<size_t>(axis)] = {shared ? dims.back() : rule.factor(space.whole.dim(axis), true)};
  }
  for (int axis : space.axes) whole[static_cast<size_t>(axis)] = {rule.factor(space.whole.dim(axis), true)};
  for (int axis : space.kept) whole[static_cast<size_t>(axis)] = {rule.factor(space.whole.dim(axis))};
  ShardingRule::Operand picked;
  for (int i = 0; i < space.before; ++i)
    picked.push_back(whole[static_cast<size_t>(space.kept[static_cast<size_t>(i)])]);
  for (int dim : dims) picked.push_back({dim});
  for (size_t i = static_cast<size_t>(space.before); i < space.kept.size(); ++i)
    picked.push_back(whole[static_cast<size_t>(space.kept[i])]);
  rule.input(whole);
  if (!reads) rule.input(picked);
  for (size_t i = reads ? 1 : 2; i < node.inputs.size(); ++i)
    rule.input(broadcast_operand(node.inputs[i].shape, space.space, dims));
  return rule.output(reads ? picked : whole).build();
}

int64_t index_bytes(const NodeSignature& node, size_t first) {
  int64_t bytes = 0;
  for (size_t i = first; i < node.inputs.size(); ++i) bytes += node.inputs[i].bytes();
  return bytes;
}

/// The index that `index` repeats along its last dimensions, where these run along kept axes all the same: with the
/// dimensions left out, whole lines of elements have one index. Changes `along`; an invalid Tensor where there is none.
Tensor without_repeats(const SimplifyContext& c, const Shape& whole, Tensor index, Dims& along) {
  const Graph& graph = c.build.graph();
  const NodeId maker = graph.value(index.id).producer;
  if (maker == kNoNode || graph.node(maker).op->name != "broadcast_to") return {};
  // Axes that are kept already would come in front of those that are kept from now on.
  if (std::ranges::count_if(along, [](int64_t axis) { return axis >= 0; }) + 1 != whole.rank()) return {};
  const Tensor source{&c.build, graph.node(maker).inputs[0]};
  const Shape &from = source.shape(), &to = index.shape();
  const int more = to.rank() - from.rank();
  int kept = to.rank();  // dimensions of the index that stay
  while (kept > 0) {
    const int axis = static_cast<int>(along[static_cast<size_t>(kept - 1)]);
    const bool repeats = kept - 1 < more || from.dim(kept - 1 - more) == 1;
    const bool runs_on = axis == whole.rank() - (to.rank() - kept) - 1;  // the last axes, in order
    if (!repeats || !runs_on || to.dim(kept - 1) != whole.dim(axis)) break;
    --kept;
  }
  Dims dims(to.dims().begin(), to.dims().begin() + kept);
  if (kept == to.rank() || kept == 0 || Shape(dims).elements() != from.elements()) return {};
  along.resize(static_cast<size_t>(kept));
  return reshape(source, Shape(std::move(dims)));
}

/// `take` or `put` of whole lines in place of single elements of them.
Tensor simplify_addressing(SimplifyContext& c, size_t first_index) {
  if (c.inputs.size() != first_index + 1 || !c.node.attributes.has("along") ||
      c.node.attributes.get_int_or("before", 0) != 0)
    return {};
  Dims along = c.node.attributes.get_ints("along");
  const Tensor index = without_repeats(c, c.node.inputs[0].shape, c.inputs[first_index], along);
  if (!index.valid()) return {};
  std::vector<Tensor> inputs(c.inputs.begin(), c.inputs.end());
  inputs[first_index] = index;
  Attributes attributes = c.node.attributes;
  return c.build.ops(c.node.op->name, inputs, attributes.set("along", along)).at(0);
}

// --- take ---

OpDef take_op() {
  OpDef op;
  op.name = "take";
  op.doc =
      "elements of a tensor at index tensors on some of its axes; an index out of range is an error at run time. The "
      "result has the first `before` of the other axes, the dimensions of the indices, the rest";
  op.min_inputs = 2;
  op.max_inputs = -1;
  op.attributes = addressing_attributes();
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    return {{node.inputs[0].dtype, IndexSpace(node, 1).picked()}};
  };
  op.gradient = [](GradientContext& c) {
    std::vector<Tensor> gradients(c.inputs.size());
    const TensorType& type = c.node.inputs[0];
    gradients[0] = put_by(zeros(c.build, type), cast_to(c.output_gradients[0], type.dtype), c.inputs.subspan(1),
                          addressing_of(c.node.attributes), {.by = "add"});
    return gradients;
  };
  op.simplify = [](SimplifyContext& c) { return simplify_addressing(c, 1); };
  op.sharding = [](const NodeSignature& node) { return addressing_sharding(node, IndexSpace(node, 1), true); };
  op.cost = [](const NodeSignature& node) {
    Cost cost;
    cost.bytes_read = index_bytes(node, 1) + node.outputs[0].bytes();
    cost.bytes_written = node.outputs[0].bytes();
    return cost;
  };
  op.cheap = true;
  return op;
}

// --- put ---

bool can_update(DType dtype, const std::string& by) {
  if (by == "set" || is_floating(dtype) || is_integer(dtype)) return true;
  return dtype == DType::kBool && (by == "min" || by == "max");
}

std::vector<TensorType> infer_put(const NodeSignature& node) {
  const IndexSpace space(node, 2);
  const TensorType& a = node.inputs[0];
  require_type(node, 1, "updates", {a.dtype, space.picked()});
  const std::string& by = node.attributes.get_string("by");
  if (by != "set" && by != "add" && by != "mul" && by != "min" && by != "max")
    refuse(node, "unknown way to update", "by=\"" + by + "\"", "\"set\", \"add\", \"mul\", \"min\" or \"max\"");
  if (!can_update(a.dtype, by))
    refuse(node, "cannot update this element type by \"" + by + "\"", a.text(),
           a.dtype == DType::kBool ? "\"set\", \"min\" (and) or \"max\" (or)" : "\"set\"");
  return {a};
}

/// The factors x of a product without x itself, where `product` is that of all factors that are not 0, and `zeros` is
/// the number of those that are: no difference between x = 0 and other x.
Tensor product_of_others(Tensor x, Tensor product, Tensor zeros) {
  GraphBuilder& build = *x.builder;
  const Tensor none = full(build, DType::kF32, {}, 0), one = full(build, DType::kF32, {}, 1), is_zero = equal(x, none);
  return select(is_zero, select(equal(zeros, one), product, none),
                select(equal(zeros, none), divide(product, select(is_zero, one, x)), none));
}

/// Gradients of put, way by way. Ways that compare or multiply work in f32.
class PutGradient {
 public:
  explicit PutGradient(GradientContext& c)
      : c_(c),
        space_(c.node, 2),
        indices_(c.inputs.subspan(2)),
        addressing_(addressing_of(c.node.attributes)),
        include_self_(c.node.attributes.get_bool_or("include_self", true)),
        gradient_(cast_to(c.output_gradients[0], c.node.inputs[0].dtype)) {}

  std::vector<Tensor> run() {
    const std::string& by = c_.node.attributes.get_string("by");
    Tensor a, updates;
    if (by == "set") {
      if (c_.needed[0]) a = without_updated(gradient_);
      if (c_.needed[1]) updates = of_winners();
    } else if (by == "add") {
      if (c_.needed[0]) a = include_self_ ? gradient_ : without_updated(gradient_);
      if (c_.needed[1]) updates = at_updates(gradient_);
    } else if (by == "mul") {
      of_product(&a, &updates);
    } else {
      of_extreme(&a, &updates);
    }
    std::vector<Tensor> gradients(c_.inputs.size());
    const DType dtype = c_.node.inputs[0].dtype;
    if (a.valid() && c_.needed[0]) gradients[0] = cast_to(a, dtype);
    if (updates.valid() && c_.needed[1]) gradients[1] = cast_to(updates, dtype);
    return gradients;
  }

 private:
  Tensor at_updates(Tensor a) const { return take_by(a, indices_, addressing_); }
  Tensor joined(Tensor a, Tensor updates, const std::string& by) const {
    return put_by(a, updates, indices_, addressing_, {.by = by, .include_self = include_self_});
  }
  /// `a` with 0 where there are updates.
  Tensor without_updated(Tensor a) const {
    return put_by(a, zeros(c_.build, {a.dtype(), space_.picked()}), indices_, addressing_, {});
  }
  Tensor number(double value) const { return full(c_.build, DType::kF32, {}, value); }
  Tensor indicator(Tensor condition) const { return select(condition, number(1), number(0)); }

  /// The updates whose position is the last one at its element: a table with one element for each that a position may
  /// address finds them.
  Tensor of_winners() const {
    Dims slots, axis_in_slots(static_cast<size_t>(space_.whole.rank()), -1);
    for (int axis = 0; axis < space_.whole.rank(); ++axis)
      if (std::find(space_.kept.begin(), space_.kept.end(), axis) == space_.kept.end()) {
        axis_in_slots[static_cast<size_t>(axis)] = static_cast<int64_t>(slots.size());
        slots.push_back(space_.whole.dim(axis));
      }
    Addressing addressing{.axes = {}, .from_end = space_.from_end};
    for (int axis : space_.axes) addressing.axes.push_back(axis_in_slots[static_cast<size_t>(axis)]);
    for (int axis : space_.along) addressing.along.push_back(axis < 0 ? -1 : axis_in_slots[static_cast<size_t>(axis)]);
    const int64_t positions = space_.space.elements();
    const DType dtype = positions > INT32_MAX ? DType::kI64 : DType::kI32;
    const Tensor numbers = reshape(iota(c_.build, dtype, {positions}, 0), space_.space);
    const Attributes attributes = attributes_of(addressing);
    const Tensor last = put_by(zeros(c_.build, {dtype, Shape(slots)}), numbers, indices_, attributes, {});
    Dims mask(static_cast<size_t>(space_.before), 1);
    mask.insert(mask.end(), space_.space.dims().begin(), space_.space.dims().end());
    mask.resize(mask.size() + space_.kept.size() - static_cast<size_t>(space_.before), 1);
    const Tensor wins = reshape(equal(take_by(last, indices_, attributes), numbers), Shape(mask));
    return select(wins, at_updates(gradient_), full(c_.build, gradient_.dtype(), {}, 0));
  }

  void of_product(Tensor* a, Tensor* updates) const {
    const Tensor own = cast_to(c_.inputs[0], DType::kF32), others = cast_to(c_.inputs[1], DType::kF32);
    const Tensor gradient = cast_to(gradient_, DType::kF32);
    const Tensor own_zero = equal(own, number(0)), other_zero = equal(others, number(0));
    const Tensor product = joined(select(own_zero, number(1), own), select(other_zero, number(1), others), "mul");
    const Tensor zeros_met = joined(indicator(own_zero), indicator(other_zero), "add");
    *a = include_self_ ? multiply(gradient, product_of_others(own, product, zeros_met)) : without_updated(gradient);
    *updates = multiply(at_updates(gradient), product_of_others(others, at_updates(product), at_updates(zeros_met)));
  }

  /// Split evenly among all that equal the result, as PyTorch's scatter_reduce does.
  void of_extreme(Tensor* a, Tensor* updates) const {
    Tensor own = indicator(equal(c_.inputs[0], c_.outputs[0]));
    const Tensor others = indicator(equal(c_.inputs[1], at_updates(c_.outputs[0])));
    const Tensor share = divide(cast_to(gradient_, DType::kF32), joined(own, others, "add"));
    if (!include_self_) own = without_updated(own);
    *a = multiply(own, share);
    *updates = multiply(others, at_updates(share));
  }

  GradientContext& c_;
  IndexSpace space_;
  std::span<const Tensor> indices_;
  Attributes addressing_;
  bool include_self_;
  Tensor gradient_;
};

OpDef put_op() {
  OpDef op;
  op.name = "put";
  op.doc =
      "a tensor with updates (of the shape that `take` would give) at index tensors on some of its axes, in order of "
      "index position; an index out of range is an error at run time. Sums and products of low floats are f32, rounded "
      "once";
  op.min_inputs = 3;
  op.max_inputs = -1;
  op.attributes = addressing_attributes();
  op.attributes.push_back(required_attribute("by", Kind::kString, "\"set\", \"add\", \"mul\", \"min\" or \"max\""));
  op.attributes.push_back(
      optional_attribute("include_self", Kind::kBool, "false: what an updated element was does not count (true)"));
  op.infer = infer_put;
  op.gradient = [](GradientContext& c) { return PutGradient(c).run(); };
  op.simplify = [](SimplifyContext& c) { return simplify_addressing(c, 2); };
  op.sharding = [](const NodeSignature& node) { return addressing_sharding(node, IndexSpace(node, 2), false); };
  op.cost = [](const NodeSignature& node) {
    const bool computes = node.attributes.get_string("by") != "set";
    return streaming_cost(node, computes ? static_cast<double>(node.inputs[1].elements()) : 0);
  };
  return op;
}

}  // namespace

void register_take_ops(OpRegistry& registry) {
  registry.add(take_op());
  registry.add(put_op());
}

Tensor take(Tensor a, const std::vector<Tensor>& indices, const Addressing& addressing) {
  return take_by(a, indices, attributes_of(addressing));
}

Tensor put(Tensor a, Tensor updates, const std::vector<Tensor>& indices, const Addressing& addressing,
           const UpdateBy& by) {
  return put_by(a, updates, indices, attributes_of(addressing), by);
}

}  // namespace ramet::ops

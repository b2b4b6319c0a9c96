// Ops that find elements by index, or bring them in order, as ONNX.
#include <algorithm>
#include <numeric>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/index_space.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;
using ops::IndexSpace;

Names gather(OnnxWriter& to, const OnnxOp& op) { return {to.node("Gather", op.in, {onnx_integer("axis", 0)})}; }

/// How `take` and `put` are tuples of coordinates: the whole with the addressed axes first, the tuples, and the
/// permutation of the picked elements with the space first.
struct Tuples {
  std::vector<int64_t> addressed{}, first{}, behind{};
  std::string coordinates{};

  Tuples(OnnxWriter& to, const OnnxOp& op, const IndexSpace& space) {
    std::map<int, std::string> of_axis;
    for (size_t i = 0; i < space.axes.size(); ++i)
      of_axis[space.axes[i]] =
          to.expand(to.cast(op.in[op.in.size() - space.axes.size() + i], DType::kI64), space.space.dims());
    for (size_t d = 0; d < space.along.size(); ++d) {
      if (space.along[d] < 0) continue;
      const int64_t extent = space.space.dim(static_cast<int>(d));
      std::vector<int64_t> line(static_cast<size_t>(extent)), dims(space.along.size(), 1);
      std::iota(line.begin(), line.end(), 0);
      dims[d] = extent;
      of_axis[space.along[d]] = to.expand(to.reshape(to.integers(line), dims), space.space.dims());
    }
    Names parts;
    std::vector<int64_t> wide = space.space.dims();
    wide.push_back(1);
    for (const auto& [axis, coordinate] : of_axis) {
      addressed.push_back(axis);
      parts.push_back(to.reshape(coordinate, wide));
    }
    coordinates = to.node("Concat", parts, {onnx_integer("axis", space.space.rank())});
    first = addressed;
    first.insert(first.end(), space.kept.begin(), space.kept.end());
    // Picked elements: `before` kept axes, the space, the other kept axes; from the space and all kept axes.
    const int64_t rank = space.space.rank(), kept = std::ssize(space.kept);
    for (int64_t i = 0; i < space.before; ++i) behind.push_back(rank + i);
    for (int64_t i = 0; i < rank; ++i) behind.push_back(i);
    for (int64_t i = space.before; i < kept; ++i) behind.push_back(rank + i);
  }
  static bool is_identity(const std::vector<int64_t>& order) {
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i] != static_cast<int64_t>(i)) return false;
    return true;
  }
  static std::string permuted(OnnxWriter& to, const std::string& a, const std::vector<int64_t>& order) {
    return is_identity(order) ? a : to.transpose(a, order);
  }
  static std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
    std::vector<int64_t> made(order.size());
    for (size_t i = 0; i < order.size(); ++i) made[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return made;
  }
};

/// Whether indices address single lines along one axis, as GatherElements does.
bool addresses_lines(const IndexSpace& space) {
  const int rank = space.whole.rank();
  bool lines = space.axes.size() == 1 && std::ssize(space.along) == rank && space.space == space.index_shapes[0];
  for (int i = 0; lines && i < rank; ++i) lines = space.along[static_cast<size_t>(i)] == (i == space.axes[0] ? -1 : i);
  return lines;
}

Names take(OnnxWriter& to, const OnnxOp& op) {
  const IndexSpace space(op.signature, 1);
  const bool free = std::all_of(space.along.begin(), space.along.end(), [](int axis) { return axis < 0; });
  if (free && space.axes.size() == 1 && space.before == space.axes[0])
    return {to.node("Gather", op.in, {onnx_integer("axis", space.axes[0])})};
  if (addresses_lines(space)) return {to.node("GatherElements", op.in, {onnx_integer("axis", space.axes[0])})};
  const Tuples tuples(to, op, space);
  const std::string made = to.node("GatherND", {Tuples::permuted(to, op.in[0], tuples.first), tuples.coordinates});
  return {Tuples::permuted(to, made, tuples.behind)};
}

Names put(OnnxWriter& to, const OnnxOp& op) {
  const std::string by = op.attributes().get_string("by");
  if (!op.attributes().get_bool_or("include_self", true)) op.refuse("updates without the element itself have no form");
  const IndexSpace space(op.signature, 2);
  const OnnxWriter::Fields how = by == "set" ? OnnxWriter::Fields{} : OnnxWriter::Fields{onnx_text("reduction", by)};
  if (addresses_lines(space)) {
    OnnxWriter::Fields fields = how;
    fields.push_back(onnx_integer("axis", space.axes[0]));
    return {to.node("ScatterElements", {op.in[0], op.in[2], op.in[1]}, fields)};
  }
  const Tuples tuples(to, op, space);
  const std::string updates = Tuples::permuted(to, op.in[1], Tuples::inverse(tuples.behind));
  const std::string made =
      to.node("ScatterND", {Tuples::permuted(to, op.in[0], tuples.first), tuples.coordinates, updates}, how);
  return {Tuples::permuted(to, made, Tuples::inverse(tuples.first))};
}

Names one_hot(OnnxWriter& to, const OnnxOp& op) {
  const int64_t depth = op.attributes().get_int("depth");
  std::vector<int64_t> line(static_cast<size_t>(depth)), dims = op.input(0).shape.dims();
  std::iota(line.begin(), line.end(), 0);
  dims.push_back(1);
  const std::string classes = to.integers(line, op.input(0).dtype);
  return {to.cast(to.node("Equal", {to.reshape(op.in[0], dims), classes}), op.output().dtype)};
}

Names running_sum(OnnxWriter& to, const OnnxOp& op) {
  const std::string axis = to.number(DType::kI64, static_cast<double>(op.attributes().get_int("axis")));
  return {to.node("CumSum", {op.in[0], axis},
                  {onnx_integer("reverse", op.attributes().get_bool_or("reverse", false) ? 1 : 0)})};
}

Names ordered(OnnxWriter& to, const OnnxOp& op, int64_t k, int64_t axis, bool largest) {
  const Names made = to.nodes("TopK", {op.in[0], to.integers({k})}, 2,
                              {onnx_integer("axis", axis), onnx_integer("largest", largest ? 1 : 0)});
  return {made[0], to.cast(made[1], DType::kI32)};
}
Names top_k(OnnxWriter& to, const OnnxOp& op) {
  return ordered(to, op, op.attributes().get_int("k"), op.attributes().get_int_or("axis", -1),
                 !op.attributes().get_bool_or("least", false));
}
Names sort(OnnxWriter& to, const OnnxOp& op) {
  const int64_t axis = op.attributes().get_int("axis");
  return ordered(to, op, op.input(0).shape.dim(static_cast<int>(axis)), axis,
                 op.attributes().get_bool_or("descending", false));
}

/// How many sorted elements are less: a count of comparisons.
Names search_sorted(OnnxWriter& to, const OnnxOp& op) {
  const Shape& sorted = op.input(0).shape;
  std::vector<int64_t> values = op.input(1).shape.dims(), table = sorted.dims();
  values.push_back(1);
  if (sorted.rank() > 1) table.insert(table.end() - 1, 1);
  const char* name = op.attributes().get_bool_or("right", false) ? "LessOrEqual" : "Less";
  const std::string less = to.node(name, {to.reshape(op.in[0], table), to.reshape(op.in[1], values)});
  return {to.reduce("ReduceSum", to.cast(less, DType::kI32), {-1}, false)};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_index_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"gather", gather},      {"take", take, true},   {"put", put, true},   {"one_hot", one_hot, true},
      {"cumsum", running_sum}, {"top_k", top_k, true}, {"sort", sort, true}, {"search_sorted", search_sorted, true},
  };
  return table;
}

}  // namespace ramet::front

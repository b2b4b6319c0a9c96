#include "ramet/ops/element_moves.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Dims = std::vector<int64_t>;

/// The whole output from strided elements of input 0.
ElementMove pull(const NodeSignature& node, const Dims& strides, int64_t start) {
  const Shape& shape = node.outputs[0].shape;
  return {0, 0, start, 0, shape.dims(), strides, shape.strides()};
}

ElementMove transpose(const NodeSignature& node) {
  const Dims own = node.inputs[0].shape.strides();
  Dims strides;
  for (int64_t axis : node.attributes.get_ints("permutation")) strides.push_back(own[static_cast<size_t>(axis)]);
  return pull(node, strides, 0);
}

ElementMove broadcast(const NodeSignature& node) {
  const Shape &shape = node.inputs[0].shape, &wide = node.outputs[0].shape;
  const Dims own = shape.strides();
  Dims strides(static_cast<size_t>(wide.rank()), 0);
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape.dim(axis) != 1)
      strides[static_cast<size_t>(axis + wide.rank() - shape.rank())] = own[static_cast<size_t>(axis)];
  return pull(node, strides, 0);
}

Dims ints_or(const NodeSignature& node, const char* name, int64_t otherwise, size_t count) {
  return node.attributes.has(name) ? node.attributes.get_ints(name) : Dims(count, otherwise);
}

ElementMove slice(const NodeSignature& node) {
  const Dims& start = node.attributes.get_ints("start");
  const Dims own = node.inputs[0].shape.strides(), steps = ints_or(node, "stride", 1, start.size());
  Dims strides;
  int64_t first = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    strides.push_back(own[i] * steps[i]);
    first += own[i] * start[i];
  }
  return pull(node, strides, first);
}

/// A cut dimension is [blocks, run] of what was [blocks, parts, run].
ElementMove shard(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  const Dims own = shape.strides();
  Dims extents, strides;
  int64_t first = 0;
  const std::vector<PositionCut> cuts = position_cuts(node);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const PositionCut& each) { return each.dim == axis; });
    const int64_t stride = own[static_cast<size_t>(axis)];
    const bool whole = cut == cuts.end();
    const int64_t blocks = whole ? 1 : cut->blocks, parts = whole ? 1 : cut->parts;
    const int64_t run = shape[axis] / (blocks * parts);
    if (!whole) first += cut->position * run * stride;
    extents.insert(extents.end(), {blocks, run});
    strides.insert(strides.end(), {parts * run * stride, stride});
  }
  return {0, 0, first, 0, extents, strides, Shape(extents).strides()};
}

ElementMove reverse(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  Dims strides = shape.strides();
  int64_t first = 0;
  for (int axis : axes_attribute(node, "axes", shape.rank())) {
    first += (shape.dim(axis) - 1) * strides[static_cast<size_t>(axis)];
    strides[static_cast<size_t>(axis)] *= -1;
  }
  return pull(node, strides, shape.elements() == 0 ? 0 : first);
}

ElementMove pad(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  const Dims& low = node.attributes.get_ints("low");
  const Dims between = ints_or(node, "interior", 0, low.size()), strides = node.outputs[0].shape.strides();
  Dims to;
  int64_t first = 0;
  for (size_t i = 0; i < low.size(); ++i) {
    to.push_back(strides[i] * (between[i] + 1));
    first += strides[i] * low[i];
  }
  return {0, 0, 0, first, shape.dims(), shape.strides(), to};
}

std::vector<ElementMove> joint(const NodeSignature& node, bool concat) {
  const TensorType& whole = concat ? node.outputs[0] : node.inputs[0];
  const std::vector<TensorType>& parts = concat ? node.inputs : node.outputs;
  const int axis = normalize_axis(node.attributes.get_int("axis"), whole.shape.rank(), node.text());
  const Dims strides = whole.shape.strides();
  std::vector<ElementMove> moves;
  int64_t start = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape& part = parts[i].shape;
    const Dims own = part.strides();
    const int64_t at = start * strides[static_cast<size_t>(axis)];
    const int number = static_cast<int>(i);
    if (concat)
      moves.push_back({number, 0, 0, at, part.dims(), own, strides});
    else
      moves.push_back({0, number, at, 0, part.dims(), strides, own});
    start += part.dim(axis);
  }
  return moves;
}

}  // namespace

int64_t ElementMove::elements() const {
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  return elements;
}

ElementMove ElementMove::merged() const {
  ElementMove result{input, output, from_start, to_start, {}, {}, {}};
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) continue;
    const bool merges =
        !result.extents.empty() && result.from.back() == from[i] * extents[i] && result.to.back() == to[i] * extents[i];
    if (merges) {
      result.extents.back() *= extents[i];
      result.from.back() = from[i];
      result.to.back() = to[i];
    } else {
      result.extents.push_back(extents[i]);
      result.from.push_back(from[i]);
      result.to.push_back(to[i]);
    }
  }
  if (result.extents.empty()) result.extents = result.from = result.to = {1};
  return result;
}

std::vector<ElementMove> element_moves(const NodeSignature& node) {
  const std::string& op = node.op->name;
  if (op == "transpose") return {transpose(node)};
  if (op == "broadcast_to") return {broadcast(node)};
  if (op == "slice") return {slice(node)};
  if (op == "shard") return {shard(node)};
  if (op == "reverse") return {reverse(node)};
  if (op == "pad") return {pad(node)};
  if (op == "concat") return joint(node, true);
  if (op == "split") return joint(node, false);
  internal_error("element_moves", "op " + op + " moves no elements");
}

}  // namespace ramet::ops

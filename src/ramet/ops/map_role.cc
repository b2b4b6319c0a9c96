#include "ramet/ops/map_role.h"

#include <algorithm>

#include "ramet/ops/reduce_shape.h"

namespace ramet::ops {
namespace {

/// A sum over all dimensions but the last, in one go: what maps call a sum over rows.
bool sums_rows(const NodeSignature& node) {
  const TensorType& a = node.inputs[0];
  const int rank = a.shape.rank();
  const std::vector<int> axes = reduce_axes(node);
  const bool leading = rank > 1 && std::ssize(axes) == rank - 1 && axes.back() == rank - 2;
  const bool whole = node.attributes.get_int_or("chunks", 1) == 1 && !node.attributes.get_bool_or("in_order", false);
  return is_floating(a.dtype) && leading && whole && !node.attributes.get_bool_or("keep_dims", false);
}

}  // namespace

MapRole map_role(const NodeSignature& node) {
  const std::string& op = node.op->name;
  if (op == "map" || !node.op->map_op.empty()) return MapRole::kProgram;
  if (op == "broadcast_to") return MapRole::kSpread;
  if (op == "reduce_sum" && sums_rows(node)) return MapRole::kSumRows;
  return MapRole::kNone;
}

}  // namespace ramet::ops

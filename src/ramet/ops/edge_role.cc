#include "ramet/ops/edge_role.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ramet/ir/op.h"
#include "ramet/ops/edge_map.h"
#include "ramet/ops/map_program.h"
#include "ramet/ops/map_role.h"

namespace ramet::ops {
namespace {

using Dims = std::vector<int64_t>;

const Shape& shape_of(const NodeSignature& node, int input) { return node.inputs[static_cast<size_t>(input)].shape; }

/// Whether `take` or `put` addresses whole rows: the last axis that numbers rows, those in front of it sample by
/// sample.
bool addresses_rows(const NodeSignature& node, int lead) {
  const Attributes& attributes = node.attributes;
  if (attributes.get_ints("axes") != Dims{lead - 1} || attributes.get_int_or("before", 0) != 0 ||
      attributes.get_bool_or("from_end", false))
    return false;
  Dims along(static_cast<size_t>(lead), -1);
  if (lead == 2) along[0] = 0;
  return attributes.has("along") ? attributes.get_ints("along") == along : lead == 1;
}

/// `take` and `put` of rows by indices.
std::optional<EdgeRole> by_indices(const NodeSignature& node, bool sums) {
  if (node.inputs.size() != (sums ? 3u : 2u)) return {};
  EdgeRole role{.sums = sums, .table = sums ? 2 : 1};
  role.lead = shape_of(node, role.table).rank();
  if (role.lead < 1 || role.lead > 2 || !addresses_rows(node, role.lead)) return {};
  // As many samples as there are of indices.
  if (role.lead == 2 && shape_of(node, 0).dim(0) != shape_of(node, role.table).dim(0)) return {};
  if (!sums) {
    role.rows = 0;
    return role;
  }
  role.added_to = 0, role.edges = 1;
  return node.attributes.get_string("by") == "add" ? std::optional(role) : std::nullopt;
}

/// `gather` and `scatter_add` of a whole table by a list of indices.
std::optional<EdgeRole> by_list(const NodeSignature& node, bool sums) {
  EdgeRole role{.sums = sums, .table = sums ? 0 : 1, .lead = 1};
  (sums ? role.edges : role.rows) = sums ? 1 : 0;
  if (node.inputs.size() != 2 || shape_of(node, role.table).rank() != 1 || node.attributes.has("cuts")) return {};
  if (sums && node.inputs[1].dtype != DType::kF32) return {};
  return role;
}

}  // namespace

std::optional<EdgeRole> edge_role(const NodeSignature& node) {
  const std::string& op = node.op->name;
  const bool sums = op == "segment_sum" || op == "put" || op == "scatter_add";
  const DType dtype = node.outputs.empty() ? DType::kBool : node.outputs[0].dtype;
  // The sums of other types are no chains of f32.
  if (!is_floating(dtype) || dtype == DType::kF64 || (sums && dtype != DType::kF32)) return {};
  if (op == "take" || op == "put") return by_indices(node, sums);
  if (op == "gather" || op == "scatter_add") return by_list(node, sums);
  if (op != "segment_sum" && op != "segment_expand") return {};
  EdgeRole role{.sums = sums, .table = 1, .pointers = true, .lead = 2};
  (sums ? role.edges : role.rows) = 0;
  role.mean = sums && node.attributes.get_bool_or("mean", false);
  return role;
}

bool maps_edges(const NodeSignature& node, const Shape& space, int lead) {
  if (map_role(node) != MapRole::kProgram || map_space_of(node) != space) return false;
  const MapProgram program = map_program_of(node);
  if (program.draws()) return false;
  for (const MapProgram::Output& output : program.outputs)
    if (output.reduce != MapProgram::Reduce::kNone) return false;
  const auto is_known = [](const TensorType& type) {
    return type.dtype != DType::kF64 && !(is_floating(type.dtype) && size_of(type.dtype) < 2);
  };
  const auto fits = [&](const TensorType& type) { return has_edges(type.shape, space, lead).has_value(); };
  return std::ranges::all_of(node.outputs, is_known) && std::ranges::all_of(node.inputs, is_known) &&
         std::ranges::all_of(node.inputs, fits);
}

bool makes_zeros(const NodeSignature& node) {
  return node.op->name == "full" && node.attributes.get_float("value") == 0;
}

}  // namespace ramet::ops

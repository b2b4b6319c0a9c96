#pragma once

#include <optional>

#include "ramet/base/shape.h"

namespace ramet::ir {
struct NodeSignature;
}  // namespace ramet::ir

namespace ramet::ops {

/// What a node can be in an `edge_map` (ops/edge_map.h) beside its maps: it reads a row for each edge, or sums over the
/// edges of rows. Operands are inputs of the node, -1 where it has none such.
struct EdgeRole {
  bool sums = false;
  int rows = -1;      ///< of a reader
  int edges = -1;     ///< of a sum
  int table = -1;     ///< pointers or indices
  int added_to = -1;  ///< of a sum that counts only where this operand is zeros
  bool pointers = false;
  bool mean = false;  ///< of a sum
  int lead = 0;       ///< dimensions that number edges: 1 or 2
};
std::optional<EdgeRole> edge_role(const NodeSignature& node);

/// Whether a map or an element-wise node can be a part of an `edge_map` over `space`, whose first `lead` dimensions
/// number edges.
bool maps_edges(const NodeSignature& node, const Shape& space, int lead);

/// Whether a node makes a tensor of zeros.
bool makes_zeros(const NodeSignature& node);

}  // namespace ramet::ops

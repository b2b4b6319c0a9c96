#pragma once

#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// One pass of a reduction: [outer, reduced, inner] -> [outer, inner], row-major.
struct ReduceGroup {
  int64_t outer = 1, reduced = 1, inner = 1;
  int64_t extent = 1;  ///< of the last of the reduced dimensions: what chunks cut
  bool last = false;   ///< nothing is behind the reduced dimensions (inner may be 1 otherwise too)
};
/// The passes of a reduction of `shape` over sorted `axes`, innermost group of adjacent axes first; each works on what
/// the one before left (see ops/reduce_order.h).
std::vector<ReduceGroup> reduce_groups(const Shape& shape, const std::vector<int>& axes);
/// Sorted axes of a reduce node.
std::vector<int> reduce_axes(const NodeSignature& node);

}  // namespace ramet::ops

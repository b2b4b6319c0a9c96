#pragma once

#include <cstdint>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// Elements that a node moves between two strided views of the same extents. Strides in elements, of any sign, 0 to
/// repeat.
struct ElementMove {
  int input = 0, output = 0;
  int64_t from_start = 0, to_start = 0;  ///< elements before the views
  std::vector<int64_t> extents, from, to;

  int64_t elements() const;
  /// The same elements with dimensions of 1 left out and neighbours merged where both strides allow it.
  ElementMove merged() const;
};

/// What transpose, broadcast_to, slice, reverse, concat, split, shard (unless it deals clusters) and, within what it
/// fills, pad come down to; an internal error for other ops.
std::vector<ElementMove> element_moves(const NodeSignature& node);

}  // namespace ramet::ops

#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"

namespace ramet::ops {

/// How the ops `take` and `put` address elements of a tensor (the *whole*). Index tensor n holds coordinates on axis
/// axes[n] of the whole. The index tensors broadcast to one shape, the *space*; an element of the space is a
/// *position*. Dimension d of the space may run along an axis of the whole: then the coordinate of a position in d is
/// its coordinate on axis along[d], as in a gather with batch dimensions. All other axes of the whole are *kept*: a
/// position addresses all their elements.
///
/// The *picked* elements are a tensor of the first `before` kept dimensions, the space, and the other kept dimensions.
struct IndexSpace {
  Shape whole;
  Shape space;
  std::vector<Shape> index_shapes;  ///< one an index tensor
  std::vector<int> axes;            ///< one an index tensor
  std::vector<int> along;           ///< one a dimension of the space; -1: along no axis
  std::vector<int> kept;            ///< axes, in order
  int before = 0;
  bool from_end = false;  ///< a negative index counts from the end of its axis

  /// Of a node whose inputs from `first_index` on are index tensors, and whose input 0 is the whole. Attributes:
  /// `axes`, `along` (absent: along none), `before` (0), `from_end` (false). Throws Error naming the node when they do
  /// not fit.
  IndexSpace(const NodeSignature& node, size_t first_index);

  Shape picked() const;
  /// Strides of index tensor n in the space, in elements: 0 where it is broadcast.
  std::vector<int64_t> index_strides(size_t n) const;
  /// Coordinate that an index means; -1 when the index is out of range.
  int64_t coordinate(size_t n, int64_t index) const {
    const int64_t extent = whole.dim(axes[n]), at = index < 0 && from_end ? index + extent : index;
    return at >= 0 && at < extent ? at : -1;
  }
  /// The error for an index out of range: `position` is an element of index tensor n.
  Error out_of_range(const NodeSignature& node, size_t n, int64_t position, int64_t index) const;
};

/// Attributes of `take` and `put` that address the elements of single lines along `axis` of a tensor of `rank`
/// dimensions by one index tensor of the same rank (torch.gather).
Attributes line_attributes(int rank, int axis);

}  // namespace ramet::ops

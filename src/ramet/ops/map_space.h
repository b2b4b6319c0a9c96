#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ramet/ops/map_program.h"

namespace ramet::ops {

/// The iteration space of a map program as loops walk it: neighbouring dimensions that every input walks as one are
/// one. Where outputs are summed, the last dimension stays itself.
struct MapSpace {
  struct Input {
    std::vector<int64_t> strides;  ///< in elements, one for each dimension, 0 where it is broadcast; of counters none
    bool counter = false;          ///< of a dropout step: no tensor over the space
    bool full = false;             ///< lies as the space does
    bool uniform = false;          ///< one element for all
  };
  std::vector<int64_t> extents;  ///< at least one
  /// `columns` is the last extent, `rows` the product of the others; no rows where there are no columns, but for sums
  /// over the last dimension.
  int64_t elements = 0, columns = 1, rows = 0;
  bool sums_rows = false, sums_last = false;
  std::vector<Input> inputs;

  MapSpace() = default;
  MapSpace(const MapProgram& program, const Shape& space, std::span<const TensorType> inputs);
};

}  // namespace ramet::ops

#pragma once

namespace ramet_device {

/// Rows of a table by indices. Rows and units of 16, 8, 4, 2 or 1 bytes.
struct GatherArguments {
  long long indices, rows, width;  ///< indices, rows of the table, units of a row
  int lane_bits;                   ///< 2^lane_bits threads copy a row
  const void *index, *table;
  void* out;
  void* faults;
  unsigned kernel;
};

/// Updates of rows of a table, each row's in order of position. Room has `rows` + 1 counters (then each row's first
/// place in `order`), the place of each position within its row, `order`, and a list of rows with many updates behind
/// its length.
struct ScatterArguments {
  long long positions, rows, width;
  int lane_bits;
  const void *index, *updates, *base;  ///< `base`: what the sums are added to, null for nothing
  void* out;
  int *first, *place, *order, *many;
  void* faults;
  unsigned kernel;
};

/// A 1 at each index of a line of `depth`, by elements of 1, 2, 4 or 8 bytes.
struct OneHotArguments {
  long long elements, depth;
  const void* index;
  void* out;
  unsigned long long one;
};

}  // namespace ramet_device

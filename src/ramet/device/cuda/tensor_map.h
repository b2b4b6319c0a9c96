#pragma once

#include <cstdint>

namespace ramet::device {

/// A stack of matrices of 16-bit numbers in the card's memory, and the box of it that a kernel copies at a time
/// into shared memory, in rows of 128 bytes with a swizzle of 128 bytes. Rows begin at multiples of 16 bytes.
struct MatrixBoxes {
  const void* data = nullptr;
  int64_t matrices = 1, rows = 0, columns = 0;
  int64_t stride = 0;  ///< elements between rows; matrices follow each other
  int box_rows = 0;
  int box_columns = 0;  ///< 64 at most
};

/// Whether the driver makes maps for such copies.
bool has_tensor_maps();
/// Writes the 128 bytes, aligned to 64, that a kernel gives to the copies.
void make_tensor_map(const MatrixBoxes& boxes, void* map);

}  // namespace ramet::device

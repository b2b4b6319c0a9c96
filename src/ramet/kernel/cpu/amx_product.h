#pragma once

#include <cstdint>

namespace ramet::kernel {

/// Rows of a whole strip of tiles: a product is fastest for multiples of it.
inline constexpr int64_t kAmxRows = 32;
/// Units of k that a tile sums at once: the groups in which an element's sum is taken.
inline constexpr int64_t kAmxUnits = 16;

/// c [m,n] (+)= a [m,k] x b [k,n] with the tiles of AMX. Operands are units of 32 bits, pairs of neighbouring bf16.
/// An element is one chain over groups of 16 units of k, in order; the tail of k is a group of its own. Neither m, n
/// nor the way in which rows and columns are split shows in the bits. A chain may be continued (`add`) where the k
/// before is a multiple of 16 units.
struct AmxProduct {
  int64_t m, n, k;       ///< n is a multiple of 16
  const void* a;         ///< row-major
  int64_t a_stride;      ///< bytes between rows
  const uint32_t* b;     ///< panels of up to 64 columns, each row-major [k][b_stride]
  int64_t b_stride;      ///< units between rows of a panel
  int64_t panel_stride;  ///< units between panels
  float* c;
  int64_t c_stride;  ///< floats between rows
  bool add;          ///< continues from what c holds
};
/// On processors of level kAmxBf16 only.
void amx_product(const AmxProduct& product);

/// out[j * out_stride + i] = in[i * in_stride + j] for i below `rows` (at most 16) and j below 16: units of 32 bits.
/// Units beyond `rows` in the sixteen of a row of `out` become zero.
void transpose_units(const uint32_t* in, int64_t in_stride, int64_t rows, uint32_t* out, int64_t out_stride);

}  // namespace ramet::kernel

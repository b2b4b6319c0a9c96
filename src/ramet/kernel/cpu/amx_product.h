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
  const void* a;         ///< row-major, or packed (`pack_rows`)
  int64_t a_stride;      ///< bytes between rows; not used if packed
  int64_t a_strip = 0;   ///< packed: bytes between strips; 0: row-major
  const uint32_t* b;     ///< panels of `panel_columns` columns (the last may be narrower), each row-major [k][b_stride]
  int64_t b_stride;      ///< units between rows of a panel
  int64_t panel_stride;  ///< units between panels
  int64_t panel_columns = 64;
  float* c;
  int64_t c_stride;  ///< floats between rows; an odd number of cache lines is best
  bool add;          ///< continues from what c holds
  /// Memory that the caller writes afterwards, asked for while the tiles compute: m rows of n elements; null: none.
  const void* result = nullptr;
  int64_t result_stride = 0;  ///< bytes between rows
  int64_t result_size = 4;    ///< bytes of an element
};
/// On processors of level kAmxBf16 only.
void amx_product(const AmxProduct& product);

/// Columns of the panels that a product goes through fastest, with packed rows: a panel and a strip of rows are in the
/// first-level cache together.
inline constexpr int64_t kAmxPanel = 32;

/// Bytes of a strip of 32 packed rows of `k` numbers.
inline constexpr int64_t packed_strip_bytes(int64_t k) {
  return (k + 2 * kAmxUnits - 1) / (2 * kAmxUnits) * kAmxRows * kAmxUnits * 4;
}
/// Packs bf16 numbers for `amx_product`: strips of 32 rows, `strip_bytes` apart, each in groups [group][32][16 units],
/// so that a tile is 16 neighbouring cache lines. Number k of row i is in[i * stride + k], or in[k * stride + i] if
/// `transposed`. What is beyond k in the last group becomes zero; rows beyond `rows` stay as they are, or become zero.
void pack_rows(const uint16_t* in, int64_t stride, bool transposed, int64_t rows, int64_t k, int64_t strip_bytes,
               void* out);

/// out[j * out_stride + i] = in[i * in_stride + j] for i below `rows` (at most 16) and j below 16: units of 32 bits.
/// Units beyond `rows` in the sixteen of a row of `out` become zero.
void transpose_units(const uint32_t* in, int64_t in_stride, int64_t rows, uint32_t* out, int64_t out_stride);

}  // namespace ramet::kernel

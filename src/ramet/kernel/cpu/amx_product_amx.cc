#include <immintrin.h>

#include <algorithm>

#include "ramet/kernel/cpu/amx_product.h"
#include "ramet/kernel/cpu/unroll.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kTileRows = 16, kTileColumns = 16, kPanelColumns = 64;
constexpr int64_t kDepth = 128;  // units of k of one pass: 64 columns of b stay in the first-level cache

// Tiles 0 to 3 are sums (2 x 2), 4 and 5 rows of a, 6 and 7 columns of b.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// Shapes for strips of so many rows (up to 32) and groups of so many units.
void load_shapes(int64_t rows, int64_t units) {
  TileShapes shapes;
  const auto set = [&](int tile, int64_t tile_rows, int64_t tile_units) {
    if (tile_rows == 0) return;
    shapes.rows[tile] = static_cast<uint8_t>(tile_rows);
    shapes.row_bytes[tile] = static_cast<uint16_t>(4 * tile_units);
  };
  const int64_t above = std::min(rows, kTileRows), below = rows - above;
  set(0, above, kTileColumns), set(1, above, kTileColumns);
  set(2, below, kTileColumns), set(3, below, kTileColumns);
  set(4, above, units), set(5, below, units);
  set(6, units, kTileColumns), set(7, units, kTileColumns);
  asm volatile("" : : "r"(&shapes) : "memory");  // the intrinsic names a part of what it reads
  _tile_loadconfig(&shapes);
}

/// A strip of up to 32 rows by 32 or 16 columns, over `groups` groups of `units` units.
struct Strip {
  const char* a;
  int64_t a_stride;  // bytes
  const char* b;
  int64_t b_stride;  // bytes
  char* c;
  int64_t c_stride;  // bytes
  int64_t groups, units;
  bool add;
};

template <bool kTwoRows, bool kTwoColumns>
void strip(const Strip& s) {
  const char* a = s.a;
  const char* below = s.a + kTileRows * s.a_stride;
  const char* b = s.b;
  char* c_below = s.c + kTileRows * s.c_stride;
  if (s.add) {
    _tile_loadd(0, s.c, s.c_stride);
    if constexpr (kTwoColumns) _tile_loadd(1, s.c + 64, s.c_stride);
    if constexpr (kTwoRows) _tile_loadd(2, c_below, s.c_stride);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, c_below + 64, s.c_stride);
  } else {
    _tile_zero(0);
    if constexpr (kTwoColumns) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoColumns) _tile_zero(3);
  }
  for (int64_t group = 0; group < s.groups; ++group) {
    _tile_loadd(6, b, s.b_stride);
    _tile_loadd(4, a, s.a_stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoColumns) {
      _tile_loadd(7, b + 64, s.b_stride);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRows) {
      _tile_loadd(5, below, s.a_stride);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kTwoRows && kTwoColumns) _tile_dpbf16ps(3, 5, 7);
    a += 4 * s.units, below += 4 * s.units, b += s.units * s.b_stride;
  }
  _tile_stored(0, s.c, s.c_stride);
  if constexpr (kTwoColumns) _tile_stored(1, s.c + 64, s.c_stride);
  if constexpr (kTwoRows) _tile_stored(2, c_below, s.c_stride);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, c_below + 64, s.c_stride);
}

void strip_of(const Strip& s, int64_t rows, int64_t columns) {
  const bool two_columns = columns > kTileColumns;
  if (rows > kTileRows)
    two_columns ? strip<true, true>(s) : strip<true, false>(s);
  else
    two_columns ? strip<false, true>(s) : strip<false, false>(s);
}

/// Rows [row, row_end) in strips of `rows`, units [k, k_end) in groups of `units`: tiles of one set of shapes.
void pass(const AmxProduct& p, int64_t row, int64_t row_end, int64_t rows, int64_t k, int64_t k_end, int64_t units) {
  if (row >= row_end || k >= k_end) return;
  load_shapes(rows, units);
  for (; k < k_end; k += kDepth) {
    const int64_t depth = std::min(kDepth, k_end - k);
    for (int64_t column = 0; column < p.n; column += kPanelColumns) {
      const uint32_t* panel = p.b + column / kPanelColumns * p.panel_stride + k * p.b_stride;
      const int64_t columns = std::min(kPanelColumns, p.n - column);
      for (int64_t i = row; i < row_end; i += rows)
        for (int64_t j = 0; j < columns; j += 2 * kTileColumns)
          strip_of({.a = static_cast<const char*>(p.a) + i * p.a_stride + 4 * k,
                    .a_stride = p.a_stride,
                    .b = reinterpret_cast<const char*>(panel + j),
                    .b_stride = 4 * p.b_stride,
                    .c = reinterpret_cast<char*>(p.c + i * p.c_stride + column + j),
                    .c_stride = 4 * p.c_stride,
                    .groups = depth / units,
                    .units = units,
                    .add = p.add || k > 0},
                   rows, columns - j);
    }
  }
}

/// One of four steps: rows whose numbers differ in bit `kBit` exchange halves of runs of `kBit` units.
template <int kBit>
void exchange(__m512i (&rows)[16]) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i bit = _mm512_set1_epi32(kBit), other = _mm512_set1_epi32(16 - kBit);
  const __mmask16 upper = _mm512_test_epi32_mask(lanes, bit);
  // Lane l of the first row: its own where the bit is clear, lane l - kBit of the second where it is set.
  const __m512i first = _mm512_mask_add_epi32(lanes, upper, lanes, other);
  const __m512i second = _mm512_mask_add_epi32(_mm512_add_epi32(lanes, bit), upper, lanes, _mm512_set1_epi32(16));
  RAMET_UNROLL
  for (int i = 0; i < 16; ++i) {
    if (i & kBit) continue;
    const __m512i a = rows[i], b = rows[i | kBit];
    rows[i] = _mm512_permutex2var_epi32(a, first, b);
    rows[i | kBit] = _mm512_permutex2var_epi32(a, second, b);
  }
}

}  // namespace

void transpose_units(const uint32_t* in, int64_t in_stride, int64_t rows, uint32_t* out, int64_t out_stride) {
  __m512i units[16];
  RAMET_UNROLL
  for (int i = 0; i < 16; ++i) units[i] = i < rows ? _mm512_loadu_si512(in + i * in_stride) : _mm512_setzero_si512();
  exchange<8>(units);
  exchange<4>(units);
  exchange<2>(units);
  exchange<1>(units);
  RAMET_UNROLL
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + i * out_stride, units[i]);
}

void amx_product(const AmxProduct& p) {
  if (p.k == 0 && !p.add)
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.c + i * p.c_stride, p.n, 0.0f);
  const int64_t whole_rows = p.m / kAmxRows * kAmxRows, whole_k = p.k / kAmxUnits * kAmxUnits;
  pass(p, 0, whole_rows, kAmxRows, 0, whole_k, kAmxUnits);
  pass(p, whole_rows, p.m, p.m - whole_rows, 0, whole_k, kAmxUnits);
  pass(p, 0, whole_rows, kAmxRows, whole_k, p.k, p.k - whole_k);
  pass(p, whole_rows, p.m, p.m - whole_rows, whole_k, p.k, p.k - whole_k);
  _tile_release();
}

}  // namespace ramet::kernel

#include <immintrin.h>

#include <algorithm>

#include "ramet/kernel/cpu/amx_product.h"
#include "ramet/kernel/cpu/unroll.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kTileRows = 16, kTileColumns = 16;
constexpr int64_t kDepth = 128;  // units of k of one pass: a panel of b and a strip of a stay in the first-level cache
constexpr int64_t kTileBytes = kTileRows * kAmxUnits * 4;

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
  int64_t a_stride, a_group;  // bytes between rows, between groups
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
    a += s.a_group, below += s.a_group, b += s.units * s.b_stride;
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

/// Where a holds unit k, which begins a group, of row i, which begins a strip.
const char* rows_of(const AmxProduct& p, int64_t i, int64_t k) {
  const auto* a = static_cast<const char*>(p.a);
  return p.a_strip ? a + i / kAmxRows * p.a_strip + k / kAmxUnits * 2 * kTileBytes : a + i * p.a_stride + 4 * k;
}

/// Asks for the memory of the result of a strip at (row, column), a share of its rows at each of its last passes.
void ask_for_result(const AmxProduct& p, int64_t row, int64_t rows, int64_t column, int64_t k) {
  constexpr int64_t kLine = 64, kLastPasses = 4;
  const int64_t all = std::max<int64_t>(1, p.k / kDepth), passes = std::min(all, kLastPasses);
  const int64_t number = k / kDepth - (all - passes);
  if (number < 0) return;
  const char* result = static_cast<const char*>(p.result) + column * p.result_size;
  const int64_t bytes = std::min(2 * kTileColumns, p.n - column) * p.result_size;
  for (int64_t i = rows * number / passes; i < std::min(rows, rows * (number + 1) / passes); ++i)
    for (int64_t byte = 0; byte < bytes; byte += kLine)
      _mm_prefetch(result + (row + i) * p.result_stride + byte, _MM_HINT_T1);
}

/// Rows [row, row_end) in strips of `rows`, units [k, k_end) in groups of `units`: tiles of one set of shapes.
void pass(const AmxProduct& p, int64_t row, int64_t row_end, int64_t rows, int64_t k, int64_t k_end, int64_t units) {
  if (row >= row_end || k >= k_end) return;
  load_shapes(rows, units);
  for (int64_t depth; k < k_end; k += depth) {
    // The last passes share what is left: a short one would have the sums loaded and stored for little.
    const int64_t left = k_end - k;
    depth = left >= 2 * kDepth || left <= kDepth ? std::min(kDepth, left) : left / (2 * kAmxUnits) * kAmxUnits;
    for (int64_t column = 0; column < p.n; column += p.panel_columns) {
      const uint32_t* panel = p.b + column / p.panel_columns * p.panel_stride + k * p.b_stride;
      const int64_t columns = std::min(p.panel_columns, p.n - column);
      for (int64_t i = row; i < row_end; i += rows)
        for (int64_t j = 0; j < columns; j += 2 * kTileColumns) {
          if (p.result) ask_for_result(p, i, rows, column + j, k);
          strip_of({.a = rows_of(p, i, k),
                    .a_stride = p.a_strip ? 4 * kAmxUnits : p.a_stride,
                    .a_group = p.a_strip ? 2 * kTileBytes : 4 * units,
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

namespace {

/// A group of up to 32 numbers of up to 32 rows that lie one after another.
void pack_group(const uint16_t* in, int64_t stride, int64_t rows, int64_t k, char* out) {
  const auto some = static_cast<__mmask32>(k >= 32 ? 0xffffffffu : (1u << k) - 1);
  for (int64_t i = 0; i < rows; ++i)
    _mm512_storeu_si512(out + i * 4 * kAmxUnits, _mm512_maskz_loadu_epi16(some, in + i * stride));
}

/// The same of numbers whose rows are columns of the source: 16 rows.
void pack_turned_tile(const uint16_t* in, int64_t stride, int64_t rows, int64_t k, char* out) {
  const auto some = static_cast<__mmask16>(rows >= 16 ? 0xffffu : (1u << rows) - 1);
  const auto numbers = [&](int64_t at) {
    return at < k ? _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(some, in + at * stride))
                  : _mm512_setzero_si512();
  };
  __m512i units[16];
  RAMET_UNROLL
  for (int i = 0; i < 16; ++i)
    units[i] = _mm512_or_si512(numbers(2 * i), _mm512_maskz_slli_epi32(0xffff, numbers(2 * i + 1), 16));
  exchange<8>(units);
  exchange<4>(units);
  exchange<2>(units);
  exchange<1>(units);
  RAMET_UNROLL
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + i * 4 * kAmxUnits, units[i]);
}

}  // namespace

void pack_rows(const uint16_t* in, int64_t stride, bool transposed, int64_t rows, int64_t k, int64_t strip_bytes,
               void* out) {
  constexpr int64_t kGroup = 2 * kAmxUnits;
  const auto place = [&](int64_t i, int64_t at) {
    return static_cast<char*>(out) + i / kAmxRows * strip_bytes + at / kGroup * 2 * kTileBytes +
           i % kAmxRows * 4 * kAmxUnits;
  };
  if (!transposed) {
    for (int64_t i = 0; i < rows; i += kAmxRows)
      for (int64_t at = 0; at < k; at += kGroup)
        pack_group(in + i * stride + at, stride, std::min(kAmxRows, rows - i), k - at, place(i, at));
    return;
  }
  for (int64_t at = 0; at < k; at += kGroup)
    for (int64_t i = 0; i < rows; i += kTileRows) {
      // Rows of the source are far apart: a processor does not look ahead to the next group by itself.
      const int64_t next = at + kGroup;
      for (int64_t number = next + kGroup * i / rows; number < std::min(k, next + kGroup * (i + kTileRows) / rows);
           ++number)
        for (int64_t ahead = 0; ahead < rows; ahead += 32)
          _mm_prefetch(reinterpret_cast<const char*>(in + number * stride + ahead), _MM_HINT_T0);
      pack_turned_tile(in + at * stride + i, stride, rows - i, k - at, place(i, at));
    }
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

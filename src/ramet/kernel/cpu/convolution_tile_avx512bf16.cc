#include <immintrin.h>

#include "ramet/kernel/cpu/convolution_tile.h"
#include "ramet/kernel/cpu/unroll.h"

namespace ramet::kernel {
namespace {

/// Upper halves of f32 numbers rounded to nearest even, as RoundToBf16 of convert-inl.h.
__m256i rounded(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512i kept = _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x00400000));
  return _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, kept, 16));
}

__m512bh pairs(__m512i units) { return reinterpret_cast<__m512bh>(units); }

template <int kRows, int kVectors>
void finish(const ConvolutionTile& t, int64_t first, __m512 (&sums)[kRows][kVectors]) {
  if (!t.out) {
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(t.sums + (first + i) * t.width + 16 * j, sums[i][j]);
    return;
  }
  RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    const int64_t left = t.columns - 16 * j;
    if (left <= 0) break;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1);
    const __m512 bias = t.bias ? _mm512_maskz_loadu_ps(mask, t.bias + 16 * j) : _mm512_setzero_ps();
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m512 value = t.bias ? _mm512_add_ps(sums[i][j], bias) : sums[i][j];
      char* to = t.out[first + i] + t.out_offset;
      if (t.type == DType::kF32)
        _mm512_mask_storeu_ps(to + 64 * j, mask, value);
      else
        _mm256_mask_storeu_epi16(to + 32 * j, mask, rounded(value));
    }
  }
}

/// kRows rows from `first` on.
template <int kRows, int kVectors>
void tile(const ConvolutionTile& t, int64_t first) {
  __m512 sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_setzero_ps();
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const char* const* reads = t.reads + tap * t.reads_stride + first;
    const char* a[kRows];
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) a[i] = reads[i] + t.reads_offset;
    const uint32_t* b = t.panel + t.tap_units[tap];
    for (int64_t k = 0; k < t.units; ++k, b += 16 * kVectors) {
      __m512bh row[kVectors];
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) row[j] = pairs(_mm512_loadu_si512(b + 16 * j));
      RAMET_UNROLL
      for (int i = 0; i < kRows; ++i) {
        int unit;
        __builtin_memcpy(&unit, a[i] + 4 * k, 4);
        const __m512bh pair = pairs(_mm512_set1_epi32(unit));
        RAMET_UNROLL
        for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], pair, row[j]);
      }
    }
  }
  finish<kRows, kVectors>(t, first, sums);
}

template <int kRows, int kVectors>
void strip(const StripTile& t) {
  __m512 sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_loadu_ps(t.c + i * t.c_stride + 16 * j);
  for (int64_t s = 0; s < t.strips; ++s) {
    const uint32_t *a = t.a + t.a_rows[s] * t.a_row, *b = t.b + t.b_rows[s] * t.b_row;
    for (int64_t k = 0; k < t.units; ++k, a += t.a_step, b += t.b_step) {
      __m512bh row[kVectors];
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) row[j] = pairs(_mm512_loadu_si512(b + 16 * j));
      RAMET_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const __m512bh pair = pairs(_mm512_set1_epi32(static_cast<int>(a[i])));
        RAMET_UNROLL
        for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], pair, row[j]);
      }
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(t.c + i * t.c_stride + 16 * j, sums[i][j]);
}

/// The last rows, at most kMost.
template <int kVectors, int kMost>
void last_rows(const ConvolutionTile& t, int64_t first) {
  if (t.rows - first == kMost)
    tile<kMost, kVectors>(t, first);
  else if constexpr (kMost > 1)
    last_rows<kVectors, kMost - 1>(t, first);
}

template <int kVectors, int kMost>
void of_rows(const ConvolutionTile& t) {
  int64_t first = 0;
  for (; first + kMost <= t.rows; first += kMost) tile<kMost, kVectors>(t, first);
  if (first < t.rows) last_rows<kVectors, kMost - 1>(t, first);
}

template <int kVectors, int kMost>
void of_rows(const StripTile& t) {
  if (t.rows == kMost)
    strip<kMost, kVectors>(t);
  else if constexpr (kMost > 1)
    of_rows<kVectors, kMost - 1>(t);
}

template <class Tile>
void of_width(const Tile& t) {
  switch (t.width) {
    case 64: return of_rows<4, 6>(t);
    case 48: return of_rows<3, 8>(t);
    case 32: return of_rows<2, 12>(t);
    default: return of_rows<1, 14>(t);
  }
}

}  // namespace

void convolution_tile_bf16(const ConvolutionTile& tile) { of_width(tile); }
void strip_tile_bf16(const StripTile& tile) { of_width(tile); }

}  // namespace ramet::kernel

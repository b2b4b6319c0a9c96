// GCC 12 warns of its own header: _mm512_undefined_epi32 is undefined on purpose (GCC's bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>

#include "ramet/kernel/cpu/strided_pairs.h"

namespace ramet::kernel {
namespace {

/// For places of 16 pairs: numbers [first, first + 16) of one row, and of the other one, in turns.
__m512i places_of_pairs(int first) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i upper = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
  return _mm512_or_si512(upper, _mm512_slli_epi32(_mm512_or_si512(upper, _mm512_set1_epi32(32)), 16));
}

}  // namespace

void pack_pairs(const uint16_t* from, int64_t stride, int64_t rows, int64_t columns, uint32_t* to) {
  const __m512i low = places_of_pairs(0), high = places_of_pairs(16), none = _mm512_setzero_si512();
  for (int64_t column = 0; column < columns; column += kPairColumns) {
    const int64_t count = std::min(kPairColumns, columns - column), width = (count + 15) / 16 * 16;
    const uint16_t* row = from + column;
    for (int64_t k = 0; k < rows; k += 2, row += 2 * stride, to += width)
      for (int64_t j = 0; j < width; j += 32) {
        const int64_t left = count - j;
        const __mmask32 kept = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
        const __m512i first = _mm512_maskz_loadu_epi16(kept, row + j);
        const __m512i second = k + 1 < rows ? _mm512_maskz_loadu_epi16(kept, row + stride + j) : none;
        _mm512_storeu_si512(to + j, _mm512_permutex2var_epi16(first, low, second));
        if (j + 16 < width) _mm512_storeu_si512(to + j + 16, _mm512_permutex2var_epi16(first, high, second));
      }
  }
}

}  // namespace ramet::kernel

#include <immintrin.h>

#include "ramet/kernel/cpu/attention_tile.h"
#include "ramet/kernel/cpu/unroll.h"

namespace ramet::kernel {
namespace {

template <int kRows, int kVectors>
void tile(const TileProduct& p, const uint32_t* a, const uint32_t* b, float* c) {
  __m512 sums[kRows][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j)
    sums[i][j] = p.add ? _mm512_loadu_ps(c + i * p.c_stride + 16 * j) : _mm512_setzero_ps();
  for (int64_t k = 0; k < p.k; ++k, b += kPanel) {
    __m512bh row[kVectors];
    RAMET_UNROLL
    for (int j = 0; j < kVectors; ++j) row[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16 * j));
    RAMET_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[i * p.a_stride + k])));
      RAMET_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], pair, row[j]);
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kRows; ++i) RAMET_UNROLL
  for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(c + i * p.c_stride + 16 * j, sums[i][j]);
}

template <int kVectors>
void panel(const TileProduct& p, const uint32_t* b, float* c) {
  int64_t i = 0;
  for (; i + 6 <= p.m; i += 6) tile<6, kVectors>(p, p.a + i * p.a_stride, b, c + i * p.c_stride);
  const uint32_t* a = p.a + i * p.a_stride;
  c += i * p.c_stride;
  switch (p.m - i) {
    case 5: return tile<5, kVectors>(p, a, b, c);
    case 4: return tile<4, kVectors>(p, a, b, c);
    case 3: return tile<3, kVectors>(p, a, b, c);
    case 2: return tile<2, kVectors>(p, a, b, c);
    case 1: return tile<1, kVectors>(p, a, b, c);
    default: return;
  }
}

}  // namespace

void tile_product_avx512bf16(const TileProduct& p) {
  const uint32_t* b = p.b;
  float* c = p.c;
  int64_t left = p.n;
  for (; left >= kPanel; left -= kPanel, b += p.panel_stride, c += kPanel) panel<4>(p, b, c);
  if (left == 48) panel<3>(p, b, c);
  if (left == 32) panel<2>(p, b, c);
  if (left == 16) panel<1>(p, b, c);
}

}  // namespace ramet::kernel

#include <immintrin.h>

#include <cstdint>

#include "ramet/kernel/cpu/unroll.h"

namespace ramet::kernel {

double fma_loop_bf16(int64_t rounds) {
  constexpr int kChains = 12;
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  const __m512bh ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x00010001));
  for (int64_t round = 0; round < rounds; ++round) RAMET_UNROLL
  for (auto& sum : sums) {
    sum = _mm512_dpbf16_ps(sum, ones, ones);
    asm volatile("" : "+v"(sum));  // each is done, in a register
  }
  return static_cast<double>(rounds) * kChains * 16 * 4;
}

}  // namespace ramet::kernel

// Compiled with AVX2 and F16C (cmake/isa.cmake), called only where the processor has them.
#include <immintrin.h>

#include <cstring>

#include "ramet/device/host_work.h"

namespace ramet::device {

void add_f16_avx2(uint16_t* to, const uint16_t* from, int64_t count) {
  const auto add = [](const uint16_t* a, const uint16_t* b, uint16_t* sum) {
    const __m256 left = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
                 right = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sum),
                     _mm256_cvtps_ph(_mm256_add_ps(left, right), _MM_FROUND_TO_NEAREST_INT));
  };
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) add(to + i, from + i, to + i);
  if (i == count) return;
  uint16_t a[8] = {}, b[8] = {};
  const auto bytes = static_cast<size_t>(count - i) * sizeof(uint16_t);
  std::memcpy(a, to + i, bytes);
  std::memcpy(b, from + i, bytes);
  add(a, b, a);
  std::memcpy(to + i, a, bytes);
}

}  // namespace ramet::device

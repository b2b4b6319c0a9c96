#pragma once

// Numbers of a random stream, the same as base/rng.h: normal ones in double, without the library's functions.

#include "philox.cuh"

namespace ramet_device {

/// Natural logarithm of x in (0, 1].
__device__ inline double logarithm_of_unit(double x) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
  int exponent = static_cast<int>(bits >> 52) - 1022;  // x = 2^exponent m with m in [1/2, 1)
  double m = __longlong_as_double(static_cast<long long>((bits & 0x000fffffffffffffull) | 0x3fe0000000000000ull));
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  RAMET_UNROLL
  for (int k = 21; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
  constexpr double kHigh = 0x1.62e42fefa38p-1, kLow = 0x1.ef35793c7673p-45;
  return exponent * kHigh + (2 * s + (2 * s * series + exponent * kLow));
}

/// Cosine (or, with `sine`, sine) of 2 pi word / 2^32.
__device__ inline double cosine_of_turn(unsigned word, bool sine) {
  const unsigned quarter = (word + 0x20000000u) >> 30;
  const double x = static_cast<int>(word - (quarter << 30)) * (0x1.921fb54442d18p+2 * 0x1p-32);
  const double square = x * x;
  const bool swapped = ((quarter & 1u) != 0u) != sine;  // the series of the sine
  double series = 1;
  if (swapped) {
    for (int k = 17; k >= 3; k -= 2) series = 1 - series * square / (k * (k - 1));
    series *= x;
  } else {
    for (int k = 18; k >= 2; k -= 2) series = 1 - series * square / (k * (k - 1));
  }
  // By quarters, cosine: c, -s, -c, s; sine: s, c, -s, -c.
  const unsigned turned = sine ? quarter & 3u : (quarter + 1u) & 3u;
  return turned >= 2u ? -series : series;
}

/// RandomStream::normal of base/rng.h.
__device__ inline double normal_of(const RandomStream& stream, unsigned long long element) {
  const uint4 words = stream.block(element / 4);
  const bool second = element & 2u;
  const double radius = __dsqrt_rn(-2 * logarithm_of_unit(((second ? words.z : words.x) + 1.0) * 0x1p-32));
  return radius * cosine_of_turn(second ? words.w : words.y, element & 1u);
}

}  // namespace ramet_device

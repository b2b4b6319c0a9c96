#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ramet/base/shape.h"

namespace ramet::ops {

// Sums of squares of f32 values without any rounding, so that neither order nor grouping shows (after Kulisch's long
// accumulator). A sum is kExactDigits digits of 32 bits, least first: digit k counts 2^(32 k - 298), 2^-298 being the
// square of the least f32. A square has at most 48 bits, so that 2^48 elements of any size fit. Two further integers
// count infinities and NaNs. Accumulators may be added integer by integer in any order: digits then exceed 32 bits
// until exact_normalize carries. The canonical form (digits in [0, 2^32)) of a sum is unique.

inline constexpr int kExactDigits = 19, kExactInfinities = 19, kExactNaNs = 20, kExactIntegers = 21;
inline constexpr int kExactLeastExponent = -298;

/// An accumulator in a graph: i64[kExactIntegers].
inline TensorType exact_type() { return {DType::kI64, Shape{kExactIntegers}}; }

/// Adds value * 2^(shift - 298), 0 <= shift < 512.
inline void exact_add(int64_t* sum, uint64_t value, int shift) {
  constexpr uint64_t kDigit = 0xffffffffu;
  const uint64_t low = (value & kDigit) << (shift % 32), high = (value >> 32) << (shift % 32);
  int64_t* digit = sum + shift / 32;
  digit[0] += static_cast<int64_t>(low & kDigit);
  digit[1] += static_cast<int64_t>((low >> 32) + (high & kDigit));
  digit[2] += static_cast<int64_t>(high >> 32);
}

/// Where the square of an f32 with these exponent bits (not 255) stands: its 24-bit integer squared counts
/// 2^(shift - 298). Denormals and the least normal numbers stand alike.
inline int exact_shift(uint32_t exponent) { return exponent == 0 ? 0 : 2 * static_cast<int>(exponent) - 2; }

inline void exact_add_square(int64_t* sum, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
  if (exponent == 255) {
    sum[fraction ? kExactNaNs : kExactInfinities] += 1;
    return;
  }
  const uint64_t whole = fraction | (exponent ? 0x800000u : 0u);
  exact_add(sum, whole * whole, exact_shift(exponent));
}

/// Carries; digits that are sums of fewer than 2^31 canonical ones become canonical.
inline void exact_normalize(int64_t* sum) {
  int64_t carry = 0;
  for (int k = 0; k + 1 < kExactDigits; ++k) {
    const int64_t value = sum[k] + carry;
    sum[k] = value & 0xffffffff;
    carry = value >> 32;
  }
  sum[kExactDigits - 1] += carry;
}

/// The sum rounded once to the nearest f32 (ties to even); infinity beyond its range.
inline float exact_value(const int64_t* accumulator) {
  if (accumulator[kExactNaNs] != 0) return std::numeric_limits<float>::quiet_NaN();
  if (accumulator[kExactInfinities] != 0) return std::numeric_limits<float>::infinity();
  int64_t sum[kExactIntegers];
  for (int k = 0; k < kExactIntegers; ++k) sum[k] = accumulator[k];
  exact_normalize(sum);
  int top = kExactDigits - 1;
  while (top > 0 && sum[top] == 0) --top;
  // Two digits hold at least 33 significant bits; what lies below only matters as being something or nothing.
  uint64_t window = static_cast<uint64_t>(sum[top]) << 32 | static_cast<uint64_t>(top > 0 ? sum[top - 1] : 0);
  int exponent = 32 * (top - 1) + kExactLeastExponent;
  bool rest = false;
  for (int k = 0; k + 1 < top; ++k) rest = rest || sum[k] != 0;
  if (window >> 53) {
    rest = rest || (window & 0x7ff) != 0;
    window >>= 11;
    exponent += 11;
  }
  return static_cast<float>(std::ldexp(static_cast<double>(window | (rest ? 1 : 0)), exponent));
}

}  // namespace ramet::ops

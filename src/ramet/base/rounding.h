#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "ramet/base/dtype.h"
#include "ramet/base/house.h"

namespace ramet {

// How numbers are rounded to narrower formats, for every backend. A format's finite numbers are k x 2^(e -
// mantissa_bits) with e >= 1 - bias; those with e = 1 - bias and k < 2^mantissa_bits are its subnormals.
//
// To nearest: the nearer of the two neighbours; of two equally near ones, the even one.
// Stochastic: let f be the place of |x| between its neighbours k and k + 1, from 0 to 1. The upper neighbour is taken
// when (draw + 1/2) / 2^16 < f, where `draw` has 16 uniform bits. So the probability is f exactly where f has at most
// 16 bits (bf16 and normal f16 from f32), and f to the nearest 2^-16 elsewhere. A number that the format can represent
// does not change. A result beyond the largest finite number becomes infinite, or NaN in a format without infinity;
// with `saturate`, it and infinities become the largest finite number. NaN stays NaN.

/// A narrow binary float: its widths, its bias, and whether the top exponent is for infinity and NaN alone.
struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  bool ieee;  ///< false: OCP's E4M3, where only all ones is NaN and nothing is infinite

  constexpr int width() const { return exponent_bits + mantissa_bits; }
  constexpr int least_exponent() const { return 1 - bias; }
  constexpr uint32_t nan() const {
    const uint32_t ones = (1u << width()) - 1;
    return ieee ? (ones & ~((1u << mantissa_bits) - 1)) | 1u << (mantissa_bits - 1) : ones;
  }
  /// What overflow gives without saturation.
  constexpr uint32_t infinity() const { return ieee ? nan() & ~(1u << (mantissa_bits - 1)) : nan(); }
  constexpr uint32_t largest() const { return infinity() - 1; }
};

/// Of f16, bf16, f8e4m3 or f8e5m2; any other type is an internal error.
const FloatFormat& format_of(DType dtype);
/// Whether `format_of` knows the type.
inline bool is_narrow(DType dtype) { return is_floating(dtype) && size_of(dtype) < 4; }
/// The least positive number with all mantissa bits.
double smallest_normal(DType dtype);

/// The code of `value` in a narrow type, to nearest.
uint32_t round_nearest(double value, DType dtype, bool saturate = false);
/// The code of `value` in a narrow type, stochastic.
uint32_t round_stochastic(double value, DType dtype, uint16_t draw, bool saturate = false);

/// An f32 number as a bf16 and 16 further bits, from which the number can be restored. The bf16 is the number rounded
/// to nearest; of two equally near ones, the one further from 0. (With rounding to even, two f32 numbers could share a
/// bf16, and a 17th bit would be needed to restore them.) NaN stays NaN.
struct SplitFloat {
  uint16_t high, low;
};
inline SplitFloat split_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Beyond the last finite number carries into infinity, which the low half takes back; NaN's must not wrap.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u), 0};
  return {static_cast<uint16_t>((bits + 0x8000u) >> 16), static_cast<uint16_t>(bits)};
}
inline float join_f32(SplitFloat halves) {
  const uint32_t low = halves.low;
  return std::bit_cast<float>((static_cast<uint32_t>(halves.high) << 16) + low - (low & 0x8000u) * 2);
}

}  // namespace ramet

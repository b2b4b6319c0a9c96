#pragma once

#include <bit>
#include <cstdint>

#include "ramet/base/shape.h"

namespace ramet::ops {

// Histograms of exponents: how many elements of a tensor have which power of two, as f32 sees them. Counts are
// integers, so that neither order nor grouping shows. Bin 0 counts zeros, bin 150 + e those in [2^e, 2^(e+1)) of either
// sign for e from -149 (the least f32) to 127, the last two bins infinities and NaNs.

inline constexpr int kLeastExponent = -149, kMostExponent = 127;
inline constexpr int kZeroBin = 0, kInfinityBin = 278, kNanBin = 279, kExponentBins = 280;

/// A histogram in a graph: i64[kExponentBins].
inline TensorType histogram_type() { return {DType::kI64, Shape{kExponentBins}}; }

/// Bin of the numbers in [2^exponent, 2^(exponent+1)); infinities' above the range, the least below it.
constexpr int bin_of_exponent(int exponent) {
  return exponent > kMostExponent ? kInfinityBin : (exponent < kLeastExponent ? kLeastExponent : exponent) + 150;
}

inline int exponent_bin(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7fffffffu, exponent = bits >> 23;
  if (bits == 0) return kZeroBin;
  if (exponent == 255) return bits == 0x7f800000u ? kInfinityBin : kNanBin;
  return exponent == 0 ? std::bit_width(bits) : static_cast<int>(exponent) + 23;
}

/// Elements that are not 0: what shares are taken of, since a layout may pad with zeros.
inline int64_t counted(const int64_t* histogram) {
  int64_t sum = 0;
  for (int bin = 1; bin < kExponentBins; ++bin) sum += histogram[bin];
  return sum;
}
/// Of these, such as are 2^exponent or more; infinities and NaNs are among them.
inline int64_t counted_from(const int64_t* histogram, int exponent) {
  int64_t sum = 0;
  for (int bin = bin_of_exponent(exponent); bin < kExponentBins; ++bin) sum += histogram[bin];
  return sum;
}
/// Of these, such as are less than 2^exponent.
inline int64_t counted_below(const int64_t* histogram, int exponent) {
  return counted(histogram) - counted_from(histogram, exponent);
}

}  // namespace ramet::ops

#include "ramet/kernel/hopper/product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::kernel {
namespace {

constexpr int kFraction = 25;         // fractional bits of the terms of a step
constexpr int kLeastExponent = -126;  // of f32, of bf16, and of zero of any type

/// A number as significand * 2^(exponent - digits), where the type has `digits` bits behind the point.
struct Parts {
  int64_t significand = 0;
  int exponent = kLeastExponent;
  bool special = false;  ///< infinite or NaN
};

Parts parts_of(uint32_t bits, int digits, int exponent_bits) {
  const uint32_t field = bits >> digits & ((1u << exponent_bits) - 1), fraction = bits & ((1u << digits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  Parts parts;
  parts.special = field == (1u << exponent_bits) - 1;
  const int64_t magnitude = field ? fraction | 1u << digits : fraction;
  if (magnitude) parts.exponent = static_cast<int>(field ? field : 1) - bias;
  parts.significand = bits >> (digits + exponent_bits) & 1 ? -magnitude : magnitude;
  return parts;
}

Parts parts_of(HopperType type, uint16_t bits) {
  return type == HopperType::kBf16 ? parts_of(bits, 7, 8) : parts_of(bits, 10, 5);
}

double value_of(HopperType type, uint16_t bits) {
  if (type == HopperType::kBf16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const Parts parts = parts_of(type, bits);
  if (!parts.special) return std::ldexp(static_cast<double>(parts.significand), parts.exponent - 10);
  if (bits & 1023) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(std::numeric_limits<double>::infinity(), static_cast<double>(parts.significand));
}

/// The sum of a step with infinite terms or NaN.
float special_sum(HopperType type, const uint16_t* a, const uint16_t* b, float c) {
  double sum = c;
  for (int k = 0; k < kHopperStep; ++k) sum += value_of(type, a[k]) * value_of(type, b[k]);
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffffu) : static_cast<float>(sum);
}

/// A term of the sum: significand * 2^(exponent - digits), in units of 2^(most - kFraction), cut towards zero.
int64_t aligned(int64_t significand, int exponent, int digits, int most) {
  const int64_t magnitude = std::abs(significand) << (kFraction - digits);
  const int64_t cut = most - exponent > 31 ? 0 : magnitude >> (most - exponent);
  return significand < 0 ? -cut : cut;
}

/// sum * 2^exponent, cut towards zero to f32.
float cut_to_f32(int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(std::abs(sum));
  const int top = 63 - std::countl_zero(magnitude), leading = top + exponent;
  const float sign = sum < 0 ? -1.0f : 1.0f;
  if (leading > 127) return sign * std::numeric_limits<float>::infinity();
  const int kept = leading >= kLeastExponent ? 23 : 23 - (kLeastExponent - leading);  // bits behind the leading one
  if (kept < 0) return 0;
  const int dropped = std::max(0, top - kept);
  return sign * std::ldexp(static_cast<float>(magnitude >> dropped), exponent + dropped);
}

/// The values of a step: `count` units that are `stride` apart, then zeros.
void gather(const uint32_t* units, int64_t stride, int64_t count, uint16_t* values) {
  for (int64_t unit = 0; unit < kHopperStep / 2; ++unit) {
    const uint32_t pair = unit < count ? units[unit * stride] : 0;
    values[2 * unit] = static_cast<uint16_t>(pair);
    values[2 * unit + 1] = static_cast<uint16_t>(pair >> 16);
  }
}

}  // namespace

float hopper_step(HopperType type, const uint16_t* a, const uint16_t* b, float c) {
  const int digits = type == HopperType::kBf16 ? 14 : 20;  // of a product
  const Parts start = parts_of(std::bit_cast<uint32_t>(c), 23, 8);
  bool special = start.special;
  int most = start.exponent, exponents[kHopperStep];
  int64_t significands[kHopperStep];
  for (int k = 0; k < kHopperStep; ++k) {
    const Parts x = parts_of(type, a[k]), y = parts_of(type, b[k]);
    special = special || x.special || y.special;
    significands[k] = x.significand * y.significand;
    exponents[k] = x.exponent + y.exponent;
    most = std::max(most, exponents[k]);
  }
  if (special) return special_sum(type, a, b, c);
  int64_t sum = aligned(start.significand, start.exponent, 23, most);
  for (int k = 0; k < kHopperStep; ++k) sum += aligned(significands[k], exponents[k], digits, most);
  return cut_to_f32(sum, most - kFraction);
}

void hopper_product_plain(HopperType type, const TileProduct& p) {
  uint16_t a[kHopperStep], b[kHopperStep];
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      const uint32_t* column = p.b + j / kPanel * p.panel_stride + j % kPanel;
      float& to = p.c[i * p.c_stride + j];
      float sum = p.add ? to : 0.0f;
      for (int64_t k = 0; k < p.k; k += kHopperStep / 2) {
        gather(p.a + i * p.a_stride + k, 1, p.k - k, a);
        gather(column + k * kPanel, kPanel, p.k - k, b);
        sum = hopper_step(type, a, b, sum);
      }
      to = sum;
    }
}

void hopper_product(HopperType type, const TileProduct& product) {
  if (cpu_level() >= CpuLevel::kAvx512) return hopper_product_avx512(type, product);
  hopper_product_plain(type, product);
}

#if !defined(__x86_64__)
void hopper_product_avx512(HopperType, const TileProduct&) {
  internal_error("hopper_product_avx512", "no such instructions here");
}
#endif

}  // namespace ramet::kernel

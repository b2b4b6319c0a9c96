#include "ramet/base/rounding.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"

namespace ramet {
namespace {

constexpr FloatFormat kF16Format{5, 10, 15, true};
constexpr FloatFormat kBF16Format{8, 7, 127, true};
constexpr FloatFormat kE4M3Format{4, 3, 7, false};
constexpr FloatFormat kE5M2Format{5, 2, 15, true};

/// `up(k, fraction)` says whether k + fraction becomes k + 1. From double, of which every float is one: so that both
/// round once.
template <typename Up>
uint32_t encode(double value, const FloatFormat& format, bool saturate, const Up& up) {
  const uint32_t sign = static_cast<uint32_t>(std::signbit(value)) << format.width();
  if (std::isnan(value)) return sign | format.nan();
  const uint32_t over = sign | (saturate ? format.largest() : format.infinity());
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const int largest = (1 << format.exponent_bits) - 1 - format.bias;
  if (std::isinf(value) || std::ilogb(magnitude) > largest) return over;  // so that k stays small
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent());
  const double scaled = std::ldexp(magnitude, format.mantissa_bits - exponent);  // exact
  const double whole = std::floor(scaled);
  const uint32_t k = static_cast<uint32_t>(whole) + up(static_cast<uint32_t>(whole), scaled - whole);
  // Codes count the numbers from 0 on: one exponent further, k begins again at 2^mantissa_bits.
  const uint32_t code = (static_cast<uint32_t>(exponent - format.least_exponent()) << format.mantissa_bits) + k;
  return code > format.largest() ? over : sign | code;
}

}  // namespace

const FloatFormat& format_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return kF16Format;
    case DType::kBF16: return kBF16Format;
    case DType::kF8E4M3: return kE4M3Format;
    case DType::kF8E5M2: return kE5M2Format;
    default: internal_error("format_of", std::string(name_of(dtype)) + " is no narrow float");
  }
}

double smallest_normal(DType dtype) {
  if (dtype == DType::kF64) return 0x1p-1022;
  return dtype == DType::kF32 ? 0x1p-126 : std::ldexp(1.0, format_of(dtype).least_exponent());
}

uint32_t round_nearest(double value, DType dtype, bool saturate) {
  return encode(value, format_of(dtype), saturate, [](uint32_t k, double fraction) {
    return static_cast<uint32_t>(fraction > 0.5 || (fraction == 0.5 && (k & 1)));
  });
}

uint32_t round_stochastic(double value, DType dtype, uint16_t draw, bool saturate) {
  const double limit = (draw + 0.5) * 0x1p-16;
  return encode(value, format_of(dtype), saturate,
                [limit](uint32_t, double fraction) { return static_cast<uint32_t>(limit < fraction); });
}

}  // namespace ramet

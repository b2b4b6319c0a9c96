#include "ramet/kernel/cpu/scalar_math.h"

#include <bit>
#include <limits>

namespace ramet::kernel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Nearest integer, halves to even, of |x| < 2^51: adding 1.5 * 2^52 leaves no room for a fraction.
double nearest(double x) {
  volatile double shifted = x + 0x1.8p52;
  return shifted - 0x1.8p52;
}

/// Logarithm to base 2 of x > 0, as double: 2 artanh(s) by its series.
double log2_of(double x) {
  if (x == kInfinity) return kInfinity;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;  // every f32 is a normal double
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z + 1.0 / k;
  return exponent + 2 * s * series * 1.4426950408889634;
}

double exp2_of(double x) {
  if (x > 200) return kInfinity;
  if (x < -200) return 0;
  const double n = nearest(x);
  const double r = (x - n) * 0.69314718055994531;
  double series = 1;
  for (int k = 14; k >= 1; --k) series = series * r / k + 1;
  return series * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

/// 0: no integer, 1: odd, 2: even.
int parity(float b) {
  const float a = b < 0 ? -b : b;
  if (a >= 0x1p24f) return 2;
  const auto whole = static_cast<int32_t>(a);
  return static_cast<float>(whole) != a ? 0 : whole % 2 ? 1 : 2;
}

/// Fraction bits of 2/pi, 32 a word.
constexpr uint32_t kTwoOverPi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

/// |x| >= 2^23 = mantissa 2^shift: the product with 2/pi, of which 192 bits from the one that still counts quarter
/// turns (after Payne and Hanek, "Radian reduction for trigonometric functions", 1983).
double reduce_large(uint32_t mantissa, int shift, int32_t* quarters) {
  // Bits of 2/pi before `first` only add whole turns.
  const int first = shift > 2 ? shift - 2 : 0;
  uint32_t words[4];
  for (int i = 0; i < 4; ++i) {
    const int word = first / 32 + i, bit = first % 32;  // at most 6: no shift of a float is above 104
    const uint64_t next = word < 6 ? kTwoOverPi[word + 1] : 0;
    const uint64_t pair = static_cast<uint64_t>(kTwoOverPi[word]) << 32 | next;  // NOLINT(clang-analyzer-core.*)
    words[i] = static_cast<uint32_t>(pair << bit >> 32);
  }
  // words is a fixed-point fraction with weight 2^-first for its leading unit; times the mantissa, modulo 4 quarters.
  uint64_t carry = 0;
  uint32_t product[4];
  for (int i = 3; i >= 0; --i) {
    carry += static_cast<uint64_t>(words[i]) * mantissa;
    product[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  const int up = shift - first;  // 0..2 whole bits of quarter turns beyond the binary point
  const uint64_t high = carry << 32 | product[0];
  const auto turns = static_cast<uint32_t>(high << up >> 32);
  const uint64_t fraction = (high << 32 | product[1]) << up | static_cast<uint64_t>(product[2]) >> (32 - up);
  const auto signed_fraction = static_cast<int64_t>(fraction);  // [-1/2, 1/2): to the nearest quarter
  *quarters = static_cast<int32_t>((turns + (fraction >> 63)) & 3);
  return static_cast<double>(signed_fraction) * 0x1p-64 * 1.5707963267948966;
}

}  // namespace

float reduce_quarter_turns(float x, int32_t* quarters) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  *quarters = 0;
  if ((bits & 0x7f800000u) == 0x7f800000u) return kNan;
  const double wide = x;
  if (x < 0x1p24f && x > -0x1p24f) {
    constexpr double kHigh = 0x1.921fb54p+0, kLow = 0x1.10b4611a62633p-30;  // high times n is exact
    const double n = nearest(wide * 0.63661977236758134);
    *quarters = static_cast<int32_t>(n) & 3;
    if (n == 0) return x;
    return static_cast<float>((wide - n * kHigh) - n * kLow);
  }
  const int shift = static_cast<int>(bits >> 23 & 0xff) - 150;
  int32_t magnitude_quarters;
  const double rest = reduce_large((bits & 0x7fffff) | 0x800000, shift, &magnitude_quarters);
  *quarters = (x < 0 ? -magnitude_quarters : magnitude_quarters) & 3;
  return static_cast<float>(x < 0 ? -rest : rest);
}

float fmod_of(float a, float b) {
  if (a != a || b != b || a - a != 0 || b == 0) return kNan;
  if (b - b != 0) return a;
  const double size = b < 0 ? -static_cast<double>(b) : b;
  double rest = a < 0 ? -static_cast<double>(a) : a;
  // Both have 24 bits, so that a multiple of `size` by up to 2^28 is exact, and so is every difference. The divisor is
  // scaled up to within 2^28 of what is left.
  while (rest >= size) {
    const int64_t exponent = static_cast<int64_t>(std::bit_cast<uint64_t>(rest) >> 52) -
                             static_cast<int64_t>(std::bit_cast<uint64_t>(size) >> 52);
    const int64_t up = exponent > 27 ? exponent - 27 : 0;
    const double unit = size * std::bit_cast<double>(static_cast<uint64_t>(up + 1023) << 52);
    const auto times = static_cast<double>(static_cast<int64_t>(rest / unit));
    rest -= times * unit;
    if (rest < 0) rest += unit;  // the quotient was rounded up to a whole number
  }
  const auto result = static_cast<float>(rest);
  return std::bit_cast<uint32_t>(a) >> 31 ? -result : result;
}

float remainder_of(float a, float b) {
  const float rest = fmod_of(a, b);
  if (rest != rest || rest == 0 || (rest < 0) == (b < 0)) return rest;
  return static_cast<float>(static_cast<double>(rest) + b);
}

float floor_quotient_of(float a, float b) {
  const float plain = a / b;
  if (b == 0 || plain - plain != 0) return plain;
  const float rest = remainder_of(a, b);
  if (rest != rest) return rest;
  // a less its rest is a multiple of b; the quotient is exact where f32 can tell, and rounded once.
  const double whole = (static_cast<double>(a) - rest) / b;
  return static_cast<float>(whole < 0x1p51 && whole > -0x1p51 ? nearest(whole) : whole);
}

float power_of(float a, float b) {
  if (b == 0 || a == 1) return 1;
  if (a != a || b != b) return kNan;
  const bool finite_exponent = b - b == 0;
  const int kind = finite_exponent ? parity(b) : 2;
  const float magnitude = a < 0 ? -a : a;
  const bool negative = std::bit_cast<uint32_t>(a) >> 31;
  if (a < 0 && a - a == 0 && kind == 0) return kNan;
  double result;
  if (magnitude == 1)
    result = 1;
  else if (magnitude == 0)
    result = b < 0 ? kInfinity : 0;
  else
    result = exp2_of(log2_of(magnitude) * b);
  const auto rounded = static_cast<float>(result);
  return negative && kind == 1 ? -rounded : rounded;
}

}  // namespace ramet::kernel

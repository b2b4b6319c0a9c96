#include "ramet/base/plain_math.h"

#include <bit>
#include <cstdint>

namespace ramet {

double plain_cos_pi(double x) {
  if (x > 0.5) return -plain_cos_pi(1 - x);
  const double angle = 3.141592653589793 * x, square = angle * angle;
  double sum = 0;
  for (int k = 24; k >= 2; k -= 2) sum = (1 + sum) * (-square / static_cast<double>(k * (k - 1)));
  return 1 + sum;
}

double plain_log(double x) {
  int exponent = 0;
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
  double mantissa = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (mantissa > 1.4142135623730951) mantissa /= 2, ++exponent;
  const double z = (mantissa - 1) / (mantissa + 1), square = z * z;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1 / static_cast<double>(k);
  return 2 * z * sum + exponent * 0.6931471805599453;
}

double plain_exp(double x) {
  if (x < -700) return 0;
  const auto halvings = static_cast<int>(-x / 0.6931471805599453);
  const double rest = x + halvings * 0.6931471805599453;
  double sum = 0;
  for (int k = 22; k >= 1; --k) sum = (1 + sum) * rest / static_cast<double>(k);
  return (1 + sum) * std::bit_cast<double>(static_cast<uint64_t>(1023 - halvings) << 52);
}

double bias_correction(double beta, int64_t step) {
  // By squaring: at most 64 products, always in the same order.
  double power = 1, square = beta;
  for (uint64_t n = static_cast<uint64_t>(step) + 1; n > 0; n >>= 1) {
    if (n & 1) power *= square;
    square *= square;
  }
  return 1 - power;
}

}  // namespace ramet

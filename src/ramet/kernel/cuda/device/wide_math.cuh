#pragma once

// Elementary functions of f32 that are computed in double and rounded once, bit for bit those of the CPU's kernels
// (kernel/cpu/math_wide-inl.h). A NaN stays one.

#include "math.cuh"

namespace ramet_device {

__device__ __forceinline__ double wide_polynomial(double, double last) { return last; }
template <class... Rest>
__device__ __forceinline__ double wide_polynomial(double x, double first, Rest... rest) {
  return __fma_rn(wide_polynomial(x, rest...), x, first);
}

__device__ __forceinline__ double wide_infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
__device__ __forceinline__ double wide_nan() { return __longlong_as_double(0x7ff8000000000000ll); }

/// e^x of |x| <= 160; beyond, as of the bound.
__device__ inline double wide_exp(double x) {
  const double least = x > -160.0 ? x : -160.0, held = least < 160.0 ? least : 160.0;
  constexpr double kShift = 0x1.8p52 + 1023;
  const double shifted = __fma_rn(held, 0x1.71547652b82fep+0, kShift);
  const double n = shifted - kShift;
  const double power = __longlong_as_double(
      static_cast<long long>(static_cast<unsigned long long>(__double_as_longlong(shifted)) << 52));
  const double r = __fma_rn(-n, 0x1.62e42fefa39efp-1, held);
  return wide_polynomial(r, 1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                         1.0 / 362880, 1.0 / 3628800) *
         power;
}

/// Natural logarithm of a positive normal number.
__device__ inline double wide_log(double x) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
  const long long e = static_cast<long long>(bits - 0x3fe6a09e667f3bcdull) >> 52;
  const double m = __longlong_as_double(static_cast<long long>(bits - (static_cast<unsigned long long>(e) << 52)));
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  const double series = wide_polynomial(z, 2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15);
  return __fma_rn(static_cast<double>(e), 0x1.62e42fefa39efp-1, s * series);
}

/// log(1 + u), u > -1.
__device__ inline double wide_log1p(double u) {
  const double w = 1.0 + u, t = w - 1.0;
  return t == 0.0 ? u : wide_log(w) * (u / t);
}

/// Logarithm to another base, `factor` = 1 / ln(base), of any number.
__device__ inline double wide_log_to(double x, double factor) {
  if (x < 0.0) return wide_nan();
  if (x == 0.0) return -wide_infinity();
  return x == wide_infinity() ? x : wide_log(x) * factor;
}
__device__ inline float log2_of(float x) {
  return is_nan(x) ? x : static_cast<float>(wide_log_to(x, 0x1.71547652b82fep+0));
}
__device__ inline float log10_of(float x) {
  return is_nan(x) ? x : static_cast<float>(wide_log_to(x, 0x1.bcb7b1526e50ep-2));
}
__device__ inline float exp2_of(float x) {
  if (is_nan(x)) return x;
  const float held = at_most(at_least(x, -200.0f), 200.0f);
  return static_cast<float>(wide_exp(held * 0x1.62e42fefa39efp-1));
}

__device__ inline float sinh_of(float value) {
  if (is_nan(value)) return value;
  const double x = value, z = x * x;
  if (fabsf(value) < 0.5f)
    return static_cast<float>(x * wide_polynomial(z, 1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880));
  const double e = wide_exp(x);
  return static_cast<float>(0.5 * (e - 1.0 / e));
}
__device__ inline float cosh_of(float x) {
  if (is_nan(x)) return x;
  const double e = wide_exp(x);
  return static_cast<float>(0.5 * (e + 1.0 / e));
}
__device__ inline float asinh_of(float x) {
  if (is_nan(x) || fabsf(x) == infinity()) return x;
  const double a = fabsf(x), square = a * a;
  const double root = __dsqrt_rn(square + 1.0);
  return copysignf(static_cast<float>(wide_log1p(a + square / (root + 1.0))), x);
}
__device__ inline float acosh_of(float value) {
  if (is_nan(value) || value == infinity()) return value;
  if (value < 1.0f) return not_a_number();
  const double x = value, t = x - 1.0;
  return static_cast<float>(wide_log1p(t + __dsqrt_rn(t * (x + 1.0))));
}
__device__ inline float atanh_of(float x) {
  if (is_nan(x)) return x;
  const double a = fabsf(x);
  if (a > 1.0) return not_a_number();
  if (a == 1.0) return copysignf(infinity(), x);
  return copysignf(static_cast<float>(0.5 * wide_log1p((a + a) / (1.0 - a))), x);
}

/// Arc tangent of a >= 0.
__device__ inline double wide_atan_positive(double a) {
  const bool middle = a > 0.41421356237309503, far = a > 2.4142135623730950;
  const double top = far ? -1.0 : middle ? a - 1.0 : a;
  const double bottom = far ? a : middle ? a + 1.0 : 1.0;
  const double offset = far ? 1.5707963267948966 : middle ? 0.78539816339744831 : 0.0;
  const double r = top / bottom, z = r * r;
  const double p =
      wide_polynomial(z, -0x1.5555555502188p-2, 0x1.99999825954bep-3, -0x1.2491c08b2dc95p-3, 0x1.c6f68737bd590p-4,
                      -0x1.71d3c10805470p-4, 0x1.24434e877a5ddp-4, -0x1.4b3891ff382b2p-5);
  return offset + __fma_rn(r * z, p, r);
}
__device__ inline float atan_of(float x) {
  return is_nan(x) ? x : copysignf(static_cast<float>(wide_atan_positive(fabsf(x))), x);
}
__device__ inline float asin_of(float x) {
  if (is_nan(x)) return x;
  const double a = fabsf(x);
  if (a > 1.0) return not_a_number();
  const double cosine = __dsqrt_rn((1.0 - a) * (1.0 + a));
  return copysignf(static_cast<float>(wide_atan_positive(a / cosine)), x);
}
__device__ inline float acos_of(float value) {
  if (is_nan(value)) return value;
  if (fabsf(value) > 1.0f) return not_a_number();
  const double x = value, half = wide_atan_positive(__dsqrt_rn((1.0 - x) / (1.0 + x)));
  return static_cast<float>(half + half);
}
/// The angle of the point (x, y).
__device__ inline float atan2_of(float y, float x) {
  if (is_nan(y) || is_nan(x)) return not_a_number();
  double high = fabsf(y), wide = fabsf(x);
  if (high == wide_infinity() && wide == wide_infinity())
    high = wide = 1.0;
  else if (high == 0.0 && wide == 0.0)
    wide = 1.0;
  const double angle = wide_atan_positive(high / wide);
  const bool left = __float_as_uint(x) >> 31 != 0u;
  return copysignf(static_cast<float>(left ? 3.1415926535897931 - angle : angle), y);
}
__device__ inline float hypot_of(float a, float b) {
  if (fabsf(a) == infinity() || fabsf(b) == infinity()) return infinity();
  const double x = a, y = b;
  return static_cast<float>(__dsqrt_rn(__fma_rn(x, x, y * y)));
}

/// 1 - erf(x).
__device__ inline float erfc_of(float x) {
  if (is_nan(x)) return x;
  const double size = fabsf(x), a = size < 10.2 ? size : 10.2;
  const double sum = a + 3.0, t = (a - 3.0) / sum;
  const double p = wide_polynomial(
      t, 0x1.12f21ddd7c035p+0, -0x1.c44c472103c1fp-1, 0x1.2e32696f3def3p-1, -0x1.3deb1ef42722ap-2, 0x1.e995d567b5b2ap-4,
      -0x1.b78bf815d66e5p-6, -0x1.3dab08c8e9d93p-10, 0x1.8e3623aee4740p-9, -0x1.1f6e0d42ba3fdp-11,
      -0x1.2f84a462b67bbp-12, 0x1.9c97cf74e1b7ap-14, 0x1.6cafc52e2f985p-15, 0x1.732140683fb21p-20);
  const double tail = wide_exp(-(a * a)) * (p / sum);
  return static_cast<float>(x < 0.0f ? 2.0 - tail : tail);
}

constexpr double kPi = 3.14159265358979323846;

/// sin(pi r) and cos(pi r) of |r| <= 1/2.
__device__ inline double wide_sin_of_turn(double r) {
  const double x = r * kPi, z = x * x;
  return x * wide_polynomial(z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                             -1.0 / 1307674368000);
}
__device__ inline double wide_cos_of_turn(double r) {
  const double x = r * kPi, z = x * x;
  return wide_polynomial(z, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                         -1.0 / 87178291200, 1.0 / 20922789888000);
}

/// log |Gamma(x)| of x > 0.
__device__ inline double wide_lgamma_positive(double x) {
  double y = x, product = 1.0;
  for (int i = 0; i < 8; ++i)
    if (y < 8.0) product *= y, y += 1.0;
  const double u = 1.0 / y, z = u * u;
  const double series =
      u * wide_polynomial(z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156);
  const double main = __fma_rn(y - 0.5, wide_log(y), -y);
  const double log_product = product != 1.0 ? wide_log(product) : 0.0;
  return ((main + 0.91893853320467274178) + series) - log_product;
}
__device__ inline float lgamma_of(float value) {
  if (is_nan(value)) return value;
  const double x = value;
  if (fabsf(value) == infinity()) return infinity();
  if (x == 1.0 || x == 2.0) return 0.0f;
  const double turn = x - rint(x), r = turn < 0.0 ? -turn : turn;
  if (x <= 0.0 && r == 0.0) return infinity();
  const double positive = wide_lgamma_positive(x < 0.0 ? 1.0 - x : x);
  if (!(x < 0.0)) return static_cast<float>(positive);
  return static_cast<float>((1.1447298858494002 - wide_log(wide_sin_of_turn(r))) - positive);
}

__device__ inline double wide_digamma_positive(double x) {
  double y = x, sum = 0.0;
  for (int i = 0; i < 8; ++i)
    if (y < 8.0) sum += 1.0 / y, y += 1.0;
  const double u = 1.0 / y, z = u * u;
  const double series =
      z * wide_polynomial(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12);
  return ((wide_log(y) - 0.5 * u) - series) - sum;
}
/// The derivative of log Gamma.
__device__ inline float digamma_of(float value) {
  if (is_nan(value) || value == infinity()) return value;
  const double x = value;
  if (x == 0.0) return copysignf(infinity(), -value);
  const double r = x - rint(x);
  if (value == -infinity() || (x < 0.0 && r == 0.0)) return not_a_number();
  const double positive = wide_digamma_positive(x < 0.0 ? 1.0 - x : x);
  if (!(x < 0.0)) return static_cast<float>(positive);
  return static_cast<float>(__fma_rn(-kPi, wide_cos_of_turn(r) / wide_sin_of_turn(r), positive));
}

__device__ inline double wide_trigamma_positive(double x) {
  double y = x, sum = 0.0;
  for (int i = 0; i < 8; ++i)
    if (y < 8.0) {
      const double u = 1.0 / y;
      sum += u * u, y += 1.0;
    }
  const double u = 1.0 / y, z = u * u;
  const double series =
      z * wide_polynomial(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  return sum + u * (1.0 + __fma_rn(0.5, u, series));
}
/// The derivative of digamma.
__device__ inline float trigamma_of(float value) {
  if (is_nan(value)) return value;
  if (value == infinity()) return 0.0f;
  if (value == -infinity()) return not_a_number();
  const double x = value, r = x - rint(x);
  if (x == 0.0 || (x < 0.0 && r == 0.0)) return infinity();
  const double positive = wide_trigamma_positive(x < 0.0 ? 1.0 - x : x);
  if (!(x < 0.0)) return static_cast<float>(positive);
  const double cosecant = kPi / wide_sin_of_turn(r);
  return static_cast<float>(cosecant * cosecant - positive);
}

/// Sine over cosine of the rest of a reduction by quarter turns.
__device__ inline float tan_of(float x) {
  const QuarterTurns reduced = reduce_quarter_turns(x);
  const double turn = reduced.rest * (1 / kPi);
  const double sine = wide_sin_of_turn(turn), cosine = wide_cos_of_turn(turn);
  const double result = reduced.quarters & 1 ? -cosine / sine : sine / cosine;
  return x == 0.0f ? x : static_cast<float>(result);  // -0 stays
}

}  // namespace ramet_device

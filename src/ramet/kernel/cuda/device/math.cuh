#pragma once

// Elementary functions of f32, bit for bit those of the CPU's kernels (kernel/cpu/math-inl.h and scalar_math.h): the
// same polynomials in the same order, fused where those fuse and nowhere else. Their errors are stated there. A NaN
// stays one, with whatever payload. 1 / x is __frcp_rn(x), which is cheaper than a division and rounds as it does.

#include "kernel.cuh"

namespace ramet_device {

__device__ __forceinline__ float polynomial(float, float last) { return last; }
/// c0 + x c1 + x^2 c2 + ... by Horner's rule.
template <class... Rest>
__device__ __forceinline__ float polynomial(float x, float first, Rest... rest) {
  return __fmaf_rn(polynomial(x, rest...), x, first);
}

/// x, at most (at least) `bound`; NaN stays.
__device__ __forceinline__ float at_most(float x, float bound) { return x > bound ? bound : x; }
__device__ __forceinline__ float at_least(float x, float bound) { return x < bound ? bound : x; }

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }
__device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7fc00000u); }
__device__ __forceinline__ bool is_nan(float x) { return x != x; }

/// 1 / x, correctly rounded, of x in [2^-100, 2^100], and of NaN: what __frcp_rn does there, without its branch.
__device__ __forceinline__ float reciprocal_of_middle(float x) {
#ifdef RAMET_FAKE_CUDA
  return 1.0f / x;
#else
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
  return __fmaf_rn(near, -__fmaf_rn(near, x, -1.0f), near);
#endif
}

constexpr float kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f, kLog2E = 0x1.715476p+0f;
/// Added to a small number it leaves the nearest whole one in the low bits.
constexpr float kWholeShift = 0x1.8p23f;

/// x = n ln 2 + r, and the power 2^(n + offset) by its bits.
struct ExpParts {
  float r, n, power;
};
template <int kOffset = 0>
__device__ __forceinline__ ExpParts exp_parts(float x) {
  constexpr float kShift = kWholeShift + 127 + kOffset;
  const float shifted = __fmaf_rn(x, kLog2E, kShift);
  const float n = shifted - kShift;
  const float power = __uint_as_float(__float_as_uint(shifted) << 23);
  return {__fmaf_rn(-n, kLn2Low, __fmaf_rn(-n, kLn2High, x)), n, power};
}

/// e^r of a reduced r.
__device__ __forceinline__ float exp_of_rest(float r) {
  const float p = polynomial(r, 0.5f, 0x1.55548ep-3f, 0x1.5554cap-5f, 0x1.123c3cp-7f, 0x1.6d6f1ap-10f);
  return 1.0f + __fmaf_rn(r * r, p, r);
}

/// e^x.
__device__ __forceinline__ float exp_of(float x) {
  const float held = at_least(at_most(x, 89.0f), -104.5f);
  const float shifted = __fmaf_rn(held, kLog2E, kWholeShift);
  const float n = shifted - kWholeShift;
  const float r = __fmaf_rn(-n, kLn2Low, __fmaf_rn(-n, kLn2High, held));
  // Two factors, so that neither leaves the range of exponents.
  const int whole = static_cast<int>(__float_as_uint(shifted) - __float_as_uint(kWholeShift));
  const int half = whole >> 1;
  const float first = __uint_as_float(static_cast<unsigned>(half + 127) << 23);
  const float second = __uint_as_float((static_cast<unsigned>(whole) - static_cast<unsigned>(half) + 127u) << 23);
  return exp_of_rest(r) * first * second;
}

/// e^x of x <= 88: as exp_of, cheaper; results below 2^-126 are 0.
__device__ __forceinline__ float exp_negative(float x) {
  const ExpParts parts = exp_parts(x);
  const float result = exp_of_rest(parts.r) * parts.power;
  return x < -87.33654f ? 0.0f : result;
}

/// e^x - 1.
__device__ __forceinline__ float expm1_of(float x) {
  const float held = at_least(at_most(x, 89.0f), -30.0f);
  const ExpParts parts = exp_parts<-1>(held);
  const float r = parts.r;
  const float p = polynomial(r, 0.5f, 0x1.555556p-3f, 0x1.5554f6p-5f, 0x1.111004p-7f, 0x1.6d3cecp-10f, 0x1.a242f8p-13f);
  const float rest = __fmaf_rn(r * r, p, r);
  const float sum = __fmaf_rn(parts.power, rest, parts.power - 0.5f);
  if (parts.n == 0.0f) return x == 0.0f ? x : rest;  // -0 stays
  return sum + sum;
}

/// Natural logarithm.
__device__ __forceinline__ float log_of(float x) {
  const bool small = x < 0x1p-126f;
  const float scaled = small ? x * 0x1p25f : x;
  const unsigned bits = __float_as_uint(scaled);
  const int e = static_cast<int>(bits - 0x3f3504f3u) >> 23;
  const float m = __uint_as_float(bits - (static_cast<unsigned>(e) << 23));
  const float n = static_cast<float>(e) - (small ? 25.0f : 0.0f);
  const float f = m - 1.0f;
  const float s = __fdiv_rn(f, f + 2.0f);
  const float z = s * s;
  const float r = z * polynomial(z, 0x1.555554p-1f, 0x1.999c26p-2f, 0x1.23d3fep-2f, 0x1.f1308cp-3f);
  const float h = 0.5f * (f * f);
  const float low = __fmaf_rn(s, h + r, n * kLn2Low);
  float result = __fmaf_rn(n, kLn2High, f - (h - low));
  if (x == 0.0f) result = -infinity();
  if (x == infinity()) result = infinity();
  if (x < 0.0f) result = not_a_number();
  return is_nan(x) ? x : result;
}

/// log(1 + x).
__device__ __forceinline__ float log1p_of(float x) {
  const float u = x + 1.0f;
  const float c = x >= 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  const float plain = log_of(u);
  if (u == 1.0f) return x;
  return u == 0.0f || u == infinity() ? plain : plain + __fdiv_rn(c, u);
}

/// Hyperbolic tangent.
__device__ __forceinline__ float tanh_of(float x) {
  const float a = at_most(fabsf(x), 10.0f);
  const float z = a * a;
  const float p =
      polynomial(z, -0x1.555554p-2f, 0x1.111076p-3f, -0x1.b9f038p-5f, 0x1.6392b0p-6f, -0x1.0bf224p-7f, 0x1.18686ap-9f);
  const float small = __fmaf_rn(z * a, p, a);
  const ExpParts parts = exp_parts(a + a);
  const float large = 1.0f - 2.0f * reciprocal_of_middle(__fmaf_rn(exp_of_rest(parts.r), parts.power, 1.0f));
  return copysignf(a < 0.625f ? small : large, x);
}

/// 1 / (1 + e^-x), and one less it: each to full precision from one exponential.
struct SigmoidParts {
  float upper, lower;  ///< of |x|
};
__device__ __forceinline__ SigmoidParts sigmoid_parts(float x) {
  const float e = exp_negative(-fabsf(x));
  const float upper = reciprocal_of_middle(1.0f + e);
  return {upper, e * upper};
}
__device__ __forceinline__ float sigmoid_of(float x) {
  const SigmoidParts parts = sigmoid_parts(x);
  return x < 0.0f ? parts.lower : parts.upper;
}

/// log(1 + x) of x in [0, 1].
__device__ __forceinline__ float log1p_of_share(float x) {
  const float p = polynomial(x, -0x1.ffffd2p-2f, 0x1.554df0p-2f, -0x1.ff26e2p-3f, 0x1.935ca0p-3f, -0x1.3a7a82p-3f,
                             0x1.b579bep-4f, -0x1.d86316p-5f, 0x1.4b0822p-6f, -0x1.b2f55ep-9f);
  return __fmaf_rn(x * x, p, x);
}

/// log(1 + e^x).
__device__ __forceinline__ float softplus_of(float x) {
  return (x < 0.0f ? 0.0f : x) + log1p_of_share(exp_of(-fabsf(x)));
}

/// The normal distribution at x >= 0: its density times sqrt(2 pi), and its tail.
struct NormalTail {
  float density, tail;
};
__device__ __forceinline__ NormalTail normal_tail(float x) {
  const float held = at_most(x, 14.0f);
  const float e = exp_negative(held * (held * -0.5f));
  const float u = reciprocal_of_middle(held + 4.0f);
  const float t = __fmaf_rn(-u, 8.0f, 1.0f);
  const float p = polynomial(t, 0x1.82b4bcp-1f, -0x1.373e3ap-1f, 0x1.8c6d76p-2f, -0x1.7dff66p-3f, 0x1.eee1acp-5f,
                             -0x1.ed9040p-8f, -0x1.cfb9b2p-9f, 0x1.9c1accp-10f, 0x1.c04a82p-13f, -0x1.dfbc42p-14f);
  return {e, e * (u * p)};
}

/// Gauss's error function.
__device__ __forceinline__ float erf_of(float x) {
  const float a = at_most(fabsf(x), 6.0f);
  const float z = a * a;
  const float p = polynomial(z, 0x1.06eba8p-3f, -0x1.812740p-2f, 0x1.ce2d74p-4f, -0x1.b8044ap-6f, 0x1.5482a0p-8f,
                             -0x1.a99294p-11f, 0x1.6981f6p-14f, -0x1.217f0ap-19f);
  const NormalTail normal = normal_tail(a * 1.41421356f);
  const float large = __fmaf_rn(-2.0f, normal.tail, 1.0f);
  const float small = __fmaf_rn(a, p, a);
  return copysignf(a < 1.0f ? small : large, x);
}

/// The standard normal distribution.
__device__ __forceinline__ float normal_cdf(float x) {
  const float tail = normal_tail(fabsf(x)).tail;
  return x < 0.0f ? tail : 1.0f - tail;
}

/// x normal_cdf(x), and its derivative.
__device__ __forceinline__ float gelu_of(float x) { return at_least(x, -14.0f) * normal_cdf(x); }
__device__ __forceinline__ float gelu_slope(float x) {
  const float a = fabsf(x);
  const NormalTail normal = normal_tail(a);
  const float cdf = x < 0.0f ? normal.tail : 1.0f - normal.tail;
  const float held = a > 14.0f ? 0.0f : x;
  return __fmaf_rn(held * 0x1.988454p-2f, normal.density, cdf);
}

constexpr float kTwoSqrt2OverPi = 0x1.988454p+0f, kGeluCubic = 0.044715f;
constexpr float kGeluInner = kTwoSqrt2OverPi * kGeluCubic, kGeluOuter = 3 * kTwoSqrt2OverPi * kGeluCubic;

/// GELU in its tanh approximation, and its derivative.
__device__ __forceinline__ float gelu_tanh_of(float x) {
  const float held = at_least(x, -14.0f);
  return held * sigmoid_of(held * __fmaf_rn(held * held, kGeluInner, kTwoSqrt2OverPi));
}
__device__ __forceinline__ float gelu_tanh_slope(float x) {
  const float held = at_least(at_most(x, 14.0f), -14.0f);
  const float square = held * held;
  const float inner = held * __fmaf_rn(square, kGeluInner, kTwoSqrt2OverPi);
  const float slope = __fmaf_rn(square, kGeluOuter, kTwoSqrt2OverPi);
  const SigmoidParts parts = sigmoid_parts(inner);
  const float s = inner < 0.0f ? parts.lower : parts.upper;
  return __fmaf_rn(held * slope, parts.upper * parts.lower, s);
}

/// x sigmoid(x), where -infinity gives -0; and its derivative.
__device__ __forceinline__ float silu_of(float x) { return at_least(x, -110.0f) * sigmoid_of(x); }
__device__ __forceinline__ float silu_slope(float x) {
  const SigmoidParts parts = sigmoid_parts(x);
  const float held = parts.lower == 0.0f ? 0.0f : x;
  return __fmaf_rn(held, parts.upper * parts.lower, x < 0.0f ? parts.lower : parts.upper);
}

__device__ __forceinline__ float rsqrt_of(float x) { return __frcp_rn(__fsqrt_rn(x)); }

/// log(e^a + e^b); equal infinities stay.
__device__ __forceinline__ float log_add_exp(float a, float b) {
  const float most = a > b || is_nan(a) ? a : b;
  const float gap = a == b ? 0.0f : -fabsf(a - b);
  return most + log1p_of(exp_of(gap));
}

// --- functions by way of double ---

/// Nearest integer, halves to even, of |x| < 2^51.
__device__ __forceinline__ double nearest_whole(double x) {
  const double shifted = x + 0x1.8p52;
  return shifted - 0x1.8p52;
}

/// An argument less the nearest multiple `quarters` (modulo 4) of pi/2.
struct QuarterTurns {
  float rest;
  int quarters;
};

/// |x| >= 2^23, by the bits of 2/pi that still count.
__device__ inline double reduce_large_turns(unsigned mantissa, int shift, int* quarters) {
  constexpr unsigned kTwoOverPi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                     0xdb629599, 0x3c439041, 0xfe5163ab};
  const int first = shift > 2 ? shift - 2 : 0;
  // Words `first / 32` to that + 4, without an array that is indexed: each pass drops one from the front.
  unsigned window[5] = {};
  RAMET_UNROLL
  for (int start = 0; start < 4; ++start)
    if (first / 32 == start) {
      RAMET_UNROLL
      for (int i = 0; i < 5; ++i) window[i] = start + i < 7 ? kTwoOverPi[start + i] : 0;
    }
  const int bit = first % 32;
  unsigned long long carry = 0;
  unsigned product[4];
  RAMET_UNROLL
  for (int i = 3; i >= 0; --i) {
    const unsigned long long pair = static_cast<unsigned long long>(window[i]) << 32 | window[i + 1];
    carry += static_cast<unsigned long long>(static_cast<unsigned>(pair << bit >> 32)) * mantissa;
    product[i] = static_cast<unsigned>(carry);
    carry >>= 32;
  }
  const int up = shift - first;
  const unsigned long long high = carry << 32 | product[0];
  const auto turns = static_cast<unsigned>(high << up >> 32);
  const unsigned long long fraction =
      (high << 32 | product[1]) << up | static_cast<unsigned long long>(product[2]) >> (32 - up);
  *quarters = static_cast<int>((turns + static_cast<unsigned>(fraction >> 63)) & 3u);
  return static_cast<double>(static_cast<long long>(fraction)) * 0x1p-64 * 1.5707963267948966;
}

__device__ inline QuarterTurns reduce_quarter_turns(float x) {
  const unsigned bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return {not_a_number(), 0};
  const double wide = x;
  if (x < 0x1p24f && x > -0x1p24f) {
    constexpr double kHigh = 0x1.921fb54p+0, kLow = 0x1.10b4611a62633p-30;
    const double n = nearest_whole(wide * 0.63661977236758134);
    const int quarters = static_cast<int>(n) & 3;
    return {n == 0 ? x : static_cast<float>((wide - n * kHigh) - n * kLow), quarters};
  }
  int quarters;
  const double rest =
      reduce_large_turns((bits & 0x7fffffu) | 0x800000u, static_cast<int>(bits >> 23 & 0xffu) - 150, &quarters);
  return {static_cast<float>(x < 0 ? -rest : rest), (x < 0 ? -quarters : quarters) & 3};
}

/// Sine (turn 0) or cosine (turn 1).
__device__ inline float sine_turned(float x, int turn) {
  const QuarterTurns reduced = reduce_quarter_turns(x);
  const float r = reduced.rest;
  const int quarter = reduced.quarters + turn;
  const float z = r * r;
  const float sine =
      __fmaf_rn(z * r, polynomial(z, -0x1.555556p-3f, 0x1.111176p-7f, -0x1.a05b8ap-13f, 0x1.7cbfd4p-19f), r);
  const float cosine =
      __fmaf_rn(z * z, polynomial(z, 0x1.555556p-5f, -0x1.6c1760p-10f, 0x1.a073c2p-16f, -0x1.3694f8p-22f),
                __fmaf_rn(-0.5f, z, 1.0f));
  const unsigned sign = static_cast<unsigned>(quarter & 2) << 30;
  const float result = __uint_as_float(__float_as_uint(quarter & 1 ? cosine : sine) ^ sign);
  return turn == 0 && x == 0.0f ? x : result;  // -0 stays
}

/// Logarithm to base 2 of x > 0, as double: 2 artanh(s) by its series.
__device__ inline double log2_of_double(double x) {
  if (x > 0x1p1000) return x;  // infinity
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = __longlong_as_double(static_cast<long long>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull));
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 0;
  RAMET_UNROLL
  for (int k = 21; k >= 1; k -= 2) series = series * z + 1.0 / k;
  return exponent + 2 * s * series * 1.4426950408889634;
}

__device__ inline double exp2_of_double(double x) {
  if (x > 200) return infinity();
  if (x < -200) return 0;
  const double n = nearest_whole(x);
  const double r = (x - n) * 0.69314718055994531;
  double series = 1;
  RAMET_UNROLL
  for (int k = 14; k >= 1; --k) series = series * r / k + 1;
  return series * __longlong_as_double((static_cast<long long>(n) + 1023) << 52);
}

/// a to the power b with C's special values.
__device__ inline float power_of(float a, float b) {
  if (b == 0.0f || a == 1.0f) return 1.0f;
  if (is_nan(a) || is_nan(b)) return not_a_number();
  const float size = fabsf(b);
  const bool whole = size >= 0x1p24f || truncf(size) == size;
  const bool odd = size < 0x1p24f && whole && (static_cast<int>(size) & 1);
  const float magnitude = fabsf(a);
  if (a < 0.0f && magnitude != infinity() && !whole) return not_a_number();
  double result;
  if (magnitude == 1.0f)
    result = 1;
  else if (magnitude == 0.0f)
    result = b < 0.0f ? infinity() : 0;
  else
    result = exp2_of_double(log2_of_double(magnitude) * b);
  const auto rounded = static_cast<float>(result);
  return __float_as_uint(a) >> 31 && odd ? -rounded : rounded;
}

/// The exact rest of a / b with the quotient cut towards zero; rounded to f32.
__device__ inline float fmod_of(float a, float b) {
  if (is_nan(a) || is_nan(b) || fabsf(a) == infinity() || b == 0.0f) return not_a_number();
  if (fabsf(b) == infinity()) return a;
  const double size = fabsf(b);
  double rest = fabsf(a);
  while (rest >= size) {
    const long long exponent = (__double_as_longlong(rest) >> 52) - (__double_as_longlong(size) >> 52);
    const long long up = exponent > 27 ? exponent - 27 : 0;
    const double unit = size * __longlong_as_double((up + 1023) << 52);
    const auto times = static_cast<double>(static_cast<long long>(rest / unit));
    rest -= times * unit;
    if (rest < 0) rest += unit;  // the quotient was rounded up to a whole number
  }
  const auto result = static_cast<float>(rest);
  return __float_as_uint(a) >> 31 ? -result : result;
}

/// The same with the quotient rounded down.
__device__ inline float remainder_of(float a, float b) {
  const float rest = fmod_of(a, b);
  if (is_nan(rest) || rest == 0.0f || (rest < 0.0f) == (b < 0.0f)) return rest;
  return static_cast<float>(static_cast<double>(rest) + b);
}

/// The exact quotient rounded down to a whole number, then to f32.
__device__ inline float floor_quotient_of(float a, float b) {
  const float plain = __fdiv_rn(a, b);
  if (b == 0.0f || !(fabsf(plain) < infinity())) return plain;
  const float rest = remainder_of(a, b);
  if (is_nan(rest)) return rest;
  const double whole = (static_cast<double>(a) - rest) / b;
  return static_cast<float>(whole < 0x1p51 && whole > -0x1p51 ? nearest_whole(whole) : whole);
}

}  // namespace ramet_device

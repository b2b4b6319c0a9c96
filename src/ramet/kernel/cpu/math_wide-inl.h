// Elementary functions of f32 numbers that are computed in f64 vectors and rounded once, without libm: for functions
// that models use too seldom to be worth an algorithm in f32. Each is right within the error that
// tests/kernel/math_test.cc measures, most within 0.51 ulp of f32: the polynomials and series are right to 1e-10 of the
// result. Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_MATH_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_MATH_WIDE_INL_H_
#undef RAMET_MATH_WIDE_INL_H_
#else
#define RAMET_MATH_WIDE_INL_H_
#endif

#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
template <class D, class V, class F>
HWY_INLINE V InWide(D d, V a, V b, const F& function) {
  const hn::Rebind<double, D> dd;
  // Highway's one-lane conversion holds infinities within the range.
  return hn::Set(d, static_cast<float>(hn::GetLane(function(dd, hn::PromoteTo(dd, a), hn::PromoteTo(dd, b)))));
}
#else
/// function(f64 tag, a, b) of each half of the vectors, as f32.
template <class D, class V, class F>
HWY_INLINE V InWide(D d, V a, V b, const F& function) {
  const hn::Half<D> half;
  const hn::Rebind<double, hn::Half<D>> dd;
  const auto low = function(dd, hn::PromoteTo(dd, hn::LowerHalf(half, a)), hn::PromoteTo(dd, hn::LowerHalf(half, b)));
  const auto high = function(dd, hn::PromoteTo(dd, hn::UpperHalf(half, a)), hn::PromoteTo(dd, hn::UpperHalf(half, b)));
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}
#endif

/// The same of one operand; NaN stays.
#define RAMET_WIDE(Name, Wide)                                                                    \
  template <class D, class V>                                                                     \
  HWY_INLINE V Name(D d, V x) {                                                                   \
    const V result = InWide(d, x, x, [](auto dd, auto a, auto) HWY_ATTR { return Wide(dd, a); }); \
    return hn::IfThenElse(hn::IsNaN(x), x, result);                                               \
  }

template <class D, class V>
HWY_INLINE V WidePolynomial(D d, V, double last) {
  return hn::Set(d, last);
}
template <class D, class V, class... Rest>
HWY_INLINE V WidePolynomial(D d, V x, double first, Rest... rest) {
  return hn::MulAdd(WidePolynomial(d, x, rest...), x, hn::Set(d, first));
}

/// e^x of |x| <= 160 (beyond, as of the bound): the Taylor polynomial of the rest of a reduction by ln 2.
template <class D, class V>
HWY_INLINE V WideExp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V held = hn::Min(hn::Max(x, hn::Set(d, -160.0)), hn::Set(d, 160.0));
  const V shift = hn::Set(d, 0x1.8p52 + 1023);
  const V shifted = hn::MulAdd(held, hn::Set(d, 0x1.71547652b82fep+0), shift);
  const V n = hn::Sub(shifted, shift);
  const V power = hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(di, shifted)));
  const V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e42fefa39efp-1), held);
  const V series = WidePolynomial(d, r, 1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
                                  1.0 / 40320, 1.0 / 362880, 1.0 / 3628800);
  return hn::Mul(series, power);
}

/// Natural logarithm of a positive normal number, by the series of 2 artanh.
template <class D, class V>
HWY_INLINE V WideLog(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto e = hn::ShiftRight<52>(hn::Sub(bits, hn::Set(di, int64_t{0x3fe6a09e667f3bcd})));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(e)));
  const V one = hn::Set(d, 1.0), s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), z = hn::Mul(s, s);
  const V series = WidePolynomial(d, z, 2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15);
  return hn::MulAdd(hn::ConvertTo(d, e), hn::Set(d, 0x1.62e42fefa39efp-1), hn::Mul(s, series));
}

/// log(1 + u), u > -1: what rounding 1 + u lost is made good by the quotient (Kahan's way).
template <class D, class V>
HWY_INLINE V WideLog1p(D d, V u) {
  const V one = hn::Set(d, 1.0), w = hn::Add(one, u), t = hn::Sub(w, one);
  const auto small = hn::Eq(t, hn::Zero(d));
  return hn::IfThenElse(small, u, hn::Mul(WideLog(d, w), hn::Div(u, hn::IfThenElse(small, one, t))));
}

/// Logarithm to another base, `factor` = 1 / ln(base), of any number.
template <class D, class V>
HWY_INLINE V WideLogTo(D d, V x, double factor) {
  const V zero = hn::Zero(d), infinity = hn::Inf(d);
  V result = hn::Mul(WideLog(d, x), hn::Set(d, factor));
  result = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), result);
  result = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), result);
  return hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
}
template <class D, class V>
HWY_INLINE V WideLog2(D d, V x) {
  return WideLogTo(d, x, 0x1.71547652b82fep+0);
}
template <class D, class V>
HWY_INLINE V WideLog10(D d, V x) {
  return WideLogTo(d, x, 0x1.bcb7b1526e50ep-2);
}
template <class D, class V>
HWY_INLINE V WideExp2(D d, V x) {
  const V held = hn::Min(hn::Max(x, hn::Set(d, -200.0)), hn::Set(d, 200.0));
  return WideExp(d, hn::Mul(held, hn::Set(d, 0x1.62e42fefa39efp-1)));
}

/// Below 1/2 the series of Taylor, whose first term left out is 1e-11 of the result.
template <class D, class V>
HWY_INLINE V WideSinh(D d, V x) {
  const V e = WideExp(d, x), half = hn::Set(d, 0.5), z = hn::Mul(x, x);
  const V large = hn::Mul(half, hn::Sub(e, hn::Div(hn::Set(d, 1.0), e)));
  const V small = hn::Mul(x, WidePolynomial(d, z, 1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), half), small, large);
}
template <class D, class V>
HWY_INLINE V WideCosh(D d, V x) {
  const V e = WideExp(d, x);
  return hn::Mul(hn::Set(d, 0.5), hn::Add(e, hn::Div(hn::Set(d, 1.0), e)));
}
template <class D, class V>
HWY_INLINE V WideAsinh(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0), square = hn::Mul(a, a);
  const V root = hn::Sqrt(hn::Add(square, one));
  const V result = WideLog1p(d, hn::Add(a, hn::Div(square, hn::Add(root, one))));
  return hn::CopySign(hn::IfThenElse(hn::Eq(a, hn::Inf(d)), a, result), x);
}
template <class D, class V>
HWY_INLINE V WideAcosh(D d, V x) {
  const V one = hn::Set(d, 1.0), t = hn::Sub(x, one);
  const V result = WideLog1p(d, hn::Add(t, hn::Sqrt(hn::Mul(t, hn::Add(x, one)))));
  const V known = hn::IfThenElse(hn::Eq(x, hn::Inf(d)), x, result);
  return hn::IfThenElse(hn::Lt(x, one), hn::NaN(d), known);
}
template <class D, class V>
HWY_INLINE V WideAtanh(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0);
  const auto inside = hn::Lt(a, one);
  const V held = hn::IfThenElseZero(inside, a);
  const V result = hn::Mul(hn::Set(d, 0.5), WideLog1p(d, hn::Div(hn::Add(held, held), hn::Sub(one, held))));
  const V edge = hn::IfThenElse(hn::Eq(a, one), hn::Inf(d), hn::NaN(d));
  return hn::CopySign(hn::IfThenElse(inside, result, edge), x);
}

/// Arc tangent of a >= 0: beyond tan(pi/8) by the arc tangents of (a - 1) / (a + 1) and -1 / a.
template <class D, class V>
HWY_INLINE V WideAtanPositive(D d, V a) {
  const V one = hn::Set(d, 1.0);
  const auto middle = hn::Gt(a, hn::Set(d, 0.41421356237309503)), far = hn::Gt(a, hn::Set(d, 2.4142135623730950));
  const V top = hn::IfThenElse(far, hn::Neg(one), hn::IfThenElse(middle, hn::Sub(a, one), a));
  const V bottom = hn::IfThenElse(far, a, hn::IfThenElse(middle, hn::Add(a, one), one));
  const V offset =
      hn::IfThenElse(far, hn::Set(d, 1.5707963267948966), hn::IfThenElseZero(middle, hn::Set(d, 0.78539816339744831)));
  const V r = hn::Div(top, bottom), z = hn::Mul(r, r);
  const V p = WidePolynomial(d, z, -0x1.5555555502188p-2, 0x1.99999825954bep-3, -0x1.2491c08b2dc95p-3,
                             0x1.c6f68737bd590p-4, -0x1.71d3c10805470p-4, 0x1.24434e877a5ddp-4, -0x1.4b3891ff382b2p-5);
  return hn::Add(offset, hn::MulAdd(hn::Mul(r, z), p, r));
}
template <class D, class V>
HWY_INLINE V WideAtan(D d, V x) {
  return hn::CopySign(WideAtanPositive(d, hn::Abs(x)), x);
}
template <class D, class V>
HWY_INLINE V WideAsin(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0);
  const V cosine = hn::Sqrt(hn::Mul(hn::Sub(one, a), hn::Add(one, a)));  // NaN beyond 1
  const V result = WideAtanPositive(d, hn::Div(a, cosine));
  return hn::IfThenElse(hn::Gt(a, one), hn::NaN(d), hn::CopySign(result, x));
}
/// 2 atan(sqrt((1 - x) / (1 + x))), which loses nothing near 1.
template <class D, class V>
HWY_INLINE V WideAcos(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const V half = WideAtanPositive(d, hn::Sqrt(hn::Div(hn::Sub(one, x), hn::Add(one, x))));
  return hn::IfThenElse(hn::Gt(hn::Abs(x), one), hn::NaN(d), hn::Add(half, half));
}
/// The angle of the point (x, y), with C's special values but for NaN.
template <class D, class V>
HWY_INLINE V WideAtan2(D d, V y, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), infinity = hn::Inf(d);
  V high = hn::Abs(y), wide = hn::Abs(x);
  const auto both = hn::And(hn::Eq(high, infinity), hn::Eq(wide, infinity));
  high = hn::IfThenElse(both, one, high);
  wide = hn::IfThenElse(both, one, hn::IfThenElse(hn::And(hn::Eq(high, zero), hn::Eq(wide, zero)), one, wide));
  const V angle = WideAtanPositive(d, hn::Div(high, wide));
  const auto left = hn::Lt(hn::CopySign(one, x), zero);
  return hn::CopySign(hn::IfThenElse(left, hn::Sub(hn::Set(d, 3.1415926535897931), angle), angle), y);
}
template <class D, class V>
HWY_INLINE V WideHypot(D d, V a, V b) {
  const V infinity = hn::Inf(d);
  const auto far = hn::Or(hn::Eq(hn::Abs(a), infinity), hn::Eq(hn::Abs(b), infinity));
  return hn::IfThenElse(far, infinity, hn::Sqrt(hn::MulAdd(a, a, hn::Mul(b, b))));
}

/// 1 - erf(x): e^(-x^2) times a function that is smooth in t = (x - 3) / (x + 3), for x >= 0.
template <class D, class V>
HWY_INLINE V WideErfc(D d, V x) {
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 10.2)), three = hn::Set(d, 3.0);
  const V sum = hn::Add(a, three), t = hn::Div(hn::Sub(a, three), sum);
  const V p = WidePolynomial(d, t, 0x1.12f21ddd7c035p+0, -0x1.c44c472103c1fp-1, 0x1.2e32696f3def3p-1,
                             -0x1.3deb1ef42722ap-2, 0x1.e995d567b5b2ap-4, -0x1.b78bf815d66e5p-6, -0x1.3dab08c8e9d93p-10,
                             0x1.8e3623aee4740p-9, -0x1.1f6e0d42ba3fdp-11, -0x1.2f84a462b67bbp-12,
                             0x1.9c97cf74e1b7ap-14, 0x1.6cafc52e2f985p-15, 0x1.732140683fb21p-20);
  const V tail = hn::Mul(WideExp(d, hn::Neg(hn::Mul(a, a))), hn::Div(p, sum));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), tail), tail);
}

constexpr double kPi = 3.14159265358979323846;

/// sin(pi r) and cos(pi r) of |r| <= 1/2, by Taylor.
template <class D, class V>
HWY_INLINE V WideSinOfTurn(D d, V r) {
  const V x = hn::Mul(r, hn::Set(d, kPi)), z = hn::Mul(x, x);
  return hn::Mul(x, WidePolynomial(d, z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                   1.0 / 6227020800, -1.0 / 1307674368000));
}
template <class D, class V>
HWY_INLINE V WideCosOfTurn(D d, V r) {
  const V x = hn::Mul(r, hn::Set(d, kPi)), z = hn::Mul(x, x);
  return WidePolynomial(d, z, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                        -1.0 / 87178291200, 1.0 / 20922789888000);
}

/// log |Gamma(x)| of x > 0: Stirling's series from 8 on, below by Gamma(x + 1) = x Gamma(x).
template <class D, class V>
HWY_INLINE V WideLgammaPositive(D d, V x) {
  const V one = hn::Set(d, 1.0), eight = hn::Set(d, 8.0);
  V y = x, product = one;
  for (int i = 0; i < 8; ++i) {
    const auto below = hn::Lt(y, eight);
    product = hn::IfThenElse(below, hn::Mul(product, y), product);
    y = hn::IfThenElse(below, hn::Add(y, one), y);
  }
  const V u = hn::Div(one, y), z = hn::Mul(u, u);
  const V series = hn::Mul(
      u, WidePolynomial(d, z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156));
  const V main = hn::MulSub(hn::Sub(y, hn::Set(d, 0.5)), WideLog(d, y), y);
  const V log_product = hn::IfThenElseZero(hn::Ne(product, one), WideLog(d, product));
  return hn::Sub(hn::Add(hn::Add(main, hn::Set(d, 0.91893853320467274178)), series), log_product);
}
/// log |Gamma(x)|; infinity at 0 and the negative integers. By reflection below 0.
template <class D, class V>
HWY_INLINE V WideLgamma(D d, V x) {
  const V one = hn::Set(d, 1.0), infinity = hn::Inf(d), zero = hn::Zero(d);
  const auto negative = hn::Lt(x, zero);
  const V r = hn::Abs(hn::Sub(x, hn::Round(x)));
  const auto pole = hn::And(hn::Le(x, zero), hn::Eq(r, zero));
  const V held = hn::IfThenElse(hn::Eq(hn::Abs(x), infinity), one, x);
  const V positive = WideLgammaPositive(d, hn::IfThenElse(negative, hn::Sub(one, held), held));
  const V sine = WideSinOfTurn(d, hn::IfThenElse(pole, hn::Set(d, 0.5), r));
  const V reflected = hn::Sub(hn::Sub(hn::Set(d, 1.1447298858494002), WideLog(d, sine)), positive);
  V result = hn::IfThenElse(negative, reflected, positive);
  result = hn::IfThenElse(pole, infinity, result);
  result = hn::IfThenZeroElse(hn::Or(hn::Eq(x, one), hn::Eq(x, hn::Set(d, 2.0))), result);
  return hn::IfThenElse(hn::Eq(hn::Abs(x), infinity), infinity, result);
}

template <class D, class V>
HWY_INLINE V WideDigammaPositive(D d, V x) {
  const V one = hn::Set(d, 1.0), eight = hn::Set(d, 8.0);
  V y = x, sum = hn::Zero(d);
  for (int i = 0; i < 8; ++i) {
    const auto below = hn::Lt(y, eight);
    sum = hn::Add(sum, hn::IfThenElseZero(below, hn::Div(one, y)));
    y = hn::IfThenElse(below, hn::Add(y, one), y);
  }
  const V u = hn::Div(one, y), z = hn::Mul(u, u);
  const V series = hn::Mul(
      z, WidePolynomial(d, z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12));
  return hn::Sub(hn::Sub(hn::Sub(WideLog(d, y), hn::Mul(hn::Set(d, 0.5), u)), series), sum);
}
/// The derivative of log Gamma: NaN at the negative integers, an infinity of the other sign at 0 and -0.
template <class D, class V>
HWY_INLINE V WideDigamma(D d, V x) {
  const V one = hn::Set(d, 1.0), infinity = hn::Inf(d), zero = hn::Zero(d);
  const auto negative = hn::Lt(x, zero), far = hn::Eq(hn::Abs(x), infinity);
  const V r = hn::Sub(x, hn::Round(x)), held = hn::IfThenElse(hn::Or(far, hn::Eq(x, zero)), one, x);
  const V positive = WideDigammaPositive(d, hn::IfThenElse(negative, hn::Sub(one, held), held));
  const auto pole = hn::And(negative, hn::Eq(r, zero));
  const V turn = hn::IfThenElse(pole, hn::Set(d, 0.25), r);
  const V cotangent = hn::Div(WideCosOfTurn(d, turn), hn::IfThenElse(hn::Eq(turn, zero), one, WideSinOfTurn(d, turn)));
  const V reflected = hn::NegMulAdd(hn::Set(d, kPi), cotangent, positive);
  V result = hn::IfThenElse(negative, reflected, positive);
  result = hn::IfThenElse(hn::Or(pole, hn::Eq(x, hn::Neg(infinity))), hn::NaN(d), result);
  result = hn::IfThenElse(hn::Eq(x, zero), hn::CopySign(infinity, hn::Neg(x)), result);
  return hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
}

template <class D, class V>
HWY_INLINE V WideTrigammaPositive(D d, V x) {
  const V one = hn::Set(d, 1.0), eight = hn::Set(d, 8.0);
  V y = x, sum = hn::Zero(d);
  for (int i = 0; i < 8; ++i) {
    const auto below = hn::Lt(y, eight);
    const V u = hn::Div(one, y);
    sum = hn::Add(sum, hn::IfThenElseZero(below, hn::Mul(u, u)));
    y = hn::IfThenElse(below, hn::Add(y, one), y);
  }
  const V u = hn::Div(one, y), z = hn::Mul(u, u);
  const V series =
      hn::Mul(z, WidePolynomial(d, z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6));
  return hn::Add(sum, hn::Mul(u, hn::Add(one, hn::MulAdd(hn::Set(d, 0.5), u, series))));
}
/// The derivative of digamma: an infinity at 0 and the negative integers.
template <class D, class V>
HWY_INLINE V WideTrigamma(D d, V x) {
  const V one = hn::Set(d, 1.0), infinity = hn::Inf(d), zero = hn::Zero(d);
  const auto negative = hn::Lt(x, zero), far = hn::Eq(hn::Abs(x), infinity);
  const V r = hn::Sub(x, hn::Round(x)), held = hn::IfThenElse(hn::Or(far, hn::Eq(x, zero)), one, x);
  const V positive = WideTrigammaPositive(d, hn::IfThenElse(negative, hn::Sub(one, held), held));
  const auto pole = hn::Or(hn::Eq(x, zero), hn::And(negative, hn::Eq(r, zero)));
  const V cosecant = hn::Div(hn::Set(d, kPi), WideSinOfTurn(d, hn::IfThenElse(pole, hn::Set(d, 0.5), r)));
  V result = hn::IfThenElse(negative, hn::Sub(hn::Mul(cosecant, cosecant), positive), positive);
  result = hn::IfThenElse(pole, infinity, result);
  result = hn::IfThenElse(hn::Eq(x, hn::Neg(infinity)), hn::NaN(d), result);
  return hn::IfThenElse(hn::Eq(x, infinity), zero, result);
}

RAMET_WIDE(Exp2, WideExp2)
RAMET_WIDE(Log2, WideLog2)
RAMET_WIDE(Log10, WideLog10)
RAMET_WIDE(Sinh, WideSinh)
RAMET_WIDE(Cosh, WideCosh)
RAMET_WIDE(Asinh, WideAsinh)
RAMET_WIDE(Acosh, WideAcosh)
RAMET_WIDE(Atanh, WideAtanh)
RAMET_WIDE(Asin, WideAsin)
RAMET_WIDE(Acos, WideAcos)
RAMET_WIDE(Atan, WideAtan)
RAMET_WIDE(Erfc, WideErfc)
RAMET_WIDE(Lgamma, WideLgamma)
RAMET_WIDE(Digamma, WideDigamma)
RAMET_WIDE(Trigamma, WideTrigamma)
#undef RAMET_WIDE

template <class D, class V>
HWY_INLINE V Atan2(D d, V y, V x) {
  const V result = InWide(d, y, x, [](auto dd, auto a, auto b) HWY_ATTR { return WideAtan2(dd, a, b); });
  return hn::IfThenElse(hn::Or(hn::IsNaN(y), hn::IsNaN(x)), hn::NaN(d), result);
}
template <class D, class V>
HWY_INLINE V Hypot(D d, V a, V b) {
  return InWide(d, a, b, [](auto dd, auto x, auto y) HWY_ATTR { return WideHypot(dd, x, y); });
}

/// Sine over cosine of the rest of a reduction by quarter turns, which is rounded to f32: 1.6 ulp.
template <class D, class V>
HWY_INLINE V Tan(D d, V x) {
  const hn::RebindToSigned<D> di;
  hn::VFromD<decltype(di)> quarters;
  const V r = ReduceQuarterTurns(d, x, quarters);
  const auto odd = hn::RebindMask(d, hn::Ne(hn::And(quarters, hn::Set(di, 1)), hn::Zero(di)));
  const V turned = hn::IfThenElse(odd, hn::Set(d, 1.0f), hn::Zero(d));
  const V result = InWide(d, r, turned, [](auto dd, auto a, auto b) HWY_ATTR {
    const auto turn = hn::Mul(a, hn::Set(dd, 1 / kPi));
    const auto sine = WideSinOfTurn(dd, turn), cosine = WideCosOfTurn(dd, turn);
    const auto is_odd = hn::Ne(b, hn::Zero(dd));
    return hn::Div(hn::IfThenElse(is_odd, hn::Neg(cosine), sine), hn::IfThenElse(is_odd, sine, cosine));
  });
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);  // -0 stays
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_MATH_WIDE_INL_H_

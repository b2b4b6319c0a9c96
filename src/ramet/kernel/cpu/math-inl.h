// Elementary functions on f32 vectors, without libm, so that a result depends on the kernel class alone. Each states
// its largest error in ulp as tests/kernel/math_test.cc measures it against double on targets with fused multiply-add.
// Polynomials are weighted minimax fits of this project, rounded coefficient by coefficient to f32.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_MATH_INL_H_
#undef RAMET_MATH_INL_H_
#else
#define RAMET_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include "ramet/kernel/cpu/scalar_math.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// c0 + x c1 + x^2 c2 + ... by Horner's rule.
template <class D, class V>
HWY_INLINE V Polynomial(D d, V, float last) {
  return hn::Set(d, last);
}
template <class D, class V, class... Rest>
HWY_INLINE V Polynomial(D d, V x, float first, Rest... rest) {
  return hn::MulAdd(Polynomial(d, x, rest...), x, hn::Set(d, first));
}

/// x, at most (at least) `bound`; NaN stays.
template <class D, class V>
HWY_INLINE V AtMost(D d, V x, float bound) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(hn::Set(d, bound), x);  // x86 gives the second operand where one is NaN
#else
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, bound)), hn::Set(d, bound), x);
#endif
}
template <class D, class V>
HWY_INLINE V AtLeast(D d, V x, float bound) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(hn::Set(d, bound), x);
#else
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, bound)), hn::Set(d, bound), x);
#endif
}

constexpr float kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f, kLog2E = 0x1.715476p+0f;
/// Added to a small number it leaves the nearest whole one in the low bits.
constexpr float kWholeShift = 0x1.8p23f;

/// x = n ln 2 + r with n whole, |r| <= ln 2 / 2 (and a little): gives r, and 2^(n + offset) by its bits. Right where
/// n + offset is in [-126, 127]; beyond, the power is any number.
template <int kOffset = 0, class D, class V>
HWY_INLINE V ExpReduce(D d, V x, V* n, V* power) {
  const hn::RebindToUnsigned<D> du;
  const V shift = hn::Set(d, kWholeShift + 127 + kOffset);
  const V shifted = hn::MulAdd(x, hn::Set(d, kLog2E), shift);
  *n = hn::Sub(shifted, shift);
  *power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  const V r = hn::NegMulAdd(*n, hn::Set(d, kLn2High), x);
  return hn::NegMulAdd(*n, hn::Set(d, kLn2Low), r);
}

/// e^r of a reduced r.
template <class D, class V>
HWY_INLINE V ExpOfRest(D d, V r) {
  const V p = Polynomial(d, r, 0.5f, 0x1.55548ep-3f, 0x1.5554cap-5f, 0x1.123c3cp-7f, 0x1.6d6f1ap-10f);
  return hn::Add(hn::Set(d, 1.0f), hn::MulAdd(hn::Mul(r, r), p, r));
}

/// e^x: 1 ulp where the result is normal; NaN stays, overflow gives infinity, underflow goes through denormals to 0.
template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V held = AtLeast(d, AtMost(d, x, 89.0f), -104.5f);
  const V shift = hn::Set(d, kWholeShift);
  const V shifted = hn::MulAdd(held, hn::Set(d, kLog2E), shift);
  const V n = hn::Sub(shifted, shift);
  V r = hn::NegMulAdd(n, hn::Set(d, kLn2High), held);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), r);
  // Two factors, so that neither leaves the range of exponents.
  const auto whole = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, shift));
  const auto half = hn::ShiftRight<1>(whole), bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(ExpOfRest(d, r), first), second);
}

/// e^x of x <= 88: as Exp, cheaper; results below 2^-126 are 0. NaN stays.
template <class D, class V>
HWY_INLINE V ExpNegative(D d, V x) {
  V n, power;
  const V r = ExpReduce(d, x, &n, &power);
  // What underflows has no meaning until it is replaced; NaN is not less than anything and stays.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654f)), hn::Mul(ExpOfRest(d, r), power));
}

/// e^x - 1: 1.5 ulp; NaN stays.
template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  const V held = AtLeast(d, AtMost(d, x, 89.0f), -30.0f);
  // Half of 2^n, so that n = 128 stays in range; doubled at the end.
  V n, scale;
  const V r = ExpReduce<-1>(d, held, &n, &scale);
  const V p = Polynomial(d, r, 0.5f, 0x1.555556p-3f, 0x1.5554f6p-5f, 0x1.111004p-7f, 0x1.6d3cecp-10f, 0x1.a242f8p-13f);
  const V rest = hn::MulAdd(hn::Mul(r, r), p, r);
  const V sum = hn::MulAdd(scale, rest, hn::Sub(scale, hn::Set(d, 0.5f)));
  const V result = hn::Add(sum, sum);
  const V zero_power = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, rest);  // -0 stays
  return hn::IfThenElse(hn::Eq(n, hn::Zero(d)), zero_power, result);
}

/// log x - less ln 2 of a normal x > 0; of others it is any number.
template <class D, class V>
HWY_INLINE V LogOfNormal(D d, V x, V less) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  // m in [sqrt(1/2), sqrt(2)): the offset moves the cut of the exponent there.
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  const auto e = hn::ShiftRight<23>(shifted);
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  const V n = hn::Sub(hn::ConvertTo(d, e), less);
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0f)));
  const V z = hn::Mul(s, s);
  const V r = hn::Mul(z, Polynomial(d, z, 0x1.555554p-1f, 0x1.999c26p-2f, 0x1.23d3fep-2f, 0x1.f1308cp-3f));
  const V h = hn::Mul(hn::Set(d, 0.5f), hn::Mul(f, f));
  // log(1 + f) = f - h + s (h + r), as 2 artanh(s) rearranged.
  const V low = hn::MulAdd(s, hn::Add(h, r), hn::Mul(n, hn::Set(d, kLn2Low)));
  return hn::MulAdd(n, hn::Set(d, kLn2High), hn::Sub(f, hn::Sub(h, low)));
}

/// Natural logarithm: 0.8 ulp; negative gives NaN, 0 gives -infinity, infinity and NaN stay. Denormals are right.
template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  const V zero = hn::Zero(d), infinity = hn::Inf(d);
  const auto small = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V scaled = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, 0x1p25f)), x);
  V result = LogOfNormal(d, scaled, hn::IfThenElseZero(small, hn::Set(d, 25.0f)));
  result = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), result);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  const V not_a_number = hn::NaN(d);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Lt(x, zero), not_a_number, result));
}

/// log(1 + x): 1.5 ulp; x < -1 gives NaN, -1 gives -infinity, -0 stays.
template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(x, one);
  // What rounding 1 + x lost, brought back to first order: log(u + c) = log u + c / u.
  const auto large = hn::Ge(x, one);
  const V c = hn::IfThenElse(large, hn::Sub(one, hn::Sub(u, x)), hn::Sub(x, hn::Sub(u, one)));
  const V result = hn::Add(Log(d, u), hn::Div(c, u));
  const auto plain = hn::Or(hn::Eq(u, hn::Zero(d)), hn::Eq(u, hn::Inf(d)));
  return hn::IfThenElse(hn::Eq(u, one), x, hn::IfThenElse(plain, Log(d, u), result));
}

/// Hyperbolic tangent: 1.3 ulp; NaN and -0 stay.
template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  const V a = AtMost(d, hn::Abs(x), 10.0f);
  const V z = hn::Mul(a, a);
  const V p = Polynomial(d, z, -0x1.555554p-2f, 0x1.111076p-3f, -0x1.b9f038p-5f, 0x1.6392b0p-6f, -0x1.0bf224p-7f,
                         0x1.18686ap-9f);
  const V small = hn::MulAdd(hn::Mul(z, a), p, a);
  V n, power;
  const V r = ExpReduce(d, hn::Add(a, a), &n, &power);
  const V large = hn::Sub(one, hn::Div(two, hn::MulAdd(ExpOfRest(d, r), power, one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), small, large), x);
}

/// 1 / (1 + e^-x): 2.5 ulp where the result is normal.
template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V e = ExpNegative(d, hn::Neg(hn::Abs(x)));
  const V upper = hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), e));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(e, upper), upper);
}

/// log(1 + x) of x in [0, 1]: 1.3 ulp; NaN stays. Without a division, unlike Log1p.
template <class D, class V>
HWY_INLINE V Log1pOfShare(D d, V x) {
  const V p = Polynomial(d, x, -0x1.ffffd2p-2f, 0x1.554dfp-2f, -0x1.ff26e2p-3f, 0x1.935cap-3f, -0x1.3a7a82p-3f,
                         0x1.b579bep-4f, -0x1.d86316p-5f, 0x1.4b0822p-6f, -0x1.b2f55ep-9f);
  return hn::MulAdd(hn::Mul(x, x), p, x);
}

/// log(1 + e^x): 2 ulp; NaN stays.
template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  const V zero = hn::Zero(d), positive = hn::IfThenElse(hn::Lt(x, zero), zero, x);
  return hn::Add(positive, Log1pOfShare(d, Exp(d, hn::Neg(hn::Abs(x)))));
}

/// Two functions of the normal distribution at x >= 0: density e^(-x^2/2) and tail Phi(-x) = density R(x), where R is
/// Mills' ratio / sqrt(2 pi), smooth in 1 / (x + 4). Rounding x^2 grows with it: the tail is right to 5 ulp at 1, 12 at
/// 4, 100 at
/// 12. From x = 13.2 on both are 0.
template <class D, class V>
HWY_INLINE void NormalTail(D d, V x, V* density, V* tail) {
  const V one = hn::Set(d, 1.0f);
  const V held = AtMost(d, x, 14.0f);
  const V e = ExpNegative(d, hn::Mul(held, hn::Mul(held, hn::Set(d, -0.5f))));
  const V u = hn::Div(one, hn::Add(held, hn::Set(d, 4.0f)));
  const V t = hn::NegMulAdd(u, hn::Set(d, 8.0f), one);
  const V p = Polynomial(d, t, 0x1.82b4bcp-1f, -0x1.373e3ap-1f, 0x1.8c6d76p-2f, -0x1.7dff66p-3f, 0x1.eee1acp-5f,
                         -0x1.ed9040p-8f, -0x1.cfb9b2p-9f, 0x1.9c1accp-10f, 0x1.c04a82p-13f, -0x1.dfbc42p-14f);
  *density = e;
  *tail = hn::Mul(e, hn::Mul(u, p));
}

/// Gauss's error function: 1.6 ulp; NaN and -0 stay.
template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const V a = AtMost(d, hn::Abs(x), 6.0f);
  const V z = hn::Mul(a, a);
  const V p = Polynomial(d, z, 0x1.06eba8p-3f, -0x1.812740p-2f, 0x1.ce2d74p-4f, -0x1.b8044ap-6f, 0x1.5482a0p-8f,
                         -0x1.a99294p-11f, 0x1.6981f6p-14f, -0x1.217f0ap-19f);
  V density, tail;
  NormalTail(d, hn::Mul(a, hn::Set(d, 1.41421356f)), &density, &tail);
  const V large = hn::NegMulAdd(hn::Set(d, 2.0f), tail, hn::Set(d, 1.0f));
  const V small = hn::MulAdd(a, p, a);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0f)), small, large), x);
}

/// Phi(x), the standard normal distribution: 5 ulp.
template <class D, class V>
HWY_INLINE V NormalCdf(D d, V x) {
  V density, tail;
  NormalTail(d, hn::Abs(x), &density, &tail);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
}

/// x Phi(x): 7 ulp for x > -2, below as NormalTail; -infinity gives -0, NaN stays.
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  // Held so that -infinity times 0 is no NaN.
  return hn::Mul(AtLeast(d, x, -14.0f), NormalCdf(d, x));
}

/// Phi(x) + x phi(x).
template <class D, class V>
HWY_INLINE V GeluSlope(D d, V x) {
  V density, tail;
  const V a = hn::Abs(x);
  NormalTail(d, a, &density, &tail);
  const V cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
  const V held = hn::IfThenElse(hn::Gt(a, hn::Set(d, 14.0f)), hn::Zero(d), x);
  return hn::MulAdd(hn::Mul(held, hn::Set(d, 0x1.988454p-2f)), density, cdf);
}

constexpr float kTwoSqrt2OverPi = 0x1.988454p+0f, kGeluCubic = 0.044715f;

/// GELU in its tanh approximation, as x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)): 6 ulp for x > -1; below, rounding the
/// argument of the exponential grows to 23 at -4, where 1 + tanh would have lost all but a few bits.
template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V held = AtLeast(d, x, -14.0f);
  const V inner = hn::Mul(
      held, hn::MulAdd(hn::Mul(held, held), hn::Set(d, kTwoSqrt2OverPi * kGeluCubic), hn::Set(d, kTwoSqrt2OverPi)));
  return hn::Mul(held, Sigmoid(d, inner));
}

template <class D, class V>
HWY_INLINE V GeluTanhSlope(D d, V x) {
  const V held = AtLeast(d, AtMost(d, x, 14.0f), -14.0f);
  const V square = hn::Mul(held, held);
  const V inner =
      hn::Mul(held, hn::MulAdd(square, hn::Set(d, kTwoSqrt2OverPi * kGeluCubic), hn::Set(d, kTwoSqrt2OverPi)));
  const V slope = hn::MulAdd(square, hn::Set(d, 3 * kTwoSqrt2OverPi * kGeluCubic), hn::Set(d, kTwoSqrt2OverPi));
  // s and 1 - s from one exponential, each to full precision.
  const V e = ExpNegative(d, hn::Neg(hn::Abs(inner)));
  const V upper = hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), e));
  const V lower = hn::Mul(e, upper);
  const V s = hn::IfThenElse(hn::Lt(inner, hn::Zero(d)), lower, upper);
  return hn::MulAdd(hn::Mul(held, slope), hn::Mul(upper, lower), s);
}

/// 1 / sqrt(x): 1.5 ulp.
template <class D, class V>
HWY_INLINE V Rsqrt(D d, V x) {
  return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x));
}

/// reduce_quarter_turns of every lane, with its bits.
template <class D, class V>
HWY_INLINE V ReduceQuarterTurns(D d, V x, hn::VFromD<hn::RebindToSigned<D>>& quarters) {
  const hn::RebindToSigned<D> di;
#if HWY_TARGET != HWY_SCALAR
  if (hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, 0x1p24f)))) {
    const hn::Half<D> half;
    const hn::Rebind<double, hn::Half<D>> dd;
    const hn::Rebind<int32_t, hn::Half<D>> half_int;
    const auto turns = [&](auto wide) HWY_ATTR {  // the nearest whole number of them: no room for a fraction
      const auto shift = hn::Set(dd, 0x1.8p52);
      return hn::Sub(hn::Add(hn::Mul(wide, hn::Set(dd, 0.63661977236758134)), shift), shift);
    };
    const auto rest = [&](auto wide, auto n) HWY_ATTR {
      const auto high = hn::Sub(wide, hn::Mul(n, hn::Set(dd, 0x1.921fb54p+0)));
      return hn::DemoteTo(half, hn::Sub(high, hn::Mul(n, hn::Set(dd, 0x1.10b4611a62633p-30))));
    };
    const auto low = hn::PromoteTo(dd, hn::LowerHalf(half, x)), high = hn::PromoteTo(dd, hn::UpperHalf(half, x));
    const auto low_turns = turns(low), high_turns = turns(high);
    quarters = hn::Combine(di, hn::DemoteTo(half_int, high_turns), hn::DemoteTo(half_int, low_turns));
    return hn::Combine(d, rest(high, high_turns), rest(low, low_turns));
  }
#endif
  HWY_ALIGN float value[hn::MaxLanes(d)];
  HWY_ALIGN int32_t lane_quarters[hn::MaxLanes(d)];
  hn::Store(x, d, value);
  for (size_t i = 0; i < hn::Lanes(d); ++i) value[i] = reduce_quarter_turns(value[i], &lane_quarters[i]);
  quarters = hn::Load(di, lane_quarters);
  return hn::Load(d, value);
}

/// Sine (turn 0) or cosine (turn 1): 1.6 ulp. Arguments are reduced by quarter turns in double.
template <class D, class V>
HWY_INLINE V SineTurned(D d, V x, int turn) {
  const hn::RebindToSigned<D> di;
  hn::VFromD<decltype(di)> quarters;
  const V r = ReduceQuarterTurns(d, x, quarters);
  const auto quarter = hn::Add(quarters, hn::Set(di, turn));
  const V z = hn::Mul(r, r);
  const V sine = hn::MulAdd(hn::Mul(z, r),
                            Polynomial(d, z, -0x1.555556p-3f, 0x1.111176p-7f, -0x1.a05b8ap-13f, 0x1.7cbfd4p-19f), r);
  const V cosine =
      hn::MulAdd(hn::Mul(z, z), Polynomial(d, z, 0x1.555556p-5f, -0x1.6c1760p-10f, 0x1.a073c2p-16f, -0x1.3694f8p-22f),
                 hn::NegMulAdd(hn::Set(d, 0.5f), z, hn::Set(d, 1.0f)));
  const auto odd = hn::RebindMask(d, hn::Ne(hn::And(quarter, hn::Set(di, 1)), hn::Zero(di)));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 2))));
  const V result = hn::Xor(hn::IfThenElse(odd, cosine, sine), sign);
  return turn ? result : hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);  // -0 stays
}

/// a to the power b, lane by lane in double: 1 ulp, special values as C's pow has them.
template <class D, class V>
HWY_INLINE V Power(D d, V a, V b) {
  HWY_ALIGN float base[hn::MaxLanes(d)], exponent[hn::MaxLanes(d)];
  hn::Store(a, d, base);
  hn::Store(b, d, exponent);
  for (size_t i = 0; i < hn::Lanes(d); ++i) base[i] = power_of(base[i], exponent[i]);
  return hn::Load(d, base);
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_MATH_INL_H_

#include "ramet/kernel/cpu/map_steps.h"

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/rounding.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/position.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/map_steps.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/bf16_table-inl.h"
#include "ramet/kernel/cpu/convert-inl.h"
#include "ramet/kernel/cpu/map_memory-inl.h"
#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

using cpu::kMapPad;
using cpu::MapForm;
using cpu::StepCall;
using cpu::StepFunction;

/// f32 result that holds the bf16 rounding.
struct Rounded {
  float value;
};
HWY_INLINE void StoreF32(Df df, Vf value, Rounded* to) {
  const Du du;
  const auto bits = hn::And(RoundToBf16(du, value), hn::Set(du, 0xffff0000u));
  hn::StoreU(hn::BitCast(df, bits), df, &to->value);
}
HWY_INLINE uint16_t bf16_bits(const Rounded& number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

namespace {

HWY_INLINE int64_t padded(int64_t count) { return (count + kMapPad - 1) / kMapPad * kMapPad; }

// --- operations on vectors: of one, two or three operands ---

#define RAMET_MAP_OP(Name, expression)                                                                    \
  struct Name {                                                                                           \
    static HWY_INLINE Vf apply([[maybe_unused]] Df d, Vf a, [[maybe_unused]] Vf b, [[maybe_unused]] Vf p, \
                               [[maybe_unused]] Vf q) {                                                   \
      return expression;                                                                                  \
    }                                                                                                     \
  };

HWY_INLINE Vf below_zero(Df d, Vf a, Vf yes, Vf no) { return hn::IfThenElse(hn::Lt(a, hn::Zero(d)), yes, no); }
HWY_INLINE Vf one(Df d) { return hn::Set(d, 1.0f); }
HWY_INLINE Vf sign_of(Df d, Vf a) {
  const Vf result = hn::IfThenElse(hn::Gt(a, hn::Zero(d)), one(d), a);
  return below_zero(d, a, hn::Neg(one(d)), result);
}
HWY_INLINE Vf round_f16(Df d, Vf a) {
  F16 half[hn::MaxLanes(Df())];
  StoreF32(d, a, half);
  return LoadF32(d, half);
}
HWY_INLINE Vf round_bf16(Df d, Vf a) {
  const Du du;
  return hn::BitCast(d, hn::And(RoundToBf16(du, a), hn::Set(du, 0xffff0000u)));
}
HWY_INLINE Vf silu_slope(Df d, Vf a) {
  const Vf e = ExpNegative(d, hn::Neg(hn::Abs(a)));
  const Vf upper = hn::Div(one(d), hn::Add(one(d), e)), lower = hn::Mul(e, upper);
  return hn::MulAdd(hn::IfThenElse(hn::Eq(lower, hn::Zero(d)), hn::Zero(d), a), hn::Mul(upper, lower),
                    below_zero(d, a, lower, upper));
}
/// a sigmoid(a), where -infinity gives -0.
HWY_INLINE Vf silu(Df d, Vf a) {
  return hn::Mul(hn::IfThenElse(hn::Lt(a, hn::Set(d, -110.0f)), hn::Set(d, -110.0f), a), Sigmoid(d, a));
}

/// log(e^a + e^b); equal infinities stay.
HWY_INLINE Vf log_add_exp(Df d, Vf a, Vf b) {
  const Vf most = hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  const Vf gap = hn::IfThenElseZero(hn::Not(hn::Eq(a, b)), hn::Neg(hn::Abs(hn::Sub(a, b))));
  return hn::Add(most, Log1p(d, Exp(d, gap)));
}

RAMET_MAP_OP(AddOp, hn::Add(a, b))
RAMET_MAP_OP(SubtractOp, hn::Sub(a, b))
RAMET_MAP_OP(MultiplyOp, hn::Mul(a, b))
RAMET_MAP_OP(DivideOp, hn::Div(a, b))
RAMET_MAP_OP(MaximumOp, hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b))
RAMET_MAP_OP(MinimumOp, hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b))
RAMET_MAP_OP(PowerOp, Power(d, a, b))
RAMET_MAP_OP(NegateOp, hn::Neg(a))
RAMET_MAP_OP(AbsOp, hn::Abs(a))
RAMET_MAP_OP(SignOp, sign_of(d, a))
RAMET_MAP_OP(ExpOp, Exp(d, a))
RAMET_MAP_OP(LogOp, Log(d, a))
RAMET_MAP_OP(Log1pOp, Log1p(d, a))
RAMET_MAP_OP(Expm1Op, Expm1(d, a))
RAMET_MAP_OP(SqrtOp, hn::Sqrt(a))
RAMET_MAP_OP(RsqrtOp, Rsqrt(d, a))
RAMET_MAP_OP(ReciprocalOp, hn::Div(one(d), a))
RAMET_MAP_OP(SquareOp, hn::Mul(a, a))
RAMET_MAP_OP(TanhOp, Tanh(d, a))
RAMET_MAP_OP(SigmoidOp, Sigmoid(d, a))
RAMET_MAP_OP(SiluOp, silu(d, a))
RAMET_MAP_OP(ReluOp, below_zero(d, a, hn::Zero(d), a))
RAMET_MAP_OP(LeakyReluOp, below_zero(d, a, hn::Mul(p, a), a))
RAMET_MAP_OP(EluOp, below_zero(d, a, hn::Mul(p, Expm1(d, a)), a))
RAMET_MAP_OP(SoftplusOp, Softplus(d, a))
RAMET_MAP_OP(ErfOp, Erf(d, a))
RAMET_MAP_OP(GeluOp, Gelu(d, a))
RAMET_MAP_OP(GeluTanhOp, GeluTanh(d, a))
RAMET_MAP_OP(SinOp, SineTurned(d, a, 0))
RAMET_MAP_OP(CosOp, SineTurned(d, a, 1))
RAMET_MAP_OP(FloorOp, hn::Floor(a))
RAMET_MAP_OP(CeilOp, hn::Ceil(a))
RAMET_MAP_OP(RoundOp, hn::Round(a))
RAMET_MAP_OP(TruncOp, hn::Trunc(a))
RAMET_MAP_OP(CopySignOp, hn::CopySign(a, b))
RAMET_MAP_OP(LogAddExpOp, log_add_exp(d, a, b))
RAMET_MAP_OP(ClampOp, hn::IfThenElse(hn::Lt(a, p), p, hn::IfThenElse(hn::Gt(a, q), q, a)))
RAMET_MAP_OP(ScaleOp, hn::Mul(a, p))
RAMET_MAP_OP(AddScalarOp, hn::Add(a, p))
RAMET_MAP_OP(CopyOp, a)
RAMET_MAP_OP(RoundBf16Op, round_bf16(d, a))
RAMET_MAP_OP(RoundF16Op, round_f16(d, a))
RAMET_MAP_OP(TanhGradOp, hn::Mul(b, hn::NegMulAdd(a, a, one(d))))
RAMET_MAP_OP(SigmoidGradOp, hn::Mul(hn::Mul(b, a), hn::Sub(one(d), a)))
RAMET_MAP_OP(SiluSlopeOp, silu_slope(d, a))
RAMET_MAP_OP(ReluGradOp, hn::IfThenElseZero(hn::Gt(a, hn::Zero(d)), b))
RAMET_MAP_OP(LeakyReluGradOp, below_zero(d, a, hn::Mul(p, b), b))
RAMET_MAP_OP(EluGradOp, below_zero(d, a, hn::Mul(hn::Mul(p, Exp(d, a)), b), b))
RAMET_MAP_OP(GeluSlopeOp, GeluSlope(d, a))
RAMET_MAP_OP(GeluTanhSlopeOp, GeluTanhSlope(d, a))
RAMET_MAP_OP(ClampGradOp, hn::IfThenElseZero(hn::And(hn::Ge(a, p), hn::Le(a, q)), b))
#undef RAMET_MAP_OP

/// b Slope(a).
template <class SlopeOp>
struct SlopeGradOp {
  using Slope = SlopeOp;
  static HWY_INLINE Vf apply(Df d, Vf a, Vf b, Vf p, Vf q) { return hn::Mul(b, Slope::apply(d, a, a, p, q)); }
};
using SiluGradOp = SlopeGradOp<SiluSlopeOp>;
using GeluGradOp = SlopeGradOp<GeluSlopeOp>;
using GeluTanhGradOp = SlopeGradOp<GeluTanhSlopeOp>;

// --- loops ---

template <class Op, class A, class R>
void unary(const StepCall& call) {
  const Df d;
  const auto* a = static_cast<const A*>(call.operands[0]);
  auto* result = static_cast<R*>(call.result);
  const Vf p = hn::Set(d, call.p), q = hn::Set(d, call.q);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step) {
    const Vf value = LoadF32(d, a + i);
    StoreF32(d, Op::apply(d, value, value, p, q), result + i);
  }
}

template <class Op, class A, class B, class R>
void binary(const StepCall& call) {
  const Df d;
  const auto* a = static_cast<const A*>(call.operands[0]);
  const auto* b = static_cast<const B*>(call.operands[1]);
  auto* result = static_cast<R*>(call.result);
  const Vf p = hn::Set(d, call.p), q = hn::Set(d, call.q);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step)
    StoreF32(d, Op::apply(d, LoadF32(d, a + i), LoadF32(d, b + i), p, q), result + i);
}

/// f32 operands to a bool.
template <class Test>
void test_floats(const StepCall& call) {
  const Df d;
  const Di di;
  const auto* a = static_cast<const float*>(call.operands[0]);
  const auto* b = static_cast<const float*>(call.operands[1]);
  if (!b) b = a;
  auto* result = static_cast<int32_t*>(call.result);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step) {
    const auto mask = hn::RebindMask(di, Test::apply(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
    hn::StoreU(hn::IfThenElseZero(mask, hn::Set(di, 1)), di, result + i);
  }
}
template <class Test>
void test_integers(const StepCall& call) {
  const Di d;
  const auto* a = static_cast<const int32_t*>(call.operands[0]);
  const auto* b = static_cast<const int32_t*>(call.operands[1]);
  auto* result = static_cast<int32_t*>(call.result);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step)
    hn::StoreU(hn::IfThenElseZero(Test::apply(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), hn::Set(d, 1)), d,
               result + i);
}

#define RAMET_MAP_TEST(Name, expression)                           \
  struct Name {                                                    \
    template <class D, class V>                                    \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a, V b) { \
      return expression;                                           \
    }                                                              \
  };
RAMET_MAP_TEST(EqualTest, hn::Eq(a, b))
RAMET_MAP_TEST(NotEqualTest, hn::Not(hn::Eq(a, b)))
RAMET_MAP_TEST(LessTest, hn::Lt(a, b))
RAMET_MAP_TEST(GreaterTest, hn::Gt(a, b))
RAMET_MAP_TEST(LessEqualTest, hn::Or(hn::Lt(a, b), hn::Eq(a, b)))
RAMET_MAP_TEST(GreaterEqualTest, hn::Or(hn::Gt(a, b), hn::Eq(a, b)))
struct NanTest {
  static HWY_INLINE auto apply(Df, Vf a, Vf) { return hn::IsNaN(a); }
};
struct InfiniteTest {
  static HWY_INLINE auto apply(Df d, Vf a, Vf) { return hn::Eq(hn::Abs(a), hn::Inf(d)); }
};
struct FiniteTest {
  static HWY_INLINE auto apply(Df d, Vf a, Vf) { return hn::Lt(hn::Abs(a), hn::Inf(d)); }
};
#undef RAMET_MAP_TEST

#define RAMET_MAP_INTEGER(Name, expression)                                                               \
  struct Name {                                                                                           \
    static HWY_INLINE Vi apply([[maybe_unused]] Di d, Vi a, [[maybe_unused]] Vi b) { return expression; } \
  };
RAMET_MAP_INTEGER(AddInt, hn::Add(a, b))
RAMET_MAP_INTEGER(SubtractInt, hn::Sub(a, b))
RAMET_MAP_INTEGER(MultiplyInt, hn::Mul(a, b))
RAMET_MAP_INTEGER(MaximumInt, hn::Max(a, b))
RAMET_MAP_INTEGER(MinimumInt, hn::Min(a, b))
RAMET_MAP_INTEGER(NegateInt, hn::Sub(hn::Zero(d), a))
RAMET_MAP_INTEGER(SquareInt, hn::Mul(a, a))
RAMET_MAP_INTEGER(ReluInt, hn::Max(a, hn::Zero(d)))
RAMET_MAP_INTEGER(AndInt, hn::And(a, b))
RAMET_MAP_INTEGER(OrInt, hn::Or(a, b))
RAMET_MAP_INTEGER(XorInt, hn::Xor(a, b))
RAMET_MAP_INTEGER(FlipInt, hn::Not(a))
RAMET_MAP_INTEGER(NotInt, hn::IfThenElseZero(hn::Eq(a, hn::Zero(d)), hn::Set(d, 1)))
RAMET_MAP_INTEGER(CopyInt, a)
#undef RAMET_MAP_INTEGER

template <class Op>
void integers(const StepCall& call) {
  const Di d;
  const auto* a = static_cast<const int32_t*>(call.operands[0]);
  const auto* b = static_cast<const int32_t*>(call.operands[1]);
  if (!b) b = a;
  auto* result = static_cast<int32_t*>(call.result);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step)
    hn::StoreU(Op::apply(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, result + i);
}

/// Of lanes of 32 bits, whatever they hold.
void select_step(const StepCall& call) {
  const Di d;
  const auto* condition = static_cast<const int32_t*>(call.operands[0]);
  const auto* a = static_cast<const int32_t*>(call.operands[1]);
  const auto* b = static_cast<const int32_t*>(call.operands[2]);
  auto* result = static_cast<int32_t*>(call.result);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step) {
    const auto no = hn::Eq(hn::LoadU(d, condition + i), hn::Zero(d));
    hn::StoreU(hn::IfThenElse(no, hn::LoadU(d, b + i), hn::LoadU(d, a + i)), d, result + i);
  }
}

constexpr int64_t kDrawsAtOnce = 512;

/// Random bits of elements [begin, begin + count) of a part of the logical space, gathered from its runs.
inline void draw_runs(const StepCall& call, int64_t begin, int64_t count, uint16_t* room, uint16_t* bits) {
  const DropoutDraw& draw = *call.dropout;
  call.position->for_each_run(begin, count, [&](const Position::Run& run) {
    const uint64_t element = draw.first + static_cast<uint64_t>(run.logical);
    const uint16_t* drawn = PhiloxBits16(draw.stream, element, run.length, room);
    std::memcpy(bits + (run.local - begin), drawn, static_cast<size_t>(run.length) * sizeof(uint16_t));
  });
}

template <class A, class R>
void dropout_step(const StepCall& call) {
  const Df d;
  const Di di;
  const DropoutDraw& draw = *call.dropout;
  const auto* a = static_cast<const A*>(call.operands[0]);
  auto* result = static_cast<R*>(call.result);
  const Vf scale = hn::Set(d, draw.scale);
  const Vi limit = hn::Set(di, static_cast<int32_t>(draw.threshold));
  const hn::Rebind<uint16_t, Di> dh;
  alignas(64) uint16_t room[kDrawsAtOnce + kPhiloxSlack], gathered[kDrawsAtOnce];
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t begin = 0; begin < end; begin += kDrawsAtOnce) {
    const int64_t stop = end < begin + kDrawsAtOnce ? end : begin + kDrawsAtOnce;
    const uint64_t element = draw.first + static_cast<uint64_t>(call.element + begin);
    const uint16_t* bits = gathered;
    if (call.position)
      draw_runs(call, call.element + begin, std::min(stop, call.count) - begin, room, gathered);
    else
      bits = PhiloxBits16(draw.stream, element, stop - begin, room);
    for (int64_t i = begin; i < stop; i += step) {
      const Vi drawn = hn::PromoteTo(di, hn::LoadU(dh, bits + (i - begin)));
      const Vf factor = hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(drawn, limit)), scale);
      StoreF32(d, hn::Mul(LoadF32(d, a + i), factor), result + i);
    }
  }
}

// --- casts ---

void float_to_int(const StepCall& call) {
  const Df d;
  const Di di;
  const auto* a = static_cast<const float*>(call.operands[0]);
  auto* result = static_cast<int32_t*>(call.result);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step) {
    const Vf value = hn::LoadU(d, a + i);
    const auto number = hn::Not(hn::IsNaN(value));
    const auto high = hn::RebindMask(di, hn::Ge(value, hn::Set(d, 0x1p31f)));
    const auto low = hn::RebindMask(di, hn::Lt(value, hn::Set(d, -0x1p31f)));
    // Held within the range first: what the conversion makes of others differs by processor.
    const Vf held =
        hn::Max(hn::Set(d, -0x1p31f), hn::Min(hn::IfThenElseZero(number, value), hn::Set(d, 0x1.fffffep30f)));
    Vi whole = hn::ConvertTo(di, held);
    whole = hn::IfThenElse(high, hn::Set(di, 0x7fffffff), whole);
    whole = hn::IfThenElse(low, hn::Set(di, static_cast<int32_t>(0x80000000u)), whole);
    hn::StoreU(whole, di, result + i);
  }
}
void int_to_float(const StepCall& call) {
  const Df d;
  const Di di;
  const auto* a = static_cast<const int32_t*>(call.operands[0]);
  auto* result = static_cast<float*>(call.result);
  const int64_t end = padded(call.count), step = lanes();
  for (int64_t i = 0; i < end; i += step) hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, a + i)), d, result + i);
}
struct NonZeroInt {
  static HWY_INLINE Vi apply(Di d, Vi a, Vi) { return hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d)), hn::Set(d, 1)); }
};
struct NonZeroTest {
  static HWY_INLINE auto apply(Df d, Vf a, Vf) { return hn::Not(hn::Eq(a, hn::Zero(d))); }
};

StepFunction find_cast(DType from, DType to) {
  if (from == DType::kI64 || to == DType::kI64) return nullptr;
  if (from == to) return from == DType::kF32 ? &unary<CopyOp, float, float> : &integers<CopyInt>;
  if (from == DType::kF32) return to == DType::kBool ? &test_floats<NonZeroTest> : &float_to_int;
  if (to == DType::kF32) return &int_to_float;
  return to == DType::kBool ? &integers<NonZeroInt> : &integers<CopyInt>;
}

// --- tables ---

struct Named {
  std::string_view name;
  StepFunction function;
};

template <size_t N>
StepFunction find(const Named (&table)[N], std::string_view name) {
  for (const Named& entry : table)
    if (entry.name == name) return entry.function;
  return nullptr;
}

template <class Op>
constexpr StepFunction plain1 = &unary<Op, float, float>;
template <class Op>
constexpr StepFunction plain2 = &binary<Op, float, float, float>;

StepFunction find_float(std::string_view name) {
  static constexpr Named kTable[] = {{"add", plain2<AddOp>},
                                     {"subtract", plain2<SubtractOp>},
                                     {"multiply", plain2<MultiplyOp>},
                                     {"divide", plain2<DivideOp>},
                                     {"maximum", plain2<MaximumOp>},
                                     {"minimum", plain2<MinimumOp>},
                                     {"power", plain2<PowerOp>},
                                     {"negate", plain1<NegateOp>},
                                     {"abs", plain1<AbsOp>},
                                     {"sign", plain1<SignOp>},
                                     {"exp", plain1<ExpOp>},
                                     {"log", plain1<LogOp>},
                                     {"log1p", plain1<Log1pOp>},
                                     {"expm1", plain1<Expm1Op>},
                                     {"sqrt", plain1<SqrtOp>},
                                     {"rsqrt", plain1<RsqrtOp>},
                                     {"reciprocal", plain1<ReciprocalOp>},
                                     {"square", plain1<SquareOp>},
                                     {"tanh", plain1<TanhOp>},
                                     {"sigmoid", plain1<SigmoidOp>},
                                     {"silu", plain1<SiluOp>},
                                     {"relu", plain1<ReluOp>},
                                     {"leaky_relu", plain1<LeakyReluOp>},
                                     {"elu", plain1<EluOp>},
                                     {"softplus", plain1<SoftplusOp>},
                                     {"erf", plain1<ErfOp>},
                                     {"gelu", plain1<GeluOp>},
                                     {"gelu_tanh", plain1<GeluTanhOp>},
                                     {"sin", plain1<SinOp>},
                                     {"cos", plain1<CosOp>},
                                     {"floor", plain1<FloorOp>},
                                     {"ceil", plain1<CeilOp>},
                                     {"round", plain1<RoundOp>},
                                     {"trunc", plain1<TruncOp>},
                                     {"copysign", plain2<CopySignOp>},
                                     {"logaddexp", plain2<LogAddExpOp>},
                                     {"clamp", plain1<ClampOp>},
                                     {"scale", plain1<ScaleOp>},
                                     {"add_scalar", plain1<AddScalarOp>},
                                     {"stop_gradient", plain1<CopyOp>},
                                     {"round_bf16", plain1<RoundBf16Op>},
                                     {"round_f16", plain1<RoundF16Op>},
                                     {"tanh_grad", plain2<TanhGradOp>},
                                     {"sigmoid_grad", plain2<SigmoidGradOp>},
                                     {"silu_grad", plain2<SiluGradOp>},
                                     {"relu_grad", plain2<ReluGradOp>},
                                     {"leaky_relu_grad", plain2<LeakyReluGradOp>},
                                     {"elu_grad", plain2<EluGradOp>},
                                     {"gelu_grad", plain2<GeluGradOp>},
                                     {"gelu_tanh_grad", plain2<GeluTanhGradOp>},
                                     {"clamp_grad", plain2<ClampGradOp>},
                                     {"is_finite", &test_floats<FiniteTest>},
                                     {"is_nan", &test_floats<NanTest>},
                                     {"is_inf", &test_floats<InfiniteTest>},
                                     {"equal", &test_floats<EqualTest>},
                                     {"not_equal", &test_floats<NotEqualTest>},
                                     {"less", &test_floats<LessTest>},
                                     {"less_equal", &test_floats<LessEqualTest>},
                                     {"greater", &test_floats<GreaterTest>},
                                     {"greater_equal", &test_floats<GreaterEqualTest>},
                                     {"select", &select_step},
                                     {"dropout", &dropout_step<float, float>}};
  return find(kTable, name);
}

StepFunction find_integer(std::string_view name) {
  static constexpr Named kTable[] = {{"add", &integers<AddInt>},
                                     {"subtract", &integers<SubtractInt>},
                                     {"multiply", &integers<MultiplyInt>},
                                     {"maximum", &integers<MaximumInt>},
                                     {"minimum", &integers<MinimumInt>},
                                     {"negate", &integers<NegateInt>},
                                     {"square", &integers<SquareInt>},
                                     {"relu", &integers<ReluInt>},
                                     {"logical_and", &integers<AndInt>},
                                     {"logical_or", &integers<OrInt>},
                                     {"logical_not", &integers<NotInt>},
                                     {"bitwise_and", &integers<AndInt>},
                                     {"bitwise_or", &integers<OrInt>},
                                     {"bitwise_xor", &integers<XorInt>},
                                     {"bitwise_not", &integers<FlipInt>},
                                     {"stop_gradient", &integers<CopyInt>},
                                     {"equal", &test_integers<EqualTest>},
                                     {"not_equal", &test_integers<NotEqualTest>},
                                     {"less", &test_integers<LessTest>},
                                     {"less_equal", &test_integers<LessEqualTest>},
                                     {"greater", &test_integers<GreaterTest>},
                                     {"greater_equal", &test_integers<GreaterEqualTest>},
                                     {"select", &select_step}};
  return find(kTable, name);
}

/// The forms of cheap ops, where a pass more over L1 would show beside memory.
template <template <class, class> class Loop>
StepFunction unary_form(MapForm a, MapForm result) {
  const bool narrow = a == MapForm::kBf16;
  if (result == MapForm::kBf16) return narrow ? &Loop<Bf16, Bf16>::run : &Loop<float, Bf16>::run;
  if (result == MapForm::kRounded) return narrow ? &Loop<Bf16, Rounded>::run : &Loop<float, Rounded>::run;
  return narrow ? &Loop<Bf16, float>::run : &Loop<float, float>::run;
}
template <class Op>
struct Unary {
  template <class A, class R>
  struct Loop {
    static void run(const StepCall& call) { unary<Op, A, R>(call); }
  };
};
template <class A, class R>
struct DropoutLoop {
  static void run(const StepCall& call) { dropout_step<A, R>(call); }
};

template <class Op, class A, class B>
StepFunction binary_result(MapForm result) {
  if (result == MapForm::kBf16) return &binary<Op, A, B, Bf16>;
  return result == MapForm::kRounded ? &binary<Op, A, B, Rounded> : &binary<Op, A, B, float>;
}
template <class Op>
StepFunction binary_form(MapForm a, MapForm b, MapForm result) {
  if (a == MapForm::kBf16)
    return b == MapForm::kBf16 ? binary_result<Op, Bf16, Bf16>(result) : binary_result<Op, Bf16, float>(result);
  return b == MapForm::kBf16 ? binary_result<Op, float, Bf16>(result) : binary_result<Op, float, float>(result);
}

// Of bf16 numbers by table, which is made here, before any step runs.
template <class Op>
struct Tabled {
  template <class A, class R>
  struct Loop {
    static void run(const StepCall& call) {
      if constexpr (std::is_same_v<A, Bf16>)
        look_up<Op>(static_cast<const Bf16*>(call.operands[0]), padded(call.count), static_cast<R*>(call.result));
      else
        unary<Op, A, R>(call);
    }
  };
};
template <class Op>
StepFunction tabled_form(MapForm a, MapForm result) {
  if (a == MapForm::kBf16) bf16_table<Op>();
  return unary_form<Tabled<Op>::template Loop>(a, result);
}
template <class Op, class A, class B, class R>
void multiply_slope(const StepCall& call) {
  multiply_looked_up<typename Op::Slope>(static_cast<const A*>(call.operands[0]),
                                         static_cast<const B*>(call.operands[1]), padded(call.count),
                                         static_cast<R*>(call.result));
}
template <class Op, class A, class B>
StepFunction slope_result(MapForm result) {
  if (result == MapForm::kBf16) return &multiply_slope<Op, A, B, Bf16>;
  return result == MapForm::kRounded ? &multiply_slope<Op, A, B, Rounded> : &multiply_slope<Op, A, B, float>;
}
template <class Op, class A>
StepFunction slope_operand(MapForm b, MapForm result) {
  bf16_table<typename Op::Slope>();
  return b == MapForm::kBf16 ? slope_result<Op, A, Bf16>(result) : slope_result<Op, A, float>(result);
}
template <class Op>
StepFunction slope_form(MapForm a, MapForm b, MapForm result) {
  return a == MapForm::kBf16 ? slope_operand<Op, Bf16>(b, result) : binary_form<Op>(a, b, result);
}

// The same of f32 registers that hold bf16 numbers.
template <class Op, class R>
void look_up_rounded(const StepCall& call) {
  look_up<Op>(static_cast<const Rounded*>(call.operands[0]), padded(call.count), static_cast<R*>(call.result));
}
template <class Op>
StepFunction rounded_form(MapForm result) {
  bf16_table<Op>();
  if (result == MapForm::kBf16) return &look_up_rounded<Op, Bf16>;
  return result == MapForm::kRounded ? &look_up_rounded<Op, Rounded> : &look_up_rounded<Op, float>;
}

StepFunction find_rounded(std::string_view name, MapForm b, MapForm result) {
  if (name == "gelu_grad") return slope_operand<GeluGradOp, Rounded>(b, result);
  if (name == "gelu_tanh_grad") return slope_operand<GeluTanhGradOp, Rounded>(b, result);
  if (name == "silu_grad") return slope_operand<SiluGradOp, Rounded>(b, result);
  if (b != MapForm::kF32) return nullptr;
  if (name == "gelu") return rounded_form<GeluOp>(result);
  if (name == "gelu_tanh") return rounded_form<GeluTanhOp>(result);
  if (name == "silu") return rounded_form<SiluOp>(result);
  if (name == "softplus") return rounded_form<SoftplusOp>(result);
  return nullptr;
}

StepFunction find_form(std::string_view name, MapForm a, MapForm b, MapForm result) {
  if (name == "add") return binary_form<AddOp>(a, b, result);
  if (name == "subtract") return binary_form<SubtractOp>(a, b, result);
  if (name == "multiply") return binary_form<MultiplyOp>(a, b, result);
  if (name == "gelu_grad") return slope_form<GeluGradOp>(a, b, result);
  if (name == "gelu_tanh_grad") return slope_form<GeluTanhGradOp>(a, b, result);
  if (name == "silu_grad") return slope_form<SiluGradOp>(a, b, result);
  if (name == "scale") return unary_form<Unary<ScaleOp>::Loop>(a, result);
  if (name == "relu") return unary_form<Unary<ReluOp>::Loop>(a, result);
  if (name == "gelu") return tabled_form<GeluOp>(a, result);
  if (name == "gelu_tanh") return tabled_form<GeluTanhOp>(a, result);
  if (name == "silu") return tabled_form<SiluOp>(a, result);
  if (name == "softplus") return tabled_form<SoftplusOp>(a, result);
  if (name == "sigmoid") return unary_form<Unary<SigmoidOp>::Loop>(a, result);
  if (name == "add_scalar") return unary_form<Unary<AddScalarOp>::Loop>(a, result);
  if (name == "round_bf16") return unary_form<Unary<RoundBf16Op>::Loop>(a, result);
  if (name == "stop_gradient") return unary_form<Unary<CopyOp>::Loop>(a, result);
  if (name == "dropout") return unary_form<DropoutLoop>(a, result);
  return nullptr;
}

StepFunction find_step(std::string_view name, DType type, MapForm a, MapForm b, MapForm result) {
  if (type == DType::kI32 || type == DType::kBool) return find_integer(name);
  if (type != DType::kF32) return nullptr;
  if (a == MapForm::kF32 && b == MapForm::kF32 && result == MapForm::kF32) return find_float(name);
  return a == MapForm::kRounded ? find_rounded(name, b, result) : find_form(name, a, b, result);
}

}  // namespace

const cpu::MapSteps* GetMapSteps() {
  static constexpr cpu::MapSteps kSteps{find_step,     find_cast, find_load,   find_store,
                                        store_rounded, add_to,    add_rows_to, add_to_lanes};
  return &kSteps;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetMapSteps);

const cpu::MapSteps& cpu::map_steps() {
  static const MapSteps* const steps = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetMapSteps)());
  return *steps;
}
}  // namespace ramet::kernel
#endif  // HWY_ONCE

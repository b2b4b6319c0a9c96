#include "ramet/kernel/cpu/map_wide.h"

#include <utility>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/map_wide.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math_wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::kMapPad;
using cpu::StepCall;
using cpu::StepFunction;

using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;

int64_t padded(int64_t count) { return (count + kMapPad - 1) / kMapPad * kMapPad; }

/// One loop over vectors; ops of one operand get it twice.
template <class Op>
void run(const StepCall& call) {
  const Df d;
  const auto* a = static_cast<const float*>(call.operands[0]);
  const auto* b = static_cast<const float*>(call.operands[1] ? call.operands[1] : call.operands[0]);
  auto* result = static_cast<float*>(call.result);
  const int64_t end = padded(call.count), step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < end; i += step)
    hn::StoreU(Op::apply(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, result + i);
}

#define RAMET_WIDE_OP(Name, expression)                                                  \
  struct Name {                                                                          \
    static HWY_INLINE Vf apply(Df d, Vf a, [[maybe_unused]] Vf b) { return expression; } \
  };
RAMET_WIDE_OP(Exp2Op, Exp2(d, a))
RAMET_WIDE_OP(Log2Op, Log2(d, a))
RAMET_WIDE_OP(Log10Op, Log10(d, a))
RAMET_WIDE_OP(TanOp, Tan(d, a))
RAMET_WIDE_OP(SinhOp, Sinh(d, a))
RAMET_WIDE_OP(CoshOp, Cosh(d, a))
RAMET_WIDE_OP(AsinhOp, Asinh(d, a))
RAMET_WIDE_OP(AcoshOp, Acosh(d, a))
RAMET_WIDE_OP(AtanhOp, Atanh(d, a))
RAMET_WIDE_OP(AsinOp, Asin(d, a))
RAMET_WIDE_OP(AcosOp, Acos(d, a))
RAMET_WIDE_OP(AtanOp, Atan(d, a))
RAMET_WIDE_OP(Atan2Op, Atan2(d, a, b))
RAMET_WIDE_OP(HypotOp, Hypot(d, a, b))
RAMET_WIDE_OP(ErfcOp, Erfc(d, a))
RAMET_WIDE_OP(LgammaOp, Lgamma(d, a))
RAMET_WIDE_OP(DigammaOp, Digamma(d, a))
RAMET_WIDE_OP(TrigammaOp, Trigamma(d, a))
#undef RAMET_WIDE_OP

/// Element by element.
template <float (*Function)(float, float)>
void run_each(const StepCall& call) {
  const auto* a = static_cast<const float*>(call.operands[0]);
  const auto* b = static_cast<const float*>(call.operands[1]);
  auto* result = static_cast<float*>(call.result);
  for (int64_t i = 0; i < call.count; ++i) result[i] = Function(a[i], b[i]);
}

}  // namespace

StepFunction FindWideStep(std::string_view name) {
  static constexpr std::pair<std::string_view, StepFunction> kTable[] = {
      {"exp2", &run<Exp2Op>},
      {"log2", &run<Log2Op>},
      {"log10", &run<Log10Op>},
      {"tan", &run<TanOp>},
      {"sinh", &run<SinhOp>},
      {"cosh", &run<CoshOp>},
      {"asinh", &run<AsinhOp>},
      {"acosh", &run<AcoshOp>},
      {"atanh", &run<AtanhOp>},
      {"asin", &run<AsinOp>},
      {"acos", &run<AcosOp>},
      {"atan", &run<AtanOp>},
      {"atan2", &run<Atan2Op>},
      {"hypot", &run<HypotOp>},
      {"erfc", &run<ErfcOp>},
      {"lgamma", &run<LgammaOp>},
      {"digamma", &run<DigammaOp>},
      {"trigamma", &run<TrigammaOp>},
      {"remainder", &run_each<remainder_of>},
      {"fmod", &run_each<fmod_of>},
      {"floor_divide", &run_each<floor_quotient_of>}};
  for (const auto& [known, function] : kTable)
    if (known == name) return function;
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(FindWideStep);

cpu::StepFunction cpu::find_wide_step(std::string_view name) {
  cpu_level();
  return HWY_DYNAMIC_DISPATCH(FindWideStep)(name);
}
}  // namespace ramet::kernel
#endif  // HWY_ONCE

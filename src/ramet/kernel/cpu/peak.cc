#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/peak.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/peak.h"
#include "ramet/kernel/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double FmaLoop(int64_t rounds) {
  constexpr int kChains = 12;
  const hn::ScalableTag<float> df;
  const auto factor = hn::Set(df, 1e-3f);
  hn::Vec<decltype(df)> sums[kChains];
  RAMET_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Zero(df);
  for (int64_t round = 0; round < rounds; ++round) {
    RAMET_UNROLL
    for (int i = 0; i < kChains; ++i) {
      sums[i] = hn::MulAdd(factor, factor, sums[i]);
#if HWY_TARGET != HWY_SCALAR && HWY_COMPILER_GCC_ACTUAL  // clang knows vectors of functions' own targets in no asm
      asm volatile("" : "+v"(sums[i].raw));              // each is done, in a register
#endif
    }
  }
  HWY_ALIGN float kept[hn::MaxLanes(df)];
  RAMET_UNROLL
  for (int i = 0; i < kChains; ++i) {
    hn::Store(sums[i], df, kept);
    volatile float sink = kept[0];
    (void)sink;
  }
  return static_cast<double>(rounds) * kChains * static_cast<double>(hn::Lanes(df)) * 2;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(FmaLoop);
#if defined(__x86_64__)
double fma_loop_bf16(int64_t rounds);
double fma_loop_amx(int64_t rounds);
#endif

double fma_loop(bool bf16, int64_t rounds) {
#if defined(__x86_64__)
  if (cpu_level() >= CpuLevel::kAmxBf16 && bf16) return fma_loop_amx(rounds);
  if (cpu_level() >= CpuLevel::kAvx512Bf16 && bf16) return fma_loop_bf16(rounds);
#endif
  (void)bf16;
  cpu_level();
  return HWY_DYNAMIC_DISPATCH(FmaLoop)(rounds);
}

}  // namespace ramet::kernel
#endif

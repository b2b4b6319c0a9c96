#include "ramet/kernel/cpu/cpu_features.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <hwy/highway.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/onednn.h"

namespace ramet::kernel {
namespace {

const std::vector<std::string>& level_names() {
  static const std::vector<std::string> names{"baseline", "avx2", "avx512", "avx512_bf16", "amx_bf16"};
  return names;
}

/// Whether the processor multiplies tiles of bf16, and the kernel lets this process use their registers.
bool gets_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kTiles = 1u << 24, kTilesOfBf16 = 1u << 22, kBoth = kTiles | kTilesOfBf16;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & kBoth) != kBoth) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

CpuLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuLevel::kBaseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512cd"))
    return CpuLevel::kAvx2;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuLevel::kAvx512;
  return gets_tiles() ? CpuLevel::kAmxBf16 : CpuLevel::kAvx512Bf16;
#else
  return CpuLevel::kBaseline;
#endif
}

CpuLevel lowered(CpuLevel found) {
  const char* wish = std::getenv("RAMET_CPU");
  if (!wish || !*wish) return found;
  const auto& names = level_names();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == wish) return std::min(found, static_cast<CpuLevel>(i));
  throw Error({.what = "unknown instruction set",
               .where = "environment variable RAMET_CPU",
               .found = wish,
               .expected = "baseline, avx2, avx512, avx512_bf16 or amx_bf16",
               .remedy = "Unset it to use all that the processor has"});
}

/// Highway's targets above the level, as a mask of those to disable.
int64_t highway_targets_above(CpuLevel level) {
  int64_t above = 0;
#if defined(__x86_64__)
  if (level < CpuLevel::kAvx512) above |= HWY_AVX3 | HWY_AVX3_DL;
  if (level < CpuLevel::kAvx2) above |= HWY_AVX2;
#else
  (void)level;
#endif
  return above;
}

}  // namespace

CpuLevel cpu_level() {
  static const CpuLevel level = [] {
    const CpuLevel decided = lowered(detect());
    if (const int64_t above = highway_targets_above(decided)) hwy::DisableTargets(above);
    onednn::limit_isa(decided);
    return decided;
  }();
  return level;
}

std::string name_of(CpuLevel level) { return level_names()[static_cast<size_t>(level)]; }

std::string cpu_kernel_class() {
  const bool plain = cpu_level() >= CpuLevel::kAvx512 && !onednn::built();
  return "cpu-" + name_of(cpu_level()) + (plain ? "-plain" : "");
}

std::string cpu_model() {
#if defined(__x86_64__)
  unsigned words[12] = {}, eax = 0, ebx = 0, ecx = 0, edx = 0;
  char brand[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf)
    __get_cpuid(0x80000002u + leaf, &words[leaf * 4], &words[leaf * 4 + 1], &words[leaf * 4 + 2], &words[leaf * 4 + 3]);
  std::memcpy(brand, words, 48);
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  std::string name = brand;
  name.erase(name.find_last_not_of(' ') + 1);
  return name + " signature " + std::to_string(eax);
#else
  return "generic";
#endif
}

}  // namespace ramet::kernel

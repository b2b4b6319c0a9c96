#pragma once

#include <string>

namespace ramet::kernel {

/// Instruction sets that kernels tell apart, each containing those before it.
enum class CpuLevel { kBaseline, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

/// The level at which this process computes: the processor's, lowered by environment variable RAMET_CPU
/// ("baseline", "avx2", "avx512", "avx512_bf16", "amx_bf16"; another word throws Error). Decided once, on the first
/// call, which also holds Highway and oneDNN to that level: every entry to CPU kernels calls it first. Tiles of AMX are
/// registers that Linux hands out on request: the level is kAmxBf16 only where this process got them.
CpuLevel cpu_level();

/// "avx512_bf16" and so on.
std::string name_of(CpuLevel level);

/// The kernel class within which bits are promised: "cpu-" and the level's name, and "-plain" where oneDNN would
/// compute products at this level but this build has none: the order of their sums is another one.
std::string cpu_kernel_class();

/// The processor's own name for itself, with family, model and stepping. A cached proof holds for one such name.
std::string cpu_model();

}  // namespace ramet::kernel

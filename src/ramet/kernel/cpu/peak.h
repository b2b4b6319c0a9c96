#pragma once

#include <cstdint>

namespace ramet::kernel {

/// Runs a plain loop of independent fused multiply-adds (of pairs of bf16 into f32 where `bf16` and the processor has
/// them, of f32 otherwise) for `rounds` rounds on the calling thread, to find the most that a core can do. Returns the
/// floating-point operations done; a multiply-add counts two.
double fma_loop(bool bf16, int64_t rounds);

}  // namespace ramet::kernel

#pragma once

#include "divider.h"
#include "kernel.cuh"

namespace ramet_device {

/// n / by; kFast: both are below 2^31.
template <bool kFast>
__device__ __forceinline__ Index quotient(Index n, const Divider& by) {
  if (!kFast) return n / by.divisor;
  const unsigned whole = static_cast<unsigned>(n);
  return by.magic == 0u ? whole : __umulhi(whole, by.magic) >> by.shift;
}
/// n modulo `by`; n becomes the quotient.
template <bool kFast>
__device__ __forceinline__ Index take_digit(Index& n, const Divider& by) {
  const Index before = n;
  n = quotient<kFast>(before, by);
  return before - n * by.divisor;
}

}  // namespace ramet_device

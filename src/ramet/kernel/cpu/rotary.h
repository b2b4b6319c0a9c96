#pragma once

#include "ramet/kernel/kernel.h"
#include "ramet/ops/rotary.h"

namespace ramet::kernel {

/// Adds the kernel of `rotary`.
void add_cpu_rotary(Backend& backend);

namespace cpu {

/// Operands of a `rotary` node, and room for 4 `pairs` numbers of a thread.
struct RotaryArguments {
  RotaryForm form;
  DType dtype;
  const void* a;
  const float *cosine, *sine;
  void* out;
  float* doubled;
};

}  // namespace cpu
}  // namespace ramet::kernel

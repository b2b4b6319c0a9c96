#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Adds the kernels of `attention`, `attention_grad` and `cached_attention`, "tiles", and of `rotary`.
void add_cpu_attention(Backend& backend);

}  // namespace ramet::kernel

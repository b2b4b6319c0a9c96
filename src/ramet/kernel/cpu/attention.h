#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Adds the kernels of `attention` and `attention_grad`: "tiles".
void add_cpu_attention(Backend& backend);

}  // namespace ramet::kernel

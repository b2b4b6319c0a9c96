#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Adds the kernels of `matmul`, `linear` and `block`: "onednn", then "plain".
void add_cpu_matmul(Backend& backend);

}  // namespace ramet::kernel

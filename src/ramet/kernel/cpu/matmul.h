#pragma once

#include <string>

#include "ramet/kernel/cpu/prepared_matmul.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Adds the kernels of `matmul`, `linear` and `block`: "tiles", "onednn", then "plain".
void add_cpu_matmul(Backend& backend);

/// The kernel of `op`, a `matmul` or `linear`, by one kind of products.
KernelEntry matmul_entry(const std::string& op, BlockProduct kind);

}  // namespace ramet::kernel

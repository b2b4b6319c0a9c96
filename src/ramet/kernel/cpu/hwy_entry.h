#pragma once

#include "ramet/kernel/cpu/families.h"

namespace ramet::kernel::cpu {

/// The entry that `add_hwy` adds, for kernels that say more of themselves than it takes.
KernelEntry hwy_entry(const std::string& op, std::function<std::string(const NodeSignature&)> refuse, MakeFunction make,
                      ScratchFunction scratch = {});

}  // namespace ramet::kernel::cpu

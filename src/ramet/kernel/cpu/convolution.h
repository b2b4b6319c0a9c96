#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Adds the kernels of the three ops of convolution (ops/convolution.h): "channels" where each group is one channel,
/// and "tiles"; and that of `block` for filters. No sum depends on the team, on how samples, positions, groups or
/// channels of the result are cut, or on where the operands lie.
void add_cpu_convolution(Backend& backend);

}  // namespace ramet::kernel

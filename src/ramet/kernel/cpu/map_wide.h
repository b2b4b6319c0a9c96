#pragma once

#include <string_view>

#include "ramet/kernel/cpu/map_steps.h"

namespace ramet::kernel::cpu {

/// The loop of a map op on f32 registers that is computed in f64 vectors (kernel/cpu/math_wide-inl.h), or element by
/// element in double (kernel/cpu/scalar_math.h); null for other ops.
StepFunction find_wide_step(std::string_view name);

}  // namespace ramet::kernel::cpu

#pragma once

#include <cstdint>

namespace ramet::kernel {

// The rare functions that are computed an element at a time in double, without libm.

/// x less the nearest multiple `quarters` (modulo 4) of pi/2, correctly rounded in all but few cases; any finite x.
/// Infinite and NaN give NaN.
float reduce_quarter_turns(float x, int32_t* quarters);

/// a to the power b with C's special values, within 1 ulp of f32.
float power_of(float a, float b);

}  // namespace ramet::kernel

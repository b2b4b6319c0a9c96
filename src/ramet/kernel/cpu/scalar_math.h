#pragma once

#include <cstdint>

namespace ramet::kernel {

// The rare functions that are computed an element at a time in double, without libm.

/// x less the nearest multiple `quarters` (modulo 4) of pi/2, correctly rounded in all but few cases; any finite x.
/// Infinite and NaN give NaN.
float reduce_quarter_turns(float x, int32_t* quarters);

/// The exact rest of a / b with the quotient cut towards zero (as C's fmod), or rounded down (the sign is b's); then
/// rounded to f32. NaN where a is infinite or b is 0.
float fmod_of(float a, float b);
float remainder_of(float a, float b);
/// The exact quotient rounded down to a whole number, then to f32; a / b where b is 0 or the quotient is not finite.
float floor_quotient_of(float a, float b);

/// a to the power b with C's special values, within 1 ulp of f32.
float power_of(float a, float b);

}  // namespace ramet::kernel

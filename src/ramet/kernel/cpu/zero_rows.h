#pragma once

#include <cstdint>

// Products of f32 leave out rows of zeros. Every batch of graphs or events has as many rows as the largest batch needs.
// The rows that a smaller batch does not use are zero, and so are masked rows; the gradients of such rows are zero,
// too. A product of 0 and a finite number is 0, and adding 0 changes no sum, so these rows need no multiplication.
namespace ramet::kernel {

/// So many rows are looked at, and left out, at once.
constexpr int64_t kZeroGroup = 16;

/// Whether all of rows x width floats are 0 or -0; rows are `stride` floats apart. Ends at the first that is not.
bool are_zero(const float* data, int64_t rows, int64_t width, int64_t stride);
/// Whether none of them is infinite or NaN.
bool are_finite(const float* data, int64_t rows, int64_t width, int64_t stride);

}  // namespace ramet::kernel

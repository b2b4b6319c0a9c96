#pragma once

#include <cstdint>
#include <vector>

// Rows of zeros in products of f32. Batches of graphs and events have room for the largest of them, and what lies in
// the room that is left over, or in rows that were masked, is zero: so are its gradients. A product with zeros is zero
// unless the other factor is infinite or NaN, and adding zero changes no sum, so such rows need no multiplication.
namespace ramet::kernel {

/// So many rows are looked at, and left out, at once.
constexpr int64_t kZeroGroup = 16;

/// Whether all of rows x width floats are 0 or -0; rows are `stride` floats apart. Ends at the first that is not.
bool are_zero(const float* data, int64_t rows, int64_t width, int64_t stride);
/// Whether none of them is infinite or NaN.
bool are_finite(const float* data, int64_t rows, int64_t width, int64_t stride);

/// Which groups of kZeroGroup rows of a dense matrix hold more than zeros, in order; the last group may have fewer
/// rows.
std::vector<int64_t> filled_groups(const float* data, int64_t rows, int64_t width);

}  // namespace ramet::kernel

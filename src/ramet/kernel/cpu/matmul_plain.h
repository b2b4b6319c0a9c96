#pragma once

#include <cstdint>

namespace ramet::kernel {

/// Columns of a block that suit the vectors at hand.
int64_t plain_block();

/// c [m,n] = a [m,k] x b: f32, dense; b blocked (blocking.h) in column blocks of plain_block(). Each element is the
/// chain of fused multiply-adds over k in order, from zero. `c_stride` is the distance of c's rows.
void plain_product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t c_stride);

}  // namespace ramet::kernel

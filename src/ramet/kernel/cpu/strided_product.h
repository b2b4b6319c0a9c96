#pragma once

#include <cstdint>

namespace ramet::kernel {

/// Rows of a product of f32 matrices whose operands are read as they lie: element (i, p) of a is a[i * a_row + p *
/// a_k], rows of b and c are `b_stride` and `c_stride` floats apart. `work` holds m * c_stride floats.
struct StridedProduct {
  int64_t m, n, k;
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;  ///< at least n rounded up to 16; floats between are overwritten
  float* work;
};

/// k of the chains that a sum of `k` products is made of: oneDNN's products of f32 on AVX-512 have these sums.
int64_t strided_chain(int64_t k);

/// c = a x b. Each element is a chain of fused multiply-adds over each strided_chain(k) of k, from zero; chains are
/// added in order. Suits narrow matrices, and an a that lies transposed: no operand is copied.
void strided_product(const StridedProduct& product);

}  // namespace ramet::kernel

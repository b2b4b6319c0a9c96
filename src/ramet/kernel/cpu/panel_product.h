#pragma once

#include <cstdint>

namespace ramet::kernel {

/// Rows of a product of f32 matrices: those of `a` and of `out` as they lie, so many floats apart, b blocked
/// (BlockedMatrix): panels of `panel_columns` columns, one `panel_stride` floats behind the other, each row by row, the
/// last one filled up. `bias` has n floats, or is null.
struct PanelProduct {
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t panel_columns, panel_stride;
  const float* bias;
  float* out;
  int64_t out_stride;
};

/// out = a x b + bias. Each element is a chain of k fused multiply-adds from zero, to which the bias is added: where
/// strided_chain(k) is k, oneDNN's products of f32 on AVX-512 have these bits. Suits narrow matrices and any number of
/// rows: a call costs no more than its multiply-adds.
void panel_product(const PanelProduct& product);

}  // namespace ramet::kernel

#pragma once

#include <optional>

#include "ramet/ops/build.h"

namespace ramet::ops {

// Products with block-sparse matrices (ops/sparse.h).

/// Elements of a cell.
struct SparseCell {
  int64_t rows = 0, columns = 0;
};
/// x [..., columns] by the transposed sparse matrix: [..., rows]; with `transpose`, x [..., rows]: [..., columns].
Tensor sparse_matmul(Tensor x, Tensor values, Tensor index, const SparseCell& cell, bool transpose = false,
                     std::optional<DType> dtype = {});
/// The products a[..., i] b[..., j] at the stored elements, summed over all leading dimensions: f32 [R, C, slots, block
/// rows, block columns]. The gradient of the values of a sparse matrix.
Tensor sparse_outer(Tensor a, Tensor b, Tensor index, const SparseCell& cell, int64_t block_rows,
                    int64_t block_columns);

}  // namespace ramet::ops

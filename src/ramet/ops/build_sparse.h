#pragma once

#include <optional>

#include "ramet/ops/build.h"

namespace ramet::ops {

// Products with block-sparse matrices (ops/sparse.h).

/// Elements of a cell. `fixed`: the index never changes, which machines that place blocks ahead may use.
struct SparseCell {
  int64_t rows = 0, columns = 0;
  bool fixed = false;
};
/// x [..., columns] by the transposed sparse matrix: [..., rows]; with `transpose`, x [..., rows]: [..., columns].
/// Values of 6 dimensions are those of several products: their first dimension is x's first one.
Tensor sparse_matmul(Tensor x, Tensor values, Tensor index, const SparseCell& cell, bool transpose = false,
                     std::optional<DType> dtype = {});
/// The products a[..., i] b[..., j] at the stored elements, summed over all leading dimensions: f32 [R, C, slots, block
/// rows, block columns]. The gradient of the values of a sparse matrix. With `grouped` the first dimension of a, b and
/// the result is the number of a product, and is not summed over.
Tensor sparse_outer(Tensor a, Tensor b, Tensor index, const SparseCell& cell, int64_t block_rows, int64_t block_columns,
                    bool grouped = false);

/// Softmax over the stored elements of each row of a matrix (or of several): values and result [..., R, C, slots,
/// block rows, block columns]. `keep`: "all"; "lower": only where the column is at most the row, as causal attention
/// needs; "upper": only where it is at least the row. Other elements, and rows without any, become 0.
Tensor sparse_softmax(Tensor values, Tensor index, const SparseCell& cell, const std::string& keep = "all");

/// Rows `numbers` [I...] of a sparse table [rows, columns] as dense ones: [I..., columns]. With the values and the
/// index of a sparse_matmul, the table is tied to it. A number outside of the table is an error at run time.
Tensor sparse_gather(Tensor numbers, Tensor values, Tensor index, const SparseCell& cell);

/// Rows [I..., columns] added at the rows `numbers` [I...] of a sparse table: f32 values at the blocks of `index`. Sums
/// are in order of position. The gradient of sparse_gather.
Tensor sparse_scatter_add(Tensor numbers, Tensor rows, Tensor index, const SparseCell& cell, int64_t block_rows,
                          int64_t block_columns);

/// softmax(scale q k^T) v over the stored blocks of a matrix [queries, keys]: q [..., queries, depth], k [..., keys,
/// depth], v [..., keys, width] -> [..., queries, width]. All leading dimensions share the index.
Tensor sparse_attention(Tensor q, Tensor k, Tensor v, Tensor index, const SparseCell& cell, int64_t block_rows,
                        int64_t block_columns, double scale, const std::string& keep = "all");

}  // namespace ramet::ops

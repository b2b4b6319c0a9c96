#pragma once

#include <optional>

#include "ramet/ops/build.h"
#include "ramet/ops/sparse.h"

namespace ramet::ops {

// Products with block-sparse matrices (ops/sparse.h).

/// Elements of a cell. `fixed`: the index never changes, which machines that place blocks ahead may use. `padding`:
/// rows at the end of the matrix that mean nothing.
struct SparseCell {
  int64_t rows = 0, columns = 0;
  bool fixed = false;
  int64_t padding = 0;
  int64_t stacked = 1;  ///< matrices, one above the other, which products meet apart
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

// Patterns that change (ops/sparse_evolve.h).

struct SparseEvolveOptions {
  SparseGrid grid;
  double prune_ratio = 0.5;
  std::string prune_schedule = "cosine";  ///< "linear", "constant"
  int64_t prune_end = 0;                  ///< steps done when the ratio is 0
  int64_t first = 0, last = 0;            ///< stored blocks of a cell, until `ramp_begin` and from `ramp_end` on
  int64_t ramp_begin = 0, ramp_end = 0;
  bool regrow_pruned = false;  ///< drawn blocks may be such as were just dropped
  int64_t seed = 0;
  std::string random_name{};  ///< logical tensor of its random numbers
  std::string age = "auto";   ///< whose steps correct the moments of a new block: "own", "shared", "auto"
  std::string norm = "l1";    ///< of gradients by which candidates are found
  bool fisher = false;        ///< a training multiplies the squares in the scores by means of squared gradients
};
/// The next index, and of each slot the slot that it had before, -1 of new blocks. `counter` is the scalar input
/// i64[2]; `candidates` are those of sparse_candidates, or not valid: new blocks are drawn.
std::pair<Tensor, Tensor> sparse_evolve(Tensor index, Tensor scores, Tensor counter, Tensor candidates,
                                        const SparseEvolveOptions& options);
/// x [R, C, slots, ...] with each slot's part in its new slot, and `fresh` [] in the parts of new blocks.
Tensor sparse_carry(Tensor source, Tensor x, Tensor fresh);
/// The set of blocks that were ever stored, as bits i32 [R, C, words], with those of `index`; and f32 [R, C]: how many
/// they are.
std::pair<Tensor, Tensor> sparse_explore(Tensor explored, Tensor index, const SparseGrid& grid);
/// The blocks that are not stored with the greatest norms ("l1", "l2" or "max") of the gradient a^T b.
Tensor sparse_candidates(Tensor a, Tensor b, Tensor index, const SparseGrid& grid, const std::string& norm);

struct AdamOwnSteps {
  Tensor births;   ///< f32 of the weight's shape: the number of updates before each element was new
  Tensor updates;  ///< f32[]: before this one
  Tensor rate, grad_scale;
};
/// Adam whose moments are corrected by the steps of each element: t = 1 + updates - birth.
AdamResult adam_by_own_steps(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamOwnSteps& scalars,
                             const AdamOptions& options, const StateForm& form = {});

}  // namespace ramet::ops

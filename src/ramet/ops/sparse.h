#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ramet/ir/op.h"
#include "ramet/ops/position.h"

namespace ramet::ops {

// Block-sparse weights. The logical matrix [rows, columns] (a layer's outputs by its inputs) is a grid of
// R x C cells of equal size. A cell is a grid of blocks, and stores `slots` of
// them: the same number in every cell, so that a device that holds some cells knows its memory and its work before the
// first step, whatever the pattern is.
//
// - values [R, C, slots, block rows, block columns]: the stored blocks;
// - index i32 [R, C, slots]: of each, its number in its cell (row of blocks by row of blocks), ascending. Behind the
//   stored blocks of a cell there may be unused slots, kUnusedSlot. Nothing reads their values; results have 0 there.
//
// An element of a product is, for each cell along the sum, one chain of fused multiply-adds over the stored elements in
// ascending logical order, from +0, in f32; the cells' sums meet in a balanced tree (ops/reduce_order.h). A zero does
// not show in such a chain, so the size of the blocks, and stored zeros, change no bit.

inline constexpr int32_t kUnusedSlot = -1;

/// A grid of cells and blocks.
struct SparseGrid {
  int64_t cells_down = 0, cells_across = 0;  ///< R and C
  int64_t cell_rows = 0, cell_columns = 0;   ///< elements of a cell
  int64_t block_rows = 0, block_columns = 0;
  int64_t slots = 0;    ///< stored blocks of a cell
  int64_t padding = 0;  ///< rows at the end that mean nothing, for files of the dense matrix
  int64_t stacked = 1;  ///< matrices, one above the other, which products meet apart; they divide cells_down

  int64_t rows() const { return cells_down * cell_rows; }
  int64_t columns() const { return cells_across * cell_columns; }
  int64_t cells() const { return cells_down * cells_across; }
  int64_t blocks_down() const { return cell_rows / block_rows; }
  int64_t blocks_across() const { return cell_columns / block_columns; }
  int64_t blocks() const { return blocks_down() * blocks_across(); }  ///< of a cell
  int64_t block_elements() const { return block_rows * block_columns; }
  int64_t stored_elements() const { return cells() * slots * block_elements(); }
};

/// Several products at once: `count` matrices of one grid, which share one pattern or have one each (an index of 4
/// dimensions). The first dimension of every operand but a shared index is then the matrix.
struct SparseGroups {
  int64_t count = 1;
  bool own_index = false;
  int64_t patterns() const { return own_index ? count : 1; }
};

/// How an activation of a sparse product lies: in rows, [tokens, features], or in panels, [panels, features, tokens of
/// a panel], where the tokens of a feature are side by side, as they are multiplied.
struct SparseActivation {
  int64_t features = 0;
  int64_t panel = 0;  ///< tokens of a panel; 0: rows

  /// Which element holds a feature of a token.
  int64_t element(int64_t token, int64_t feature) const {
    if (panel == 0) return token * features + feature;
    return (token / panel * features + feature) * panel + token % panel;
  }
};

/// Which operands of a node are activations of a product with a block-sparse matrix.
struct SparseActivationNames {
  std::vector<std::string> inputs;  ///< by input, from the first on, as attributes call them: "x", or "a" and "b"
  bool result = false;              ///< whether the result is one, too
};
/// No inputs: the node is no such product.
SparseActivationNames sparse_activations(const NodeSignature& node);

/// A node `sparse_matmul`: x [tokens, columns] by the transposed matrix gives [tokens, rows]; with `transpose`, x
/// [tokens, rows] by the matrix gives [tokens, columns]. Values of 6 dimensions are those of several products.
struct SparseMatmulForm {
  SparseGrid grid;
  SparseGroups groups;
  bool transpose = false;
  bool fixed = false;  ///< the pattern never changes
  int64_t tokens = 0;  ///< of one product
  SparseActivation x, y;
  TensorType output;
  int64_t in() const { return transpose ? grid.rows() : grid.columns(); }
  int64_t out() const { return transpose ? grid.columns() : grid.rows(); }
};
/// Throws Error naming the node when the operands do not fit.
SparseMatmulForm sparse_matmul_form(const NodeSignature& node);

/// A node `sparse_outer` (with `grouped`: several products): for a [tokens, rows] and b [tokens, columns], sum over
/// tokens of a[t, i] b[t, j] at the stored elements, f32.
///
/// Order of the sum: parts of kOuterTokens tokens, one after another, from +0. In a part, lane l of 16 is a chain of
/// fused multiply-adds over its tokens; then lane l += lane l + 8, + 4, + 2, + 1. Of f32, token t belongs to lane t mod
/// 16. Of narrower types, lane l takes tokens 32 i + 2 l + 1 and 32 i + 2 l, in this order, as the processors'
/// instructions for pairs do.
struct SparseOuterForm {
  SparseGrid grid;
  SparseGroups groups;
  bool fixed = false;  ///< the pattern never changes
  int64_t tokens = 0;  ///< of one product
  SparseActivation a, b;
};
SparseOuterForm sparse_outer_form(const NodeSignature& node);
inline constexpr int64_t kOuterTokens = 512;

/// The work of a product with a sparse matrix, for machines that plan it.
struct SparseWork {
  SparseGrid grid;
  int64_t groups = 1;    ///< such products
  int64_t tokens = 0;    ///< of one product
  bool sampled = false;  ///< two dense operands; the stored blocks are the result
  bool fixed = false;    ///< the pattern never changes
  DType operands = DType::kF32;
};
/// Nothing for nodes that are no such products.
std::optional<SparseWork> sparse_work(const NodeSignature& node);

/// Which elements of stored blocks take part: all, or those at or below (above) the diagonal of the matrix.
enum class SparseKeep { kAll, kLower, kUpper };

/// A node `sparse_softmax` or `sparse_softmax_grad`: over the stored elements of each row of a matrix. Elements that do
/// not take part become 0.
///
/// Order of the sums over a row: lane l of 16 is a chain over the columns that are l mod 16, ascending; then lane l +=
/// lane l + 8, + 4, + 2, + 1. So the size of the blocks changes no bit.
struct SparseSoftmaxForm {
  SparseGrid grid;
  SparseGroups groups;
  SparseKeep keep = SparseKeep::kAll;
};
SparseSoftmaxForm sparse_softmax_form(const NodeSignature& node);

/// A node `sparse_gather` (values are input 1, the index input 2) or `sparse_scatter_add` (the index is input 2): rows
/// of a sparse table by numbers i32 or i64. Sums over equal numbers are chains of additions in order of position. A
/// device may hold some rows of the table's cells: it gives rows of -0 for the others, so that the devices' results add
/// up to the bits of the whole, and passes over updates of the others.
struct SparseRowsForm {
  SparseGrid grid;
  int64_t numbers = 0;  ///< how many rows are asked for
};
SparseRowsForm sparse_rows_form(const NodeSignature& node);

/// Of a device that holds some rows of a table's cells: which of its rows is row `number`, the i-th of a node's, of the
/// whole table; -1 where another device holds the row. `position` and `grid` are those of the node. Throws Error unless
/// the table has the row.
int64_t sparse_row_here(const NodeSignature& node, const Position& position, const SparseGrid& grid, int64_t i,
                        int64_t number);

/// The grid of the index in input `at`, with cells and blocks of these sizes; of the index of several products, if
/// `groups` is not null.
SparseGrid sparse_grid_of(const NodeSignature& node, size_t at, const std::vector<int64_t>& cell, int64_t block_rows,
                          int64_t block_columns, SparseGroups* groups);
/// The attribute `name`: two positive numbers.
std::vector<int64_t> sparse_pair(const NodeSignature& node, const std::string& name);

/// Throws Error unless the numbers of every cell ascend within the cell's blocks, before its unused slots. `index` is
/// what a node's index holds.
void check_sparse_index(const NodeSignature& node, const SparseGrid& grid, const int32_t* index, int64_t patterns = 1);

/// How many slots of the cell with this index are used.
int64_t used_slots(const SparseGrid& grid, const int32_t* index);

}  // namespace ramet::ops

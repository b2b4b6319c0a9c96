#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

// Block-sparse weights. The logical matrix [rows, columns] (a layer's outputs by its inputs) is a grid of
// R x C cells of equal size. A cell is a grid of blocks, and stores `slots` of
// them: the same number in every cell, so that a device that holds some cells knows its memory and its work before the
// first step, whatever the pattern is.
//
// - values [R, C, slots, block rows, block columns]: the stored blocks;
// - index i32 [R, C, slots]: of each, its number in its cell (row of blocks by row of blocks), ascending.
//
// An element of a product is, for each cell along the sum, one chain of fused multiply-adds over the stored elements in
// ascending logical order, from +0, in f32; the cells' sums meet in a balanced tree (ops/reduce_order.h). A zero does
// not show in such a chain, so the size of the blocks, and stored zeros, change no bit.

/// A grid of cells and blocks.
struct SparseGrid {
  int64_t cells_down = 0, cells_across = 0;  ///< R and C
  int64_t cell_rows = 0, cell_columns = 0;   ///< elements of a cell
  int64_t block_rows = 0, block_columns = 0;
  int64_t slots = 0;  ///< stored blocks of a cell

  int64_t rows() const { return cells_down * cell_rows; }
  int64_t columns() const { return cells_across * cell_columns; }
  int64_t cells() const { return cells_down * cells_across; }
  int64_t blocks_down() const { return cell_rows / block_rows; }
  int64_t blocks_across() const { return cell_columns / block_columns; }
  int64_t blocks() const { return blocks_down() * blocks_across(); }  ///< of a cell
  int64_t block_elements() const { return block_rows * block_columns; }
  int64_t stored_elements() const { return cells() * slots * block_elements(); }
};

/// A node `sparse_matmul`: x [tokens, columns] by the transposed matrix gives [tokens, rows]; with `transpose`, x
/// [tokens, rows] by the matrix gives [tokens, columns].
struct SparseMatmulForm {
  SparseGrid grid;
  bool transpose = false;
  int64_t tokens = 0;
  TensorType output;
  int64_t in() const { return transpose ? grid.rows() : grid.columns(); }
  int64_t out() const { return transpose ? grid.columns() : grid.rows(); }
};
/// Throws Error naming the node when the operands do not fit.
SparseMatmulForm sparse_matmul_form(const NodeSignature& node);

/// A node `sparse_outer`: for a [tokens, rows] and b [tokens, columns], sum over tokens of a[t, i] b[t, j] at the
/// stored elements, f32.
///
/// Order of the sum: parts of kOuterTokens tokens, one after another, from +0. In a part, lane l of 16 is a chain of
/// fused multiply-adds over its tokens; then lane l += lane l + 8, + 4, + 2, + 1. Of f32, token t belongs to lane t mod
/// 16. Of narrower types, lane l takes tokens 32 i + 2 l + 1 and 32 i + 2 l, in this order, as the processors'
/// instructions for pairs do.
struct SparseOuterForm {
  SparseGrid grid;
  int64_t tokens = 0;
};
SparseOuterForm sparse_outer_form(const NodeSignature& node);
inline constexpr int64_t kOuterTokens = 512;

/// Throws Error unless the numbers of every cell ascend within the cell's blocks. `index` is what a node's index holds.
void check_sparse_index(const NodeSignature& node, const SparseGrid& grid, const int32_t* index);

}  // namespace ramet::ops

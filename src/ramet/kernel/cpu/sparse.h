#pragma once

#include "ramet/base/dtype.h"
#include "ramet/ops/sparse.h"

namespace ramet::kernel::cpu {

/// Tokens of a panel: features by tokens, so that a stored element meets a vector of tokens.
inline constexpr int64_t kPanelTokens = 64;

/// Columns of a sparse_outer's second operand that are in use together: 768 KiB.
inline constexpr int64_t kOuterBand = 384;
/// How many blocks before its use a block's inputs are asked for. The list of blocks has as many entries more.
inline constexpr int64_t kAhead = 2;

/// Lines whose results are written to memory together, for lines of `high` elements.
inline constexpr int64_t line_group(int64_t high) { return high >= 64 ? 1 : 64 / high; }

/// A block of one element: where its input begins in a panel, and its value.
struct SparseSingle {
  int32_t at = 0;
  float value = 0;
};

/// The stored blocks in the order of a product's outputs. A line is a row of blocks (a column, if transposed) of the
/// whole matrix; `parts` are the cells along the sum. The blocks of line g in part p are first[g * parts + p] to
/// first[g * parts + p + 1], in ascending order.
struct SparseLines {
  int64_t lines = 0, parts = 0;
  int64_t high = 0;  ///< elements of a line's block across the line
  const int32_t* first = nullptr;
  const int32_t* other = nullptr;         ///< where the block begins along the sum, in elements of the whole matrix
  const int32_t* block = nullptr;         ///< which block of `values` it is
  const SparseSingle* singles = nullptr;  ///< the same with their values, where blocks are single elements
};

/// One `sparse_matmul`, with values in f32.
struct SparseProduct {
  ops::SparseMatmulForm form{};
  SparseLines lines{};
  DType in = DType::kF32;
  const void* x = nullptr;
  const float* values = nullptr;
  void* y = nullptr;
};

/// A part of the tokens of one `sparse_outer`, packed as features by kOuterTokens tokens.
struct SparseOuter {
  ops::SparseGrid grid{};
  SparseLines lines{};
  int64_t tokens = 0;  ///< of this part, a multiple of 32; those beyond the operands are zero
  const float* a = nullptr;
  const float* b = nullptr;
  bool first = false;  ///< the first part: its sums are stored, those of others added
  float* out = nullptr;
};

}  // namespace ramet::kernel::cpu

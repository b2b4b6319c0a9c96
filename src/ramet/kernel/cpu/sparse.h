#pragma once

#include "ramet/base/dtype.h"
#include "ramet/kernel/cpu/sparse_lines.h"

namespace ramet::kernel::cpu {

/// Tokens of a panel: features by tokens, so that a stored element meets a vector of tokens.
inline constexpr int64_t kPanelTokens = 64;

/// Columns of a sparse_outer's second operand that are in use together: 768 KiB.
inline constexpr int64_t kOuterBand = 384;
/// Lines whose results are written to memory together, for lines of `high` elements.
inline constexpr int64_t line_group(int64_t high) { return high >= 64 ? 1 : 64 / high; }

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

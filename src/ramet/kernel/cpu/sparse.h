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

/// The sums over tokens of a[t, i] b[t, j] for all i of some rows and all j of some columns, in the order of
/// `sparse_outer`.
class OuterPatch {
 public:
  OuterPatch(DType dtype, int64_t rows, int64_t columns);
  int64_t scratch_bytes() const;
  /// Operands of `tokens` rows of these widths, in elements. The sum of row i and column j of the patch is then at
  /// element(i, j) of the result, which lies in `scratch` until the next call.
  const float* run(const void* a, int64_t a_width, const void* b, int64_t b_width, int64_t tokens, void* scratch,
                   ThreadTeam& team) const;
  int64_t element(int64_t row, int64_t column) const {
    const int64_t block = row / side_ * (columns_ / side_) + column / side_;
    return (block * side_ + row % side_) * side_ + column % side_;
  }

 private:
  DType dtype_;
  int64_t rows_, columns_, side_;
};

/// Adds the kernels of patterns that change.
void add_sparse_evolve(Backend& backend);
void add_sparse_candidates(Backend& backend);

}  // namespace ramet::kernel::cpu

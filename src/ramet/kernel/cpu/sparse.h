#pragma once

#include "ramet/base/dtype.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/sparse_bf16.h"
#include "ramet/kernel/cpu/sparse_lines.h"

namespace ramet::kernel::cpu {

/// Tokens of a panel: features by tokens, so that a stored element meets a vector of tokens.
inline constexpr int64_t kPanelTokens = 64;

/// Bytes of a sparse_outer's second operand that are in use together: they fit the second-level cache.
inline constexpr int64_t kOuterBand = 768 * 1024;
/// Results of so many bytes or more are written past the caches. They would leave them before anybody reads them, and
/// memory that is written through a cache is read into it first.
inline constexpr int64_t kPastCaches = int64_t{4} << 20;
/// Lines whose results are written to memory together, for lines of `high` elements.
inline constexpr int64_t line_group(int64_t high) { return high >= 64 ? 1 : 64 / high; }

/// Values and how their products are computed: in f32, or by pairs of bf16 (sparse_bf16.h).
struct SparseValues {
  const float* wide = nullptr;
  const uint32_t* pairs = nullptr;  ///< of blocks of more than one element: [block][pair][elements of the line]
  bool are_pairs = false;           ///< these, or singles that hold pairs
  LeastBits least = kNoLeast;       ///< of pairs
};

/// One `sparse_matmul`.
struct SparseProduct {
  ops::SparseMatmulForm form{};
  SparseLines lines{};
  DType in = DType::kF32;
  const void* x = nullptr;
  SparseValues values{};
  void* y = nullptr;
  bool past_caches = false;  ///< how y is written where its rows begin at multiples of 64 bytes
};

/// Tokens of the panels that products take and give in memory: those of a part of `sparse_outer`'s sums.
inline constexpr int64_t kMemoryPanel = ops::kOuterTokens;
/// Whether the kernels of this type take them.
bool takes_panels(DType dtype);
/// The kernel "hwy" of a product whose first `activations` inputs are activations; `grouped`: of several products.
KernelEntry sparse_entry(const std::string& op, int activations, std::function<bool(const NodeSignature&)> grouped,
                         std::function<std::string(const NodeSignature&)> refuse, MakeFunction make,
                         ScratchFunction scratch);

/// A part of the tokens of one `sparse_outer`, packed as features by kOuterTokens tokens: f32, or pairs of bf16.
struct SparseOuter {
  ops::SparseGrid grid{};
  SparseLines lines{};
  int64_t tokens = 0;  ///< of this part, a multiple of 32; those beyond the operands are zero
  const float* a = nullptr;
  const float* b = nullptr;
  const uint16_t* a_pairs = nullptr;  ///< instead of a and b
  const uint16_t* b_pairs = nullptr;
  const LeastBits* a_least = nullptr;  ///< of each row of a_pairs
  LeastBits b_least = kNoLeast;        ///< of all rows of b_pairs
  bool first = false;                  ///< the first part: its sums are stored, those of others added
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

/// "", or why the kernels of `sparse_matmul` and `sparse_outer` are not for a node.
std::string refuse_sparse_types(const NodeSignature& node);

/// Adds the kernel of `sparse_outer`.
void add_sparse_outer(Backend& backend);
/// Adds the kernels of patterns that change.
void add_sparse_evolve(Backend& backend);
void add_sparse_candidates(Backend& backend);

}  // namespace ramet::kernel::cpu

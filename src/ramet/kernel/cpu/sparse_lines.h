#pragma once

#include <cstdint>

#include "ramet/kernel/kernel.h"
#include "ramet/ops/sparse.h"

namespace ramet::kernel::cpu {

/// How many blocks before its use a block's inputs are asked for. The list of blocks has as many entries more.
inline constexpr int64_t kAhead = 2;

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

/// Lines of the grid.
int64_t line_count(const ops::SparseGrid& grid, bool transpose);

/// `bytes`, rounded up to what Room gives them.
inline constexpr int64_t scratch_bytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Scratch of a kernel, dealt out in pieces that begin at multiples of 64 bytes.
class Room {
 public:
  explicit Room(void* scratch) : at_(static_cast<char*>(scratch)) {}
  template <typename T>
  T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(at_);
    at_ += scratch_bytes(count * static_cast<int64_t>(sizeof(T)));
    return piece;
  }

 private:
  char* at_;
};

/// The lines of the patterns of a node's products, in scratch of lines_scratch bytes.
class SparsePatterns {
 public:
  /// Throws Error when the index, input `input`, is none.
  SparsePatterns(const NodeSignature& node, int input, const ops::SparseGrid& grid, bool transpose,
                 const ops::SparseGroups& groups, const KernelContext& context, Room& room);
  const SparseLines& of(int64_t group) const { return lines_[own_index_ ? group : 0]; }
  /// Bytes 0 in the unused slots of one product's `blocks`, each of which has `bytes` bytes.
  void clear_unused(int64_t group, int64_t bytes, void* blocks) const;

 private:
  ops::SparseGrid grid_;
  bool own_index_;
  const int32_t* index_;
  SparseLines* lines_;
};
int64_t lines_scratch(const ops::SparseGrid& grid, bool transpose, const ops::SparseGroups& groups);

}  // namespace ramet::kernel::cpu

#pragma once

#include <algorithm>
#include <atomic>
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

/// Sorts the blocks of one pattern by line and part: a counting sort by slices of the index, which threads may take
/// apart. First `count` of every slice, then `place`, then `fill` of every slice.
class LineSort {
 public:
  /// `room`: room_numbers of them. The places of blocks are sorted for `slices` slices.
  LineSort(const ops::SparseGrid& grid, bool transpose, const int32_t* index, int64_t slices, int32_t* room);
  static int64_t room_numbers(const ops::SparseGrid& grid, bool transpose, int64_t slices);

  /// Counts the blocks of a slice. After a number that does not belong there, `is_valid` is false.
  void count(int64_t slice);
  bool is_valid() const { return valid_; }
  /// The lines, without blocks.
  SparseLines place();
  /// Calls put(place, along, block) for the blocks of a slice: `along` and `block` are those of SparseLines.
  template <typename Put>
  void fill(int64_t slice, const Put& put) {
    walk(slice, [&](int64_t key, int64_t along, int64_t block) { put(places_[slice * keys_ + key]++, along, block); });
  }
  /// The same, to `other` and `block` of SparseLines.
  void fill(int64_t slice, int32_t* other, int32_t* block);

 private:
  /// Calls visit(key, along, number of the block) for the blocks of a slice in their order.
  template <typename Visit>
  void walk(int64_t slice, const Visit& visit);

  ops::SparseGrid grid_;
  bool transpose_;
  const int32_t* index_;
  int64_t slices_, lines_, parts_, keys_;
  int32_t *first_, *places_;
  std::atomic<bool> valid_ = true;
};

template <typename Visit>
void LineSort::walk(int64_t slice, const Visit& visit) {
  const int64_t entries = grid_.cells() * grid_.slots, across = grid_.blocks_across();
  const int64_t end = entries * (slice + 1) / slices_;
  const auto blocks = static_cast<uint32_t>(grid_.blocks());
  for (int64_t number = entries * slice / slices_; number < end;) {
    const int64_t cell = number / grid_.slots, cell_begin = cell * grid_.slots;
    const int64_t cell_end = std::min(end, cell_begin + grid_.slots);
    const int64_t r = cell / grid_.cells_across, c = cell % grid_.cells_across;
    int64_t row = 0, row_end = across;
    if (index_[number] > 0) row = index_[number] / across, row_end = (row + 1) * across;
    for (; number < cell_end; ++number) {
      const int32_t block = index_[number];
      if (block == ops::kUnusedSlot) continue;
      // An unused slot is the greatest number here, so that none may follow.
      const bool ascends =
          number == cell_begin || static_cast<uint32_t>(block) > static_cast<uint32_t>(index_[number - 1]);
      if (!ascends || static_cast<uint32_t>(block) >= blocks) {
        valid_ = false;
        return;
      }
      for (; block >= row_end; ++row) row_end += across;
      const int64_t column = block - (row_end - across);
      if (transpose_)
        visit((c * across + column) * parts_ + r, r * grid_.cell_rows + row * grid_.block_rows, number);
      else
        visit((r * grid_.blocks_down() + row) * parts_ + c, c * grid_.cell_columns + column * grid_.block_columns,
              number);
    }
  }
}

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
int64_t lines_scratch(const ops::SparseGrid& grid, bool transpose, const ops::SparseGroups& groups, int threads);

}  // namespace ramet::kernel::cpu

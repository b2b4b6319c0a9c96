#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "ramet/kernel/kernel.h"
#include "ramet/ops/sparse.h"

namespace ramet::kernel::cpu {

/// How many blocks before its use a block and its inputs are asked for. The list of blocks has as many entries more.
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
  void fill(int64_t slice, const Put& put);
  /// The same, to `other` and `block` of SparseLines.
  void fill(int64_t slice, int32_t* other, int32_t* block);

 private:
  /// Entries [begin, end) of the index, which lie in one row of blocks of one cell.
  struct Run {
    int64_t cell_row = 0, cell_column = 0, row = 0;
    int64_t begin = 0, end = 0;
  };
  /// Calls visit(run) for the runs of a slice in their order.
  template <typename Visit>
  void walk(int64_t slice, const Visit& visit);
  /// The key of a run's line and part, where lines are rows; of its first block's column, where they are columns.
  int64_t key_of(const Run& run) const {
    if (transpose_) return run.cell_column * grid_.blocks_across() * parts_ + run.cell_row;
    return (run.cell_row * grid_.blocks_down() + run.row) * parts_ + run.cell_column;
  }

  ops::SparseGrid grid_;
  bool transpose_;
  const int32_t* index_;
  int64_t slices_, lines_, parts_, keys_;
  int32_t *first_, *places_;
  std::atomic<bool> valid_ = true;
};

template <typename Visit>
void LineSort::walk(int64_t slice, const Visit& visit) {
  // An unused slot is the greatest number here, so that none may follow.
  const auto at = [&](int64_t number) { return static_cast<uint32_t>(index_[number]); };
  const int64_t entries = grid_.cells() * grid_.slots, across = grid_.blocks_across(), down = grid_.blocks_down();
  const int64_t end = entries * (slice + 1) / slices_;
  for (int64_t number = entries * slice / slices_; number < end;) {
    const int64_t cell = number / grid_.slots, cell_begin = cell * grid_.slots;
    const int64_t cell_end = std::min(end, cell_begin + grid_.slots);
    Run run{.cell_row = cell / grid_.cells_across, .cell_column = cell % grid_.cells_across};
    while (number < cell_end) {
      run.begin = number;
      if (index_[number] == ops::kUnusedSlot) {
        while (number < cell_end && index_[number] == ops::kUnusedSlot) ++number;
        continue;
      }
      run.row = at(number) / across;
      const bool ascends = number == cell_begin || at(number) > at(number - 1);
      if (!ascends || run.row >= down) {
        valid_ = false;
        return;
      }
      const auto row_end = static_cast<uint32_t>((run.row + 1) * across);
      for (++number; number < cell_end && at(number) < row_end && at(number) > at(number - 1);) ++number;
      run.end = number;
      visit(run);
    }
  }
}

template <typename Put>
void LineSort::fill(int64_t slice, const Put& put) {
  const int64_t across = grid_.blocks_across();
  walk(slice, [&](const Run& run) {
    int32_t* const places = places_ + slice * keys_ + key_of(run);
    const int64_t row_begin = run.row * across;
    if (transpose_) {
      const int64_t along = run.cell_row * grid_.cell_rows + run.row * grid_.block_rows;
      for (int64_t n = run.begin; n < run.end; ++n) put(places[(index_[n] - row_begin) * parts_]++, along, n);
      return;
    }
    const int64_t left = run.cell_column * grid_.cell_columns, wide = grid_.block_columns;
    int32_t place = *places;
    for (int64_t n = run.begin; n < run.end; ++n) put(place++, left + (index_[n] - row_begin) * wide, n);
    *places = place;
  });
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

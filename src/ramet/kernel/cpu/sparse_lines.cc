#include "ramet/kernel/cpu/sparse_lines.h"

#include <algorithm>
#include <numeric>

namespace ramet::kernel::cpu {

int64_t line_count(const SparseGrid& grid, bool transpose) {
  return transpose ? grid.cells_across * grid.blocks_across() : grid.cells_down * grid.blocks_down();
}

namespace {

/// Numbers that make_lines needs.
int64_t lines_room(const SparseGrid& grid, bool transpose) {
  const int64_t parts = transpose ? grid.cells_down : grid.cells_across;
  return line_count(grid, transpose) * parts + 1 + 2 * (grid.cells() * grid.slots + kAhead);
}

/// Sorts the stored blocks by line and part. `room` takes lines_room numbers.
SparseLines make_lines(const SparseGrid& grid, bool transpose, const int32_t* index, int32_t* room) {
  SparseLines lines;
  lines.parts = transpose ? grid.cells_down : grid.cells_across;
  lines.lines = line_count(grid, transpose);
  lines.high = transpose ? grid.block_columns : grid.block_rows;
  const int64_t keys = lines.lines * lines.parts, entries = grid.cells() * grid.slots;
  int32_t *first = room, *other = first + keys + 1, *block = other + entries + kAhead;
  std::fill_n(first, keys + 1, 0);
  // Calls visit(key, along, number of the block) for the blocks in their order: `along` is the block's place in the
  // sum.
  const auto walk = [&](const auto& visit) {
    int64_t number = 0;
    for (int64_t r = 0; r < grid.cells_down; ++r)
      for (int64_t c = 0; c < grid.cells_across; ++c) {
        int64_t row = 0, row_end = grid.blocks_across();
        const int64_t cell_end = number + grid.slots;
        for (; number < cell_end && index[number] != ops::kUnusedSlot; ++number) {
          for (; index[number] >= row_end; ++row) row_end += grid.blocks_across();
          const int64_t column = index[number] - (row_end - grid.blocks_across());
          if (transpose)
            visit((c * grid.blocks_across() + column) * lines.parts + r, r * grid.cell_rows + row * grid.block_rows,
                  number);
          else
            visit((r * grid.blocks_down() + row) * lines.parts + c, c * grid.cell_columns + column * grid.block_columns,
                  number);
        }
        number = cell_end;
      }
  };
  walk([&](int64_t key, int64_t, int64_t) { ++first[key]; });
  std::exclusive_scan(first, first + keys + 1, first, 0);
  walk([&](int64_t key, int64_t along, int64_t number) {
    other[first[key]] = static_cast<int32_t>(along);
    block[first[key]++] = static_cast<int32_t>(number);
  });
  // Each start has moved to its end: the next key's start.
  std::copy_backward(first, first + keys, first + keys + 1);
  first[0] = 0;
  std::fill(other + first[keys], other + entries + kAhead, 0);
  std::fill(block + first[keys], block + entries, 0);
  lines.first = first, lines.other = other, lines.block = block;
  return lines;
}

}  // namespace

int64_t lines_scratch(const SparseGrid& grid, bool transpose, const ops::SparseGroups& groups) {
  return scratch_bytes(groups.patterns() * static_cast<int64_t>(sizeof(SparseLines))) +
         groups.patterns() * scratch_bytes(lines_room(grid, transpose) * 4);
}

SparsePatterns::SparsePatterns(const NodeSignature& node, int input, const SparseGrid& grid, bool transpose,
                               const ops::SparseGroups& groups, const KernelContext& context, Room& room)
    : grid_(grid),
      own_index_(groups.own_index),
      index_(static_cast<const int32_t*>(context.inputs[static_cast<size_t>(input)])),
      lines_(room.take<SparseLines>(groups.patterns())) {
  const int32_t* index = index_;
  ops::check_sparse_index(node, grid, index, groups.patterns());
  const int64_t size = scratch_bytes(lines_room(grid, transpose) * 4) / 4;
  int32_t* numbers = room.take<int32_t>(groups.patterns() * size);
  context.team.split(groups.patterns(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t pattern = begin; pattern < end; ++pattern)
      lines_[pattern] =
          make_lines(grid, transpose, index + pattern * grid.cells() * grid.slots, numbers + pattern * size);
  });
}

void SparsePatterns::clear_unused(int64_t group, int64_t bytes, void* blocks) const {
  const int32_t* index = index_ + (own_index_ ? group * grid_.cells() * grid_.slots : 0);
  auto* to = static_cast<char*>(blocks);
  for (int64_t cell = 0; cell < grid_.cells(); ++cell, index += grid_.slots, to += grid_.slots * bytes) {
    const int64_t used = ops::used_slots(grid_, index);
    std::fill_n(to + used * bytes, (grid_.slots - used) * bytes, char{0});
  }
}

}  // namespace ramet::kernel::cpu

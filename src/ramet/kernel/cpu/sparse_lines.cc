#include "ramet/kernel/cpu/sparse_lines.h"

#include <algorithm>
#include <utility>

namespace ramet::kernel::cpu {

int64_t line_count(const SparseGrid& grid, bool transpose) {
  return transpose ? grid.cells_across * grid.blocks_across() : grid.cells_down * grid.blocks_down();
}

LineSort::LineSort(const SparseGrid& grid, bool transpose, const int32_t* index, int64_t slices, int32_t* room)
    : grid_(grid),
      transpose_(transpose),
      index_(index),
      slices_(slices),
      lines_(line_count(grid, transpose)),
      parts_(transpose ? grid.cells_down : grid.cells_across),
      keys_(lines_ * parts_),
      first_(room),
      places_(room + keys_ + 1) {}

int64_t LineSort::room_numbers(const SparseGrid& grid, bool transpose, int64_t slices) {
  return line_count(grid, transpose) * (transpose ? grid.cells_down : grid.cells_across) * (slices + 1) + 1;
}

void LineSort::count(int64_t slice) {
  int32_t* counts = places_ + slice * keys_;
  std::fill_n(counts, keys_, 0);
  walk(slice, [&](const Run& run) {
    int32_t* const first = counts + key_of(run);
    const int64_t row_begin = run.row * grid_.blocks_across();
    if (transpose_)
      for (int64_t n = run.begin; n < run.end; ++n) ++first[(index_[n] - row_begin) * parts_];
    else
      *first += static_cast<int32_t>(run.end - run.begin);
  });
}

SparseLines LineSort::place() {
  int32_t next = 0;
  for (int64_t key = 0; key < keys_; ++key) {
    first_[key] = next;
    for (int64_t slice = 0; slice < slices_; ++slice) next += std::exchange(places_[slice * keys_ + key], next);
  }
  first_[keys_] = next;
  return {
      .lines = lines_, .parts = parts_, .high = transpose_ ? grid_.block_columns : grid_.block_rows, .first = first_};
}

void LineSort::fill(int64_t slice, int32_t* other, int32_t* block) {
  fill(slice, [&](int32_t at, int64_t along, int64_t number) {
    other[at] = static_cast<int32_t>(along);
    block[at] = static_cast<int32_t>(number);
  });
}

namespace {

/// Bytes of the places and numbers of the blocks of a pattern.
int64_t blocks_room(const SparseGrid& grid) {
  const int64_t entries = grid.cells() * grid.slots;
  return 2 * scratch_bytes((entries + kAhead) * 4);
}

/// Bytes that one pattern takes, sorted in so many slices.
int64_t pattern_room(const SparseGrid& grid, bool transpose, int64_t slices) {
  return scratch_bytes(LineSort::room_numbers(grid, transpose, slices) * 4) + blocks_room(grid);
}

}  // namespace

int64_t lines_scratch(const SparseGrid& grid, bool transpose, const ops::SparseGroups& groups, int threads) {
  const int64_t slices = groups.patterns() == 1 ? threads : 1;
  return scratch_bytes(groups.patterns() * static_cast<int64_t>(sizeof(SparseLines))) +
         groups.patterns() * pattern_room(grid, transpose, slices);
}

SparsePatterns::SparsePatterns(const NodeSignature& node, int input, const SparseGrid& grid, bool transpose,
                               const ops::SparseGroups& groups, const KernelContext& context, Room& room)
    : grid_(grid),
      own_index_(groups.own_index),
      index_(static_cast<const int32_t*>(context.inputs[static_cast<size_t>(input)])),
      lines_(room.take<SparseLines>(groups.patterns())) {
  const int64_t patterns = groups.patterns(), entries = grid.cells() * grid.slots;
  // One pattern is sorted by all threads; of several, each by one.
  const int64_t slices = patterns == 1 ? context.team.size() : 1;
  const int64_t size = pattern_room(grid, transpose, slices);
  char* rooms = room.take<char>(patterns * size);
  std::atomic<bool> valid = true;
  const auto sort = [&](int64_t pattern, const auto& each_slice) {
    Room own(rooms + pattern * size);
    int32_t* numbers = own.take<int32_t>(LineSort::room_numbers(grid, transpose, slices));
    LineSort lines(grid, transpose, index_ + pattern * entries, slices, numbers);
    each_slice([&](int64_t slice) { lines.count(slice); });
    if (!lines.is_valid()) {
      valid = false;
      return;
    }
    auto* other = own.take<int32_t>(entries + kAhead);
    auto* block = own.take<int32_t>(entries + kAhead);
    lines_[pattern] = lines.place();
    each_slice([&](int64_t slice) { lines.fill(slice, other, block); });
    const int32_t used = lines_[pattern].first[lines_[pattern].lines * lines_[pattern].parts];
    for (int32_t* list : {other, block}) std::fill(list + used, list + entries + kAhead, 0);
    lines_[pattern].other = other, lines_[pattern].block = block;
  };
  if (patterns == 1)
    sort(0, [&](const auto& body) { context.team.run([&](int rank) { body(rank); }); });
  else
    context.team.split(patterns, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t pattern = begin; pattern < end; ++pattern) sort(pattern, [](const auto& body) { body(0); });
    });
  if (!valid) ops::check_sparse_index(node, grid, index_, patterns);
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

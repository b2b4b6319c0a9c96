// Patterns of stored blocks, and the numbers at them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "ramet/base/hash.h"
#include "ramet/base/rng.h"
#include "ramet/model/sparsify.h"

namespace ramet::model {
namespace {

/// Where the first element of a block of a cell lies in the dense matrix, row-major.
int64_t first_of_block(const SparseGrid& grid, int64_t cell, int64_t block) {
  const int64_t row = cell / grid.cells_across * grid.cell_rows + block / grid.blocks_across() * grid.block_rows;
  const int64_t column =
      cell % grid.cells_across * grid.cell_columns + block % grid.blocks_across() * grid.block_columns;
  return row * grid.columns() + column;
}

/// Calls `visit(stored, dense)` with the places of each stored element.
template <typename Visit>
void visit_stored(const SparseGrid& grid, std::span<const int32_t> index, Visit visit) {
  int64_t stored = 0;
  for (int64_t slot = 0; slot < std::ssize(index); ++slot) {
    const int32_t block = index[static_cast<size_t>(slot)];
    if (block == kUnusedSlot) {
      stored += grid.block_elements();
      continue;
    }
    const int64_t first = first_of_block(grid, slot / grid.slots, block);
    for (int64_t i = 0; i < grid.block_rows; ++i)
      for (int64_t j = 0; j < grid.block_columns; ++j)
        visit(static_cast<size_t>(stored++), static_cast<size_t>(first + i * grid.columns() + j));
  }
}

/// The `slots` blocks of a cell that stand first in the order `before`, ascending.
template <typename Before>
void append_first(const SparseGrid& grid, Before before, std::vector<int32_t>& index) {
  std::vector<int32_t> blocks(static_cast<size_t>(grid.blocks()));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::nth_element(blocks.begin(), blocks.begin() + grid.slots - 1, blocks.end(), before);
  std::sort(blocks.begin(), blocks.begin() + grid.slots);
  index.insert(index.end(), blocks.begin(), blocks.begin() + grid.slots);
}

}  // namespace

std::vector<int32_t> random_pattern(const SparseGrid& grid, uint64_t seed, const std::string& name) {
  std::vector<int32_t> index;
  std::vector<uint32_t> draws(static_cast<size_t>(grid.blocks()));
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const RandomStream random(seed, RandomPurpose::kInit, static_cast<uint64_t>(cell), hash64(name));
    for (size_t block = 0; block < draws.size(); ++block) draws[block] = random.bits(block);
    append_first(
        grid,
        [&](int32_t a, int32_t b) {
          return std::pair(draws[static_cast<size_t>(a)], a) < std::pair(draws[static_cast<size_t>(b)], b);
        },
        index);
  }
  return index;
}

std::vector<double> block_sums(const SparseGrid& grid, std::span<const float> dense) {
  std::vector<double> sums;
  sums.reserve(static_cast<size_t>(grid.cells() * grid.blocks()));
  for (int64_t cell = 0; cell < grid.cells(); ++cell)
    for (int64_t block = 0; block < grid.blocks(); ++block) {
      const int64_t first = first_of_block(grid, cell, block);
      double sum = 0;
      for (int64_t i = 0; i < grid.block_rows; ++i)
        for (int64_t j = 0; j < grid.block_columns; ++j)
          sum += std::fabs(static_cast<double>(dense[static_cast<size_t>(first + i * grid.columns() + j)]));
      sums.push_back(std::isnan(sum) ? 0 : sum);
    }
  return sums;
}

std::vector<int32_t> magnitude_pattern(const SparseGrid& grid, std::span<const float> dense) {
  std::vector<int32_t> index;
  const std::vector<double> all = block_sums(grid, dense);
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const double* const sums = all.data() + cell * grid.blocks();
    append_first(grid, [&](int32_t a, int32_t b) { return std::pair(-sums[a], a) < std::pair(-sums[b], b); }, index);
  }
  return index;
}

std::vector<int32_t> with_unused_slots(const std::vector<int32_t>& index, int64_t used, int64_t slots) {
  std::vector<int32_t> padded;
  for (size_t at = 0; at < index.size(); at += static_cast<size_t>(used)) {
    const auto cell = index.begin() + static_cast<int64_t>(at);
    padded.insert(padded.end(), cell, cell + used);
    padded.insert(padded.end(), static_cast<size_t>(slots - used), kUnusedSlot);
  }
  return padded;
}

std::vector<float> gather_stored(const SparseGrid& grid, std::span<const int32_t> index, std::span<const float> dense) {
  std::vector<float> values(static_cast<size_t>(grid.stored_elements()));
  visit_stored(grid, index, [&](size_t stored, size_t at) { values[stored] = dense[at]; });
  return values;
}

std::vector<float> scatter_stored(const SparseGrid& grid, std::span<const int32_t> index,
                                  std::span<const float> values) {
  std::vector<float> dense(static_cast<size_t>(grid.rows() * grid.columns()));
  visit_stored(grid, index, [&](size_t stored, size_t at) { dense[at] = values[stored]; });
  return dense;
}

}  // namespace ramet::model

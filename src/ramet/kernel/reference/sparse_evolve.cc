#include <algorithm>
#include <utility>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/position.h"
#include "ramet/ops/sparse_evolve.h"

namespace ramet::kernel {
namespace {

using ops::kUnusedSlot;

/// The slots [0, used) of a cell that stay, ascending: those with the least scores are dropped.
std::vector<int64_t> kept_slots(const float* scores, int64_t used, int64_t dropped) {
  std::vector<uint64_t> order;
  for (int64_t slot = 0; slot < used; ++slot) order.push_back(ops::score_key(scores[slot], slot));
  std::sort(order.begin(), order.end());
  std::vector<int64_t> kept;
  for (int64_t i = dropped; i < used; ++i) kept.push_back(ops::number_of_key(order[static_cast<size_t>(i)]));
  std::sort(kept.begin(), kept.end());
  return kept;
}

/// The new blocks of a cell.
std::vector<int32_t> grown_blocks(const ops::SparseEvolveForm& form, const std::vector<bool>& taken, int64_t grown,
                                  const RandomStream& random, int64_t logical_cell) {
  std::vector<std::pair<uint32_t, int32_t>> order;
  for (int32_t block = 0; block < form.grid.blocks(); ++block)
    if (!taken[static_cast<size_t>(block)])
      order.emplace_back(random.bits(static_cast<uint64_t>(logical_cell * form.grid.blocks() + block)), block);
  std::sort(order.begin(), order.end());
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < grown; ++i) blocks.push_back(order[static_cast<size_t>(i)].second);
  return blocks;
}

void sparse_evolve(const ReferenceOperands& operands) {
  const ops::SparseEvolveForm form = ops::sparse_evolve_form(operands.node());
  const ops::Position position(operands.node());
  const SparseGrid& grid = form.grid;
  const auto* index = static_cast<const int32_t*>(operands.input_bytes(0));
  const auto* scores = static_cast<const float*>(operands.input_bytes(1));
  const auto* candidates = form.by_gradient ? static_cast<const int32_t*>(operands.input_bytes(3)) : nullptr;
  const auto* counter = static_cast<const int64_t*>(operands.input_bytes(2));
  ops::check_sparse_index(operands.node(), grid, index);
  const RandomStream random(form.seed, RandomPurpose::kDraw, static_cast<uint64_t>(counter[0]), form.tensor);
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const int64_t at = cell * grid.slots, used = ops::used_slots(grid, index + at);
    const ops::SparseChange change = ops::sparse_change(form, used, counter[0] + 1);
    std::vector<std::pair<int32_t, int64_t>> next;  // block, slot before
    std::vector<bool> stored(static_cast<size_t>(grid.blocks())), kept(stored.size());
    for (int64_t slot = 0; slot < used; ++slot) stored[static_cast<size_t>(index[at + slot])] = true;
    for (const int64_t slot : kept_slots(scores + at, used, change.dropped)) {
      next.emplace_back(index[at + slot], slot);
      kept[static_cast<size_t>(index[at + slot])] = true;
    }
    std::vector<int32_t> grown;
    if (candidates)
      for (int64_t i = 0; i < change.grown && candidates[at + i] != kUnusedSlot; ++i)
        grown.push_back(candidates[at + i]);
    else
      grown = grown_blocks(form, form.regrow_pruned ? kept : stored, change.grown, random,
                           grid.slots == 0 ? 0 : position.index(at) / grid.slots);
    for (const int32_t block : grown) {
      const int32_t* before = std::find(index + at, index + at + used, block);
      next.emplace_back(block, before == index + at + used ? -1 : before - (index + at));
    }
    std::sort(next.begin(), next.end());
    for (int64_t slot = 0; slot < grid.slots; ++slot) {
      const bool holds = slot < static_cast<int64_t>(next.size());
      operands.set_int(0, at + slot, holds ? next[static_cast<size_t>(slot)].first : kUnusedSlot);
      operands.set_int(1, at + slot, holds ? next[static_cast<size_t>(slot)].second : -1);
    }
  }
}

void sparse_carry(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(1).shape;
  const int64_t slots = shape[2], size = slots == 0 ? 0 : shape.elements() / (shape[0] * shape[1] * slots);
  for (int64_t slot = 0; slot < operands.input_type(0).elements(); ++slot) {
    const int64_t source = operands.get_int(0, slot);
    for (int64_t i = 0; i < size; ++i)
      operands.set(0, slot * size + i,
                   source < 0 ? operands.get(2, 0) : operands.get(1, (slot / slots * slots + source) * size + i));
  }
}

void sparse_explore(const ReferenceOperands& operands) {
  const Shape& index = operands.input_type(1).shape;
  const int64_t words = operands.input_type(0).shape[2], slots = index[2];
  for (int64_t cell = 0; cell < index[0] * index[1]; ++cell) {
    int64_t count = 0;
    std::vector<uint32_t> set(static_cast<size_t>(words));
    for (int64_t word = 0; word < words; ++word)
      set[static_cast<size_t>(word)] = static_cast<uint32_t>(operands.get_int(0, cell * words + word));
    for (int64_t slot = 0; slot < slots; ++slot)
      if (const int64_t block = operands.get_int(1, cell * slots + slot); block >= 0)
        set[static_cast<size_t>(block / 32)] |= 1u << (block % 32);
    for (int64_t word = 0; word < words; ++word) {
      count += __builtin_popcount(set[static_cast<size_t>(word)]);
      operands.set_int(0, cell * words + word, static_cast<int32_t>(set[static_cast<size_t>(word)]));
    }
    operands.set(1, cell, static_cast<double>(count));
  }
}

void sparse_candidates(const ReferenceOperands& operands) {
  const ops::SparseCandidatesForm form = ops::sparse_candidates_form(operands.node());
  const SparseGrid& grid = form.grid;
  const auto* index = static_cast<const int32_t*>(operands.input_bytes(2));
  ops::check_sparse_index(operands.node(), grid, index);
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const int32_t *begin = index + cell * grid.slots, *end = begin + ops::used_slots(grid, begin);
    std::vector<uint64_t> order;
    for (int32_t block = 0; block < grid.blocks(); ++block) {
      if (std::find(begin, end, block) != end) continue;
      float norm = 0;
      for (int64_t e = 0; e < grid.block_elements(); ++e) {
        const int64_t row = cell / grid.cells_across * grid.cell_rows + block / grid.blocks_across() * grid.block_rows +
                            e / grid.block_columns;
        const int64_t column = cell % grid.cells_across * grid.cell_columns +
                               block % grid.blocks_across() * grid.block_columns + e % grid.block_columns;
        double sum = 0;
        for (int64_t token = 0; token < form.tokens; ++token)
          sum += operands.get(0, token * grid.rows() + row) * operands.get(1, token * grid.columns() + column);
        norm = ops::block_norm(form.norm, norm, static_cast<float>(sum));
      }
      order.push_back(ops::falling_key(norm, block));
    }
    std::sort(order.begin(), order.end());
    for (int64_t slot = 0; slot < grid.slots; ++slot)
      operands.set_int(0, cell * grid.slots + slot,
                       slot < static_cast<int64_t>(order.size()) ? ops::number_of_key(order[static_cast<size_t>(slot)])
                                                                 : kUnusedSlot);
  }
}

}  // namespace

void add_reference_sparse_evolve(Backend& backend) {
  add_reference(backend, "sparse_evolve", sparse_evolve);
  add_reference(backend, "sparse_carry", sparse_carry);
  add_reference(backend, "sparse_explore", sparse_explore);
  add_reference(backend, "sparse_candidates", sparse_candidates);
}

}  // namespace ramet::kernel

// Patterns that change.

#include "ramet/ops/sparse_evolve.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ramet/base/rng.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/sparse.h"
#include "ramet/ops/position.h"

namespace ramet::kernel {
namespace {

using ops::kUnusedSlot;
using ops::SparseEvolveForm;

constexpr int64_t kPart = 1 << 16;  // blocks whose words one thread draws at a time

/// A number that a count with this mean seldom exceeds: in one of a thousand draws the keys are looked for again.
double likely_most(double mean) { return mean + 3 * std::sqrt(mean) + 2; }

/// Where the pieces of scratch of a cell lie.
struct EvolveSizes {
  int64_t slots, parts, part_keys;
  explicit EvolveSizes(const SparseGrid& grid) : slots(grid.slots), parts((grid.blocks() + kPart - 1) / kPart) {
    const auto most = static_cast<double>(grid.slots), candidates = static_cast<double>(grid.blocks() - grid.slots);
    const double share = candidates > likely_most(most) ? likely_most(most) / candidates : 1;
    const auto part = static_cast<double>(std::min(kPart, grid.blocks()));
    part_keys = static_cast<int64_t>(std::min(part, std::ceil(likely_most(part * share))));
  }
  int64_t bytes() const {
    return cpu::scratch_bytes(slots * 8) + cpu::scratch_bytes(slots) + cpu::scratch_bytes(parts * part_keys * 8) +
           cpu::scratch_bytes(parts * 8);
  }
};

/// One cell while its pattern changes.
class EvolvingCell {
 public:
  EvolvingCell(const SparseEvolveForm& form, const KernelContext& context, int64_t cell, int64_t logical_cell)
      : form_(form),
        sizes_(form.grid),
        first_element_(logical_cell * form.grid.blocks()),
        index_(static_cast<const int32_t*>(context.inputs[0]) + cell * form.grid.slots),
        scores_(static_cast<const float*>(context.inputs[1]) + cell * form.grid.slots),
        candidates_(form.by_gradient ? static_cast<const int32_t*>(context.inputs[3]) + cell * form.grid.slots
                                     : nullptr),
        next_(static_cast<int32_t*>(context.outputs[0]) + cell * form.grid.slots),
        source_(static_cast<int32_t*>(context.outputs[1]) + cell * form.grid.slots),
        used_(ops::used_slots(form.grid, index_)),
        step_(*static_cast<const int64_t*>(context.inputs[2])),
        change_(ops::sparse_change(form, used_, step_ + 1)),
        random_(form.seed, RandomPurpose::kDraw, static_cast<uint64_t>(step_), form.tensor) {
    cpu::Room room(static_cast<char*>(context.scratch) + cell * sizes_.bytes());
    slot_keys_ = room.take<uint64_t>(sizes_.slots);
    dropped_ = room.take<char>(sizes_.slots);
    part_keys_ = room.take<uint64_t>(sizes_.parts * sizes_.part_keys);
    part_counts_ = room.take<int64_t>(sizes_.parts);
  }

  /// Marks the slots with the least scores.
  void drop() {
    for (int64_t slot = 0; slot < used_; ++slot) slot_keys_[slot] = ops::score_key(scores_[slot], slot);
    std::nth_element(slot_keys_, slot_keys_ + change_.dropped, slot_keys_ + used_);
    std::fill_n(dropped_, sizes_.slots, char{0});
    for (int64_t i = 0; i < change_.dropped; ++i) dropped_[ops::number_of_key(slot_keys_[i])] = 1;
  }

  bool draws() const { return !candidates_ && change_.grown > 0; }

  /// Draws for a part of the blocks, and keeps the keys that are likely to be among the least.
  void draw(int64_t part) {
    const int64_t stays = form_.regrow_pruned ? used_ - change_.dropped : used_;
    const auto candidates = static_cast<double>(form_.grid.blocks() - stays);
    const double share = likely_most(static_cast<double>(change_.grown)) / candidates;
    const uint64_t limit = share < 1 ? static_cast<uint64_t>(share * 0x1p32) << 32 : ~uint64_t{0};
    uint64_t* keys = part_keys_ + part * sizes_.part_keys;
    int64_t count = 0;
    each_key(part * kPart, std::min(form_.grid.blocks(), (part + 1) * kPart), [&](uint64_t key) {
      if (key > limit) return;
      if (count < sizes_.part_keys) keys[count] = key;
      ++count;
    });
    part_counts_[part] = count;
  }

  /// Writes the next index and where each slot's values come from.
  void merge() {
    int64_t grown = 0;
    uint64_t* blocks = slot_keys_;  // of new blocks, as keys whose number is the block
    if (candidates_) {
      for (; grown < change_.grown && candidates_[grown] != kUnusedSlot; ++grown)
        blocks[grown] = static_cast<uint64_t>(candidates_[grown]);
    } else if (draws()) {
      grown = choose(blocks);
      for (int64_t i = 0; i < grown; ++i) blocks[i] = static_cast<uint64_t>(ops::number_of_key(blocks[i]));
    }
    std::sort(blocks, blocks + grown);
    int64_t to = 0, i = 0;
    const auto put = [&](int64_t block, int64_t source) {
      next_[to] = static_cast<int32_t>(block);
      source_[to++] = static_cast<int32_t>(source);
    };
    for (int64_t slot = 0; slot < used_; ++slot) {
      while (i < grown && static_cast<int64_t>(blocks[i]) < index_[slot]) put(static_cast<int64_t>(blocks[i++]), -1);
      const bool returns = i < grown && static_cast<int64_t>(blocks[i]) == index_[slot];
      if (returns) ++i;
      if (returns || !dropped_[slot]) put(index_[slot], slot);
    }
    while (i < grown) put(static_cast<int64_t>(blocks[i++]), -1);
    std::fill(next_ + to, next_ + sizes_.slots, kUnusedSlot);
    std::fill(source_ + to, source_ + sizes_.slots, -1);
  }

 private:
  /// Calls visit(key) for the candidates among the blocks [begin, end).
  template <typename Visit>
  void each_key(int64_t begin, int64_t end, const Visit& visit) const {
    int64_t slot = std::lower_bound(index_, index_ + used_, begin) - index_;
    std::array<uint32_t, 4> words{};
    int64_t held = -1;
    for (int64_t block = begin; block < end; ++block) {
      if (slot < used_ && index_[slot] == block) {
        const bool stays = !form_.regrow_pruned || !dropped_[slot];
        ++slot;
        if (stays) continue;
      }
      const int64_t element = first_element_ + block;
      if (element / 4 != held) held = element / 4, words = random_.block(static_cast<uint64_t>(held));
      visit(uint64_t{words[static_cast<size_t>(element % 4)]} << 32 | static_cast<uint64_t>(block));
    }
  }

  /// The `grown` least keys.
  int64_t choose(uint64_t* to) const {
    const int64_t grown = change_.grown;
    int64_t count = 0;
    bool complete = true;
    for (int64_t part = 0; part < sizes_.parts; ++part) {
      complete = complete && part_counts_[part] <= sizes_.part_keys;
      if (!complete) break;
      std::copy_n(part_keys_ + part * sizes_.part_keys, part_counts_[part], part_keys_ + count);
      count += part_counts_[part];
    }
    if (complete && count >= grown) {
      std::nth_element(part_keys_, part_keys_ + grown, part_keys_ + count);
      std::copy_n(part_keys_, grown, to);
      return grown;
    }
    // The parts hold too few keys, or could not hold all: find the greatest key that wins, bit by bit.
    const auto below = [&](uint64_t limit) {
      int64_t found = 0;
      each_key(0, form_.grid.blocks(), [&](uint64_t key) { found += key <= limit; });
      return found;
    };
    uint64_t limit = 0;
    for (int bit = 63; bit >= 0; --bit)
      if (below(limit | ((uint64_t{1} << bit) - 1)) < grown) limit |= uint64_t{1} << bit;
    count = 0;
    each_key(0, form_.grid.blocks(), [&](uint64_t key) {
      if (key <= limit) to[count++] = key;
    });
    return count;
  }

  const SparseEvolveForm& form_;
  const EvolveSizes sizes_;
  const int64_t first_element_;
  const int32_t* index_;
  const float* scores_;
  const int32_t* candidates_;
  int32_t *next_, *source_;
  const int64_t used_, step_;
  const ops::SparseChange change_;
  const RandomStream random_;
  uint64_t* slot_keys_;
  char* dropped_;
  uint64_t* part_keys_;
  int64_t* part_counts_;
};

void run_evolve(const NodeSignature& node, const SparseEvolveForm& form, const ops::Position& position,
                const KernelContext& context) {
  const SparseGrid& grid = form.grid;
  ops::check_sparse_index(node, grid, static_cast<const int32_t*>(context.inputs[0]));
  if (grid.slots == 0) return;
  const auto cell = [&](int64_t number) {
    return EvolvingCell(form, context, number, position.index(number * grid.slots) / grid.slots);
  };
  context.team.split(grid.cells(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t number = begin; number < end; ++number) cell(number).drop();
  });
  const int64_t parts = EvolveSizes(grid).parts;
  context.team.split(grid.cells() * parts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at)
      if (EvolvingCell mine = cell(at / parts); mine.draws()) mine.draw(at % parts);
  });
  context.team.split(grid.cells(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t number = begin; number < end; ++number) cell(number).merge();
  });
}

void run_carry(const NodeSignature& node, const KernelContext& context) {
  const Shape& shape = node.inputs[1].shape;
  const int64_t slots = shape[2], all = node.inputs[0].elements();
  if (node.inputs[1].elements() == 0) return;
  const int64_t element = static_cast<int64_t>(size_of(node.inputs[1].dtype)), bytes = node.inputs[1].bytes() / all;
  const auto* source = static_cast<const int32_t*>(context.inputs[0]);
  const auto* from = static_cast<const char*>(context.inputs[1]);
  const auto* fresh = static_cast<const char*>(context.inputs[2]);
  auto* to = static_cast<char*>(context.outputs[0]);
  context.team.split(all, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t slot = begin; slot < end; ++slot) {
      char* mine = to + slot * bytes;
      if (source[slot] >= 0)
        std::memcpy(mine, from + (slot / slots * slots + source[slot]) * bytes, static_cast<size_t>(bytes));
      else
        for (int64_t i = 0; i < bytes; i += element) std::memcpy(mine + i, fresh, static_cast<size_t>(element));
    }
  });
}

void run_explore(const NodeSignature& node, const KernelContext& context) {
  const Shape& index = node.inputs[1].shape;
  const int64_t words = node.inputs[0].shape[2], slots = index[2];
  const auto* known = static_cast<const uint32_t*>(context.inputs[0]);
  const auto* stored = static_cast<const int32_t*>(context.inputs[1]);
  auto* next = static_cast<uint32_t*>(context.outputs[0]);
  auto* counts = static_cast<float*>(context.outputs[1]);
  context.team.split(index[0] * index[1], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t cell = begin; cell < end; ++cell) {
      uint32_t* set = next + cell * words;
      if (next != known) std::copy_n(known + cell * words, words, set);
      for (int64_t slot = cell * slots; slot < (cell + 1) * slots && stored[slot] >= 0; ++slot)
        set[stored[slot] / 32] |= 1u << (stored[slot] % 32);
      int64_t count = 0;
      for (int64_t word = 0; word < words; ++word) count += std::popcount(set[word]);
      counts[cell] = static_cast<float>(count);
    }
  });
}

}  // namespace

void cpu::add_sparse_evolve(Backend& backend) {
  cpu::add_hwy(
      backend, "sparse_evolve", {},
      [](const NodeSignature& node, int) {
        return [node, form = ops::sparse_evolve_form(node), position = ops::Position(node)](
                   const KernelContext& context) { run_evolve(node, form, position, context); };
      },
      [](const NodeSignature& node, int) {
        const SparseGrid grid = ops::sparse_evolve_form(node).grid;
        return grid.cells() * EvolveSizes(grid).bytes();
      });
  cpu::add_hwy(
      backend, "sparse_carry", {},
      [](const NodeSignature& node, int) { return [node](const KernelContext& context) { run_carry(node, context); }; },
      {}, {}, true);
  cpu::add_hwy(backend, "sparse_explore", {},
               [](const NodeSignature& node, int) {
                 return [node](const KernelContext& context) { run_explore(node, context); };
               },
               {}, {{0, 0}});
}

}  // namespace ramet::kernel

#pragma once

#include <bit>
#include <cstdint>

#include "ramet/ops/sparse.h"

namespace ramet::ops {

// How the pattern of a block-sparse weight changes (docs/sparse.md).

/// A node `sparse_evolve`: in each cell, the stored blocks with the least scores are dropped, and others are stored.
///
/// `done` is the number of steps done, the step of the counter among them.
/// 1. Of v stored blocks, d = floor(ratio v + 1/2) are dropped, where the ratio falls from prune_ratio to 0 at
///    `prune_end` steps done; or more where fewer than v blocks shall be stored, and
///    less where a cell has not enough blocks to take their places. Of equal scores the lower block goes first.
/// 2. As many blocks are new as make stored_blocks_at(done) of them. With `by_gradient` they are the first ones of
///    the candidates. Else each set of candidates is equally likely: those with the least random words win, of equal
///    words the lower block. The word of block b of logical cell c is that of element c blocks + b of
///    RandomStream(seed, kDraw, step, tensor). Candidates are the blocks that were not stored before step 1, or with
///    `regrow_pruned` those that are not stored after it. A dropped block that comes back goes on with its values.
struct SparseEvolveForm {
  enum class Schedule { kCosine, kLinear, kConstant };
  SparseGrid grid;
  double prune_ratio = 0;
  Schedule schedule = Schedule::kCosine;
  int64_t prune_end = 0;
  int64_t first = 0, last = 0;           ///< stored blocks of a cell until `ramp_begin` steps, and from `ramp_end` on
  int64_t ramp_begin = 0, ramp_end = 0;  ///< between them by a cubic curve, steep at its beginning
  bool by_gradient = false, regrow_pruned = false;
  uint64_t seed = 0, tensor = 0;
};
SparseEvolveForm sparse_evolve_form(const NodeSignature& node);

/// The share of its blocks that a cell loses, and how many blocks it then stores.
double prune_ratio_at(const SparseEvolveForm& form, int64_t done);
int64_t stored_blocks_at(const SparseEvolveForm& form, int64_t done);

/// What orders blocks by a score, or a norm, of 0 or more, and then by their numbers; NaN is the greatest.
inline uint64_t score_key(float score, int64_t number) {
  return uint64_t{std::bit_cast<uint32_t>(score) & 0x7fffffffu} << 32 | static_cast<uint32_t>(number);
}
/// The same with the greatest score first.
inline uint64_t falling_key(float score, int64_t number) { return score_key(score, number) ^ 0xffffffff00000000u; }
/// The number in a key.
inline int32_t number_of_key(uint64_t key) { return static_cast<int32_t>(key & 0xffffffffu); }

/// How many of a cell's `stored` blocks are dropped, and how many are new.
struct SparseChange {
  int64_t dropped = 0, grown = 0;
};
SparseChange sparse_change(const SparseEvolveForm& form, int64_t stored, int64_t done);

/// A node `sparse_candidates`: in each cell, the blocks that are not stored with the greatest norms of the gradient
/// sum over tokens of a[t, i] b[t, j], the greatest first, of equal norms the lower block; kUnusedSlot behind them. An
/// element's sum is in the order of `sparse_outer`. A norm is the sum of absolute values ("l1"), the sum of squares
/// ("l2") or the greatest absolute value ("max"): a chain of f32 over the block's elements, row by row.
struct SparseCandidatesForm {
  SparseGrid grid;
  int64_t tokens = 0;
  enum class Norm { kSum, kSquares, kMost } norm = Norm::kSum;
};
SparseCandidatesForm sparse_candidates_form(const NodeSignature& node);

/// The norm of a block after one more element.
inline float block_norm(SparseCandidatesForm::Norm kind, float norm, float element) {
  using Norm = SparseCandidatesForm::Norm;
  const float size = element < 0 ? -element : element;
  if (kind == Norm::kSquares) return norm + element * element;
  return kind == Norm::kSum ? norm + size : size > norm ? size : norm;
}

/// Words of 32 bits that hold a bit for each block of a cell.
inline int64_t explored_words(const SparseGrid& grid) { return (grid.blocks() + 31) / 32; }

}  // namespace ramet::ops

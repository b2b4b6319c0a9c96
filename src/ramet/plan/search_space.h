#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ramet/layout/layout.h"

namespace ramet::plan {

/// One way to make a step's micro-batches, where the recipe leaves it open.
struct BatchSplit {
  int64_t micro_batch = 1;   ///< samples
  int64_t accumulation = 1;  ///< micro-batches of a step, of all replicas
  LayoutFacts facts;         ///< of the recipe with them
};

/// One way to train a recipe.
struct Candidate {
  int batch = 0;  ///< in SearchSpace::batches
  Layout layout;
};

/// The choices that a recipe, a machine and a user leave open.
struct SearchSpace {
  std::vector<BatchSplit> batches;  ///< the recipe's own first
  int devices = 1;                  ///< of the machine
  bool streaming = false;           ///< whether the machine has streaming memory
  bool tied_head = false;           ///< whether the loss head shares a weight with the embeddings
  bool recomputes = false;          ///< whether the recipe itself says what to compute again
  Layout base;                      ///< keys that are not searched, and those that `fixed` names
  std::set<std::string> fixed;      ///< "p", "t", "r", "rts", "phases", ...: as in `base`

  const BatchSplit& batch_of(const Candidate& candidate) const { return batches[static_cast<size_t>(candidate.batch)]; }
};

/// Every valid choice of micro-batch, p, t1, t2, r and sequence, in order. All of a machine's devices are used, or a
/// number that divides theirs; on machines of at most 16, or with p, t or r fixed, any number. Stages: up to 16 any
/// number of them, then those that leave a stage fewer layers.
std::vector<Candidate> mesh_candidates(const SearchSpace& space);

/// Every valid choice of rts, phases, recompute, offload and schedule for one of them, in order: phases only where
/// weights live elsewhere between their uses, and the fewest that leave a part so many layers; replicas share states in
/// groups of one size, or weights in smaller ones than optimizer states; streaming of no kind, of one of the kinds or
/// sets of kinds that save the most (offload_choices).
std::vector<Candidate> layout_candidates(const SearchSpace& space, const Candidate& mesh);

/// The layout as it will be compiled: with the place of its head.
Layout settled(const SearchSpace& space, const Candidate& candidate);

/// Layouts one change of one key away, valid or not, in order: half and twice of p, t, r and phases, every other
/// recomputation, offload, rts and schedule, the next micro-batches.
std::vector<Candidate> neighbours(const SearchSpace& space, const Candidate& candidate);

/// Why a candidate cannot be, or "".
std::string why_invalid(const SearchSpace& space, const Candidate& candidate);

}  // namespace ramet::plan

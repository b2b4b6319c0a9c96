#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ramet/model/model.h"

namespace ramet::model {

/// How the patterns of block-sparse weights change (docs/sparse.md).
struct EvolveOptions {
  int64_t every = 0;  ///< steps from one change to the next; 0: patterns never change
  int64_t steps = 0;  ///< of the whole run
  double prune_ratio = 0.5;
  std::string schedule = "cosine";  ///< of the prune ratio; "linear", "constant"
  double until = 1;                 ///< the share of all steps after which nothing is pruned
  std::string score = "l1";         ///< by which blocks are pruned; "l2", "max", "fisher"
  std::string regrow = "random";    ///< or "gradient"
  bool regrow_pruned = false;       ///< whether random blocks may be such as were just pruned
  std::string age = "auto";         ///< "own", "shared", "auto": own where the optimizer corrects its moments
  double ramp_from = 0.25, ramp_until = 0.75;  ///< shares of all steps between which the density changes
};

/// Throws Error, `where` naming the option, for options that contradict each other.
void check_evolve(const EvolveOptions& options);

/// The program that changes patterns.
inline constexpr const char* kEvolve = "evolve";

/// The state i32 [R, C, words] with a bit for each block that was ever stored.
std::string explored_name(const std::string& weight);
/// The state i32 [R, C, slots] of the blocks that take the places of pruned ones.
std::string candidates_name(const std::string& weight);

/// The score of each block of an index [R, C, slots], f32 of its shape, from numbers [R, C, slots, b, b] of 0 or more:
/// their sum, or the greatest.
Tensor block_scores(Tensor elements, const Shape& index, bool greatest = false);

/// Adds to a model with block-sparse weights the program that changes their patterns. `last` gives the blocks that a
/// cell of a weight stores in the end. What a training adds is in train/evolve.h: the search for candidates by the
/// gradient, and the values and the optimizer's states, which follow their blocks.
void add_evolve(Model& model, const EvolveOptions& options, const std::map<std::string, int64_t>& last, uint64_t seed);

}  // namespace ramet::model

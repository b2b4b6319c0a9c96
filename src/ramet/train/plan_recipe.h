#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ramet/machine/machine.h"
#include "ramet/plan/search.h"
#include "ramet/train/compile_recipe.h"

namespace ramet::train {

/// Finds the layout of a recipe on a machine: what `ramet plan` and `ramet train` do with `--layout auto`.
class RecipePlanner {
 public:
  /// `machine`: absent, the one at hand. `layout`: "auto", and keys that shall stay as they are, "auto p=4 t=1".
  /// `other_batches`: where the recipe does not say its micro-batch, others are tried, too (which decides bits).
  /// Throws Error when the text is no layout.
  RecipePlanner(const Recipe& recipe, std::optional<Machine> machine, const std::string& layout,
                const TrainerOptions& options, bool other_batches = true);
  ~RecipePlanner();

  /// Whether a layout's text asks for one to be found.
  static bool is_automatic(const std::string& layout);

  const SearchSpace& space() const { return space_; }
  const Machine& machine() const { return machine_; }
  const Preparation& preparation() const { return preparation_; }  ///< of the recipe's own micro-batch, on one device
  int64_t device_memory() const { return device_memory_; }         ///< bytes that each device has; 0: as the system has

  SearchResult search(const SearchOptions& options, const std::function<void(const SearchProgress&)>& progress = {},
                      const std::function<bool()>& stop = {});
  /// Compiles one layout for the machine and simulates a step of it: the seam between search and truth.
  Outcome evaluate(const Candidate& candidate);
  /// The recipe with a layout that was found.
  Recipe recipe_of(const Candidate& candidate) const;
  /// What to type for it: `--layout "p=2" --set train.micro_batch=8 ...`.
  std::string options_of(const Candidate& candidate) const;

 private:
  struct Steps;
  void find_batches(bool others);
  CompileOptions compiling(const Layout& layout) const;
  Outcome outcome_of(const Candidate& candidate, const std::vector<Executable>& stages);
  std::string too_much(const Candidate& candidate, const Outcome& outcome, std::span<const Executable> stages) const;

  TrainerOptions options_;
  Machine machine_;
  bool local_ = false;
  int64_t device_memory_ = 0;
  Preparation preparation_;
  SearchSpace space_;
  std::shared_ptr<const KernelLibrary> library_;  ///< null: the processor's
  std::unique_ptr<Steps> steps_;
};

}  // namespace ramet::train

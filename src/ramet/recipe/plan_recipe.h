#pragma once

#include <optional>
#include <string>

#include "ramet/recipe/prepare.h"
#include "ramet/train/plan.h"

namespace ramet::recipe {

/// Finds the layout of a recipe on a machine.
class RecipePlanner : public WorkloadPlanner {
 public:
  /// As WorkloadPlanner. Other micro-batches are tried where the recipe does not say its own.
  RecipePlanner(const Recipe& recipe, std::optional<Machine> machine, const std::string& layout, const Where& where,
                bool other_batches = true);

  const Preparation& preparation() const { return preparation_; }  ///< of the recipe's own micro-batch, on one device
  /// The recipe with a layout that was found.
  Recipe recipe_of(const Candidate& candidate) const;
  /// What to type for it: `--layout "p=2" --set train.micro_batch=8 ...`.
  std::string command_of(const Candidate& candidate) const;

 private:
  RecipePlanner(Preparation preparation, std::optional<Machine> machine, const std::string& layout, const Where& where,
                bool other_batches);
  Preparation preparation_;
};

}  // namespace ramet::recipe

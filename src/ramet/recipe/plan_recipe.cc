#include "ramet/recipe/plan_recipe.h"

#include "ramet/recipe/kinds.h"

namespace ramet::recipe {
namespace {

/// The recipe on one device, ready.
Preparation prepared_alone(Recipe recipe) {
  recipe.layout = "p=1";
  recipe.places.erase("layout");
  return prepare(recipe);
}

/// The models of a complete recipe with other micro-batches.
BuildModel models_of(const Recipe& complete) {
  return [complete](const TrainOptions& options) {
    Recipe other = complete;
    other.train.micro_batch = options.micro_batch, other.train.accumulation = options.accumulation;
    return build_model(other);
  };
}

}  // namespace

RecipePlanner::RecipePlanner(const Recipe& recipe, std::optional<Machine> machine, const std::string& layout,
                             const Where& where, bool other_batches)
    : RecipePlanner(
          prepared_alone(recipe), std::move(machine), layout, where,
          other_batches && kind_of(recipe).takes_any_batch(recipe) && !recipe.places.count("train.micro_batch")) {}

RecipePlanner::RecipePlanner(Preparation preparation, std::optional<Machine> machine, const std::string& layout,
                             const Where& where, bool other_batches)
    : WorkloadPlanner(models_of(preparation.recipe), preparation.workload.train, preparation.options,
                      std::move(machine), layout, where, other_batches),
      preparation_(std::move(preparation)) {}

Recipe RecipePlanner::recipe_of(const Candidate& candidate) const {
  Recipe recipe = preparation_.recipe;
  const TrainOptions& options = options_of(candidate);
  recipe.train.micro_batch = options.micro_batch, recipe.train.accumulation = options.accumulation;
  recipe.layout = print_layout(candidate.layout);
  recipe.places["layout"] = "--layout";
  return recipe;
}

std::string RecipePlanner::command_of(const Candidate& candidate) const {
  std::string text = "--layout \"" + print_layout(candidate.layout) + "\"";
  const BatchSplit& batch = space().batch_of(candidate);
  if (candidate.batch != 0)
    text += " --set train.micro_batch=" + std::to_string(batch.micro_batch) +
            " --set train.accumulation=" + std::to_string(batch.accumulation);
  return text;
}

}  // namespace ramet::recipe

#pragma once

#include <string>
#include <vector>

#include "ramet/recipe/prepare.h"
#include "support/trained.h"

namespace ramet::tests {

/// A recipe that trains in f32 by Adam at a constant rate. Of two settings of one key the later counts: those of `own`
/// come behind the common ones, and `more` behind these. `source` names the recipe in messages.
inline Recipe adam_recipe(const std::string& source, const std::vector<std::string>& own,
                          const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"train.precision=f32",          "train.clip_norm=0.5",
                                       "train.optimizer.kind=adam",    "train.optimizer.weight_decay=0",
                                       "train.schedule.kind=constant", "train.seed=3"};
  settings.insert(settings.end(), own.begin(), own.end());
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_recipe("", source, ".", settings);
}

/// What the first steps of a recipe give on a layout.
inline Trained train(Recipe recipe, const std::string& layout = "", int steps = 3, int threads = 1) {
  if (!layout.empty()) set_layout(recipe, layout);
  Training training = make_training(prepare(recipe), {.threads = threads});
  training.initialize();
  return train_steps(training, steps);
}

}  // namespace ramet::tests

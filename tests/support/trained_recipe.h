#pragma once

#include <string>

#include "ramet/recipe/prepare.h"
#include "support/trained.h"

namespace ramet::tests {

/// What the first steps of a recipe give on a layout.
inline Trained train(Recipe recipe, const std::string& layout = "", int steps = 3, int threads = 1) {
  if (!layout.empty()) set_layout(recipe, layout);
  Training training = make_training(prepare(recipe), {.threads = threads});
  training.initialize();
  return train_steps(training, steps);
}

}  // namespace ramet::tests

#pragma once

#include <cstdint>

#include "ramet/data/source.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// Finds train.steps and train.schedule.warmup_steps where the recipe says samples, epochs or a share instead.
/// `epoch_samples`: of the corpus; 0 where it is not open, and then epochs are left for later. Throws Error naming keys
/// that contradict each other.
void settle_lengths(Recipe& recipe, int64_t epoch_samples = 0);
/// The same for a length in epochs, now that the data is there, and the end of the schedule with it.
void settle_epochs(Recipe& recipe, const Source& source);

}  // namespace ramet::recipe

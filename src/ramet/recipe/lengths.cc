#include "ramet/recipe/lengths.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"

namespace ramet::recipe {
namespace {

int64_t global_batch(const Recipe& recipe) { return recipe.train.micro_batch * recipe.train.accumulation; }

/// Global batches that hold so many samples.
int64_t batches_of(const Recipe& recipe, double samples) {
  const double batches = std::ceil(samples / static_cast<double>(global_batch(recipe)));
  return static_cast<int64_t>(std::min(batches, 1e15));
}

/// Sets `key` to the value that `other` means; the recipe must not give `key` another value.
void settle(const Recipe& recipe, const std::string& key, int64_t& field, const std::string& other, int64_t meant) {
  if (recipe.places.count(key) && field != meant)
    throw Error({.what = key + " and " + other + " contradict each other",
                 .where = recipe.where(other),
                 .found = key + " = " + std::to_string(field),
                 .expected = std::to_string(meant) + ", as " + other + " means with a global batch of " +
                             std::to_string(global_batch(recipe)),
                 .remedy = "Leave one of the two out"});
  field = meant;
}

/// Refuses a recipe that has both keys.
void only_one(const Recipe& recipe, const std::string& one, bool has_one, const std::string& other, bool has_other) {
  if (has_one && has_other)
    throw Error({.what = one + " and " + other + " say the same thing in two ways",
                 .where = recipe.where(other),
                 .remedy = "Leave one of the two out"});
}

}  // namespace

void settle_epochs(Recipe& recipe, const Source& source) {
  if (!recipe.train.epochs) return;
  const int64_t samples = source.epoch_samples(0);
  if (samples == 0)
    throw Error({.what = "synthetic data has no epochs",
                 .where = recipe.where("train.epochs"),
                 .remedy = "Give train.steps or train.samples instead, or a corpus"});
  settle_lengths(recipe, samples);
  auto& schedule = recipe.train.schedule;
  if (!schedule.steps) schedule.steps = std::max(recipe.train.steps, schedule.warmup_steps);
}

void settle_lengths(Recipe& recipe, int64_t epoch_samples) {
  auto& train = recipe.train;
  auto& schedule = recipe.train.schedule;
  only_one(recipe, "train.samples", train.samples.has_value(), "train.epochs", train.epochs.has_value());
  only_one(recipe, "train.schedule.warmup_samples", schedule.warmup_samples.has_value(), "train.schedule.warmup_share",
           schedule.warmup_share.has_value());
  if (train.epochs && recipe.is_task())
    throw Error({.what = "the length of a task's training is task.epochs",
                 .where = recipe.where("train.epochs"),
                 .remedy = "Leave train.epochs out"});
  if (train.samples)
    settle(recipe, "train.steps", train.steps, "train.samples",
           batches_of(recipe, static_cast<double>(*train.samples)));
  if (train.epochs && epoch_samples > 0)
    settle(recipe, "train.steps", train.steps, "train.epochs",
           std::max<int64_t>(1, batches_of(recipe, *train.epochs * static_cast<double>(epoch_samples))));
  if (schedule.warmup_samples)
    settle(recipe, "train.schedule.warmup_steps", schedule.warmup_steps, "train.schedule.warmup_samples",
           batches_of(recipe, static_cast<double>(*schedule.warmup_samples)));
  if (schedule.warmup_share && (!train.epochs || epoch_samples > 0))
    settle(recipe, "train.schedule.warmup_steps", schedule.warmup_steps, "train.schedule.warmup_share",
           static_cast<int64_t>(std::floor(*schedule.warmup_share * static_cast<double>(train.steps) + 0.5)));
}

}  // namespace ramet::recipe

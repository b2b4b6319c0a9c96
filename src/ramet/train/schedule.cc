#include "ramet/train/schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ramet/base/error.h"

namespace ramet::train {
namespace {

// Plain arithmetic in a fixed order, compiled without contraction: equal bits on every machine, whatever its C library.

/// cos(pi x) for x in [0, 1], by Taylor's series on [0, 1/4] of the circle.
double cos_pi(double x) {
  if (x > 0.5) return -cos_pi(1 - x);
  const double angle = 3.141592653589793 * x, square = angle * angle;
  double sum = 0;
  for (int k = 24; k >= 2; k -= 2) sum = (1 + sum) * (-square / static_cast<double>(k * (k - 1)));
  return 1 + sum;
}

/// Natural logarithm of x > 0: 2 atanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2)).
double log_of(double x) {
  int exponent = 0;
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
  double mantissa = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (mantissa > 1.4142135623730951) mantissa /= 2, ++exponent;
  const double z = (mantissa - 1) / (mantissa + 1), square = z * z;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1 / static_cast<double>(k);
  return 2 * z * sum + exponent * 0.6931471805599453;
}

/// e^x for x <= 0, to the precision that a learning rate needs (1e-14).
double exp_of(double x) {
  if (x < -700) return 0;
  const auto halvings = static_cast<int>(-x / 0.6931471805599453);
  const double rest = x + halvings * 0.6931471805599453;
  double sum = 0;
  for (int k = 22; k >= 1; --k) sum = (1 + sum) * rest / static_cast<double>(k);
  return (1 + sum) * std::bit_cast<double>(static_cast<uint64_t>(1023 - halvings) << 52);
}

double power_of(double base, double exponent) {
  return base <= 0 ? 0 : exponent == 1 ? base : exp_of(exponent * log_of(base));
}

int64_t global_batch(const Recipe& recipe) { return recipe.train.micro_batch * recipe.train.accumulation; }

/// Global batches that hold so many samples.
int64_t batches_of(const Recipe& recipe, double samples) {
  const double batches = std::ceil(samples / static_cast<double>(global_batch(recipe)));
  return static_cast<int64_t>(std::min(batches, 1e15));
}

/// Puts what `other` means into `key`, which nobody may have given another value.
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

double scheduled_rate(const Recipe& recipe, int64_t step) {
  const auto& schedule = recipe.train.schedule;
  const double scaling = batch_scaling(recipe);
  const double peak = schedule.learning_rate * scaling, end = schedule.end * scaling;
  const int64_t warmup = schedule.warmup_steps, last = std::max(schedule.steps.value_or(recipe.train.steps), warmup);
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (schedule.kind == "constant") return peak;
  const double x =
      last == warmup ? 1 : std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(last - warmup));
  if (schedule.kind == "cosine") return end + (peak - end) * (1 + cos_pi(x)) / 2;
  if (schedule.kind == "polynomial") return end + (peak - end) * power_of(1 - x, schedule.power);
  return peak + (end - peak) * x;
}

}  // namespace

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

double batch_scaling(const Recipe& recipe) {
  if (!recipe.train.schedule.base_batch) return 1;
  const double factor =
      static_cast<double>(global_batch(recipe)) / static_cast<double>(*recipe.train.schedule.base_batch);
  const std::string& scaling = recipe.train.schedule.scaling;
  const bool root = scaling == "sqrt" || (scaling == "auto" && recipe.train.optimizer.kind == "lamb");
  return root ? std::sqrt(factor) : factor;
}

double learning_rate_at(const Recipe& recipe, int64_t step) {
  const double rate = scheduled_rate(recipe, step);
  const bool relative = recipe.train.optimizer.kind == "adafactor" && recipe.train.optimizer.relative_step;
  return relative ? std::min(rate, 1 / std::sqrt(static_cast<double>(step) + 1)) : rate;
}

double rising_decay(double rate, int64_t step) {
  return 1 - exp_of(-rate * log_of(static_cast<double>(step) + 1));
}

double bias_correction(double beta, int64_t step) {
  // By squaring: at most 64 products, always in the same order.
  double power = 1, square = beta;
  for (uint64_t n = static_cast<uint64_t>(step) + 1; n > 0; n >>= 1) {
    if (n & 1) power *= square;
    square *= square;
  }
  return 1 - power;
}

}  // namespace ramet::train

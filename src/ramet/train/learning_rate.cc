#include "ramet/train/learning_rate.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ramet/train/optimizers/optimizer.h"

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

double scheduled_rate(const TrainOptions& options, int64_t step) {
  const auto& schedule = options.schedule;
  const double scaling = batch_scaling(options);
  const double peak = schedule.learning_rate * scaling, end = schedule.end * scaling;
  const int64_t warmup = schedule.warmup_steps, last = std::max(schedule.steps.value_or(options.steps), warmup);
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (schedule.kind == "constant") return peak;
  const double x =
      last == warmup ? 1 : std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(last - warmup));
  if (schedule.kind == "cosine") return end + (peak - end) * (1 + cos_pi(x)) / 2;
  if (schedule.kind == "polynomial") return end + (peak - end) * power_of(1 - x, schedule.power);
  return peak + (end - peak) * x;
}

}  // namespace

int64_t global_batch(const TrainOptions& options) { return options.micro_batch * options.accumulation; }

double batch_scaling(const TrainOptions& options) {
  if (!options.schedule.base_batch) return 1;
  const double factor = static_cast<double>(global_batch(options)) / static_cast<double>(*options.schedule.base_batch);
  const std::string& scaling = options.schedule.scaling;
  const bool root = scaling == "sqrt" || (scaling == "auto" && find_optimizer(options.optimizer.kind).root_of_batch);
  return root ? std::sqrt(factor) : factor;
}

double learning_rate_at(const TrainOptions& options, int64_t step) {
  const double rate = scheduled_rate(options, step);
  const OptimizerDef& optimizer = find_optimizer(options.optimizer.kind);
  return optimizer.most_rate ? std::min(rate, optimizer.most_rate(options.optimizer, step)) : rate;
}

double rising_decay(double rate, int64_t step) { return 1 - exp_of(-rate * log_of(static_cast<double>(step) + 1)); }

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

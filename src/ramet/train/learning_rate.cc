#include "ramet/train/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/plain_math.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

double power_of(double base, double exponent) {
  return base <= 0 ? 0 : exponent == 1 ? base : plain_exp(exponent * plain_log(base));
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
  if (schedule.kind == "cosine") return end + (peak - end) * (1 + plain_cos_pi(x)) / 2;
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

double rising_decay(double rate, int64_t step) {
  return 1 - plain_exp(-rate * plain_log(static_cast<double>(step) + 1));
}

}  // namespace ramet::train

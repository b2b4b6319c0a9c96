#include "ramet/train/step_scalars.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/train/evolve.h"
#include "ramet/train/groups.h"
#include "ramet/train/learning_rate.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

const std::string kRate = "learning_rate";

/// kNoGroup and all groups that are trained.
std::vector<int> trained_groups(const TrainOptions& options) {
  std::vector<int> groups = {kNoGroup};
  for (size_t g = 0; g < options.groups.size(); ++g)
    if (!options.groups[g].frozen) groups.push_back(static_cast<int>(g));
  return groups;
}

void check_given(const TrainOptions& options, const StepScalars& given) {
  std::set<std::string> known;
  for (const int group : trained_groups(options)) known.insert(kRate + scalar_suffix(options, group));
  for (const auto& [name, value] : given) {
    if (!known.count(name)) {
      const std::string all = listed(known);
      throw Error({.what = "no such rate of a step", .found = "'" + name.substr(0, 100) + "'", .expected = all});
    }
    if (!std::isfinite(value) || value < 0)
      throw Error({.what = "not a rate of a step",
                   .where = name,
                   .found = std::to_string(value),
                   .expected = "a finite number, 0 or more"});
  }
}

/// The options with the schedule of a group whose highest learning rate is `peak`.
TrainOptions with_peak(TrainOptions options, double peak) {
  LearningRateOptions& schedule = options.schedule;
  schedule.end = schedule.learning_rate > 0 ? schedule.end * (peak / schedule.learning_rate) : 0;
  schedule.learning_rate = peak;
  return options;
}

}  // namespace

double group_rate_at(const TrainOptions& options, int group, int64_t step, const StepScalars& given) {
  if (const auto own = given.find(kRate + scalar_suffix(options, group)); own != given.end()) return own->second;
  const GroupOptions* rule = group == kNoGroup ? nullptr : &options.groups[static_cast<size_t>(group)];
  if (rule && rule->learning_rate) return learning_rate_at(with_peak(options, *rule->learning_rate), step);
  const auto of_all = given.find(kRate);
  const double rate = of_all != given.end() ? of_all->second : learning_rate_at(options, step);
  return rule ? rate * rule->rate.value_or(1) : rate;
}

std::vector<ScalarValue> step_scalars(const TrainOptions& options, int64_t step, const LossScale& loss_scale,
                                      const StepScalars& given) {
  check_given(options, given);
  // Moments have seen the updates that were made, schedules the steps.
  const int64_t updates = step - loss_scale.skipped;
  std::vector<ScalarValue> scalars;
  for (const int group : trained_groups(options)) {
    const std::string suffix = scalar_suffix(options, group);
    scalars.push_back({kRate + suffix, group_rate_at(options, group, step, given)});
    const OptimizerOptions optimizer = group_optimizer(options, group);
    for (const OptimizerScalar& scalar : find_optimizer(optimizer.kind).scalars)
      scalars.push_back({scalar.name + suffix, scalar.value(optimizer, updates)});
  }
  scalars.push_back({kUpdates, static_cast<double>(updates)});
  scalars.push_back({"loss_scale", loss_scale.scale});
  scalars.push_back({"inverse_loss_scale", 1 / loss_scale.scale});
  return scalars;
}

}  // namespace ramet::train

#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/runtime/engine.h"
#include "ramet/train/loss_scale.h"
#include "ramet/train/train_options.h"

namespace ramet::train {

/// Rates of one step that a caller with a schedule of its own gives: "learning_rate" for all weights, and
/// "learning_rate.GROUP" for a group. A group follows a given "learning_rate" by its factor, unless it has a learning
/// rate of its own.
using StepScalars = std::map<std::string, double>;

/// The learning rate of weights of `group` (train/groups.h) in step `step`, by the schedule and the given scalars.
double group_rate_at(const TrainOptions& options, int group, int64_t step, const StepScalars& given = {});

/// All scalar inputs of the step's graphs: "learning_rate" and the optimizer's own, for each group that is trained once
/// more with ".GROUP" behind, and the loss scale. Throws Error for given names that are none of these rates, and for
/// rates that are negative or not finite.
std::vector<ScalarValue> step_scalars(const TrainOptions& options, int64_t step, const LossScale& loss_scale,
                                      const StepScalars& given = {});

}  // namespace ramet::train

#pragma once

#include <string>
#include <vector>

#include "ramet/base/words.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

/// No group: what holds for all.
inline constexpr int kNoGroup = -1;

/// The first group that names the weight, or kNoGroup.
int group_of(const TrainOptions& options, const StateTensor& weight);
/// Its own name, or "groupN" with N from 1.
std::string group_name(const TrainOptions& options, int group);
/// The ending of the names of its scalars: ".NAME"; empty for kNoGroup.
std::string scalar_suffix(const TrainOptions& options, int group);
/// The optimizer's options with the group's own.
OptimizerOptions group_optimizer(const TrainOptions& options, int group);
/// The decay of a weight of group `group`: the group's own, else the optimizer's decay for weights that the model puts
/// into "decay".
double weight_decay_of(const TrainOptions& options, int group, const StateTensor& weight);
bool is_frozen(const TrainOptions& options, const StateTensor& weight);

/// Throws Error, `where` in front, for groups that contradict themselves or each other.
void check_groups(const TrainOptions& options, const std::string& where);
/// Throws Error for a pattern that stands for none of the weights, and when no weight is left to train.
void check_groups_of(const TrainOptions& options, const std::vector<StateTensor>& weights);

}  // namespace ramet::train

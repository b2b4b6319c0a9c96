#include "ramet/train/groups.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "ramet/base/error.h"

namespace ramet::train {

namespace {

bool names(const std::string& pattern, const StateTensor& weight) { return matches_pattern(pattern, weight.name); }

}  // namespace

int group_of(const TrainOptions& options, const StateTensor& weight) {
  for (size_t g = 0; g < options.groups.size(); ++g)
    for (const std::string& pattern : options.groups[g].weights)
      if (names(pattern, weight)) return static_cast<int>(g);
  return kNoGroup;
}

std::string group_name(const TrainOptions& options, int group) {
  const std::string& name = options.groups[static_cast<size_t>(group)].name;
  return name.empty() ? "group" + std::to_string(group + 1) : name;
}

std::string scalar_suffix(const TrainOptions& options, int group) {
  return group == kNoGroup ? "" : "." + group_name(options, group);
}

OptimizerOptions group_optimizer(const TrainOptions& options, int group) {
  OptimizerOptions result = options.optimizer;
  if (group == kNoGroup) return result;
  const GroupOptions& own = options.groups[static_cast<size_t>(group)];
  result.weight_decay = own.weight_decay.value_or(result.weight_decay);
  result.beta1 = own.beta1.value_or(result.beta1);
  result.beta2 = own.beta2.value_or(result.beta2);
  result.epsilon = own.epsilon.value_or(result.epsilon);
  result.momentum = own.momentum.value_or(result.momentum);
  return result;
}

double weight_decay_of(const TrainOptions& options, int group, const StateTensor& weight) {
  if (group != kNoGroup)
    if (const auto own = options.groups[static_cast<size_t>(group)].weight_decay) return *own;
  return weight.group == "decay" ? options.optimizer.weight_decay : 0;
}

bool is_frozen(const TrainOptions& options, const StateTensor& weight) {
  const int group = group_of(options, weight);
  return group != kNoGroup && options.groups[static_cast<size_t>(group)].frozen;
}

void check_groups(const TrainOptions& options, const std::string& where) {
  std::set<std::string> names;
  for (size_t g = 0; g < options.groups.size(); ++g) {
    const GroupOptions& group = options.groups[g];
    const std::string name = group_name(options, static_cast<int>(g));
    const auto refuse = [&](const std::string& what, const std::string& remedy) {
      throw Error({.what = what, .where = where, .found = "group '" + name.substr(0, 100) + "'", .remedy = remedy});
    };
    const bool sound =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
    if (!sound) refuse("a group's name is of letters, digits, _ and -", "Choose another name");
    if (!names.insert(name).second) refuse("two groups have the same name", "Give each its own");
    if (group.weights.empty()) refuse("a group without weights", "Name weights or patterns in `weights`");
    if (group.rate && group.learning_rate)
      refuse("a group with a rate and a learning rate of its own", "Leave one of the two out");
    const bool says_more = group.rate || group.learning_rate || group.weight_decay || group.beta1 || group.beta2 ||
                           group.epsilon || group.momentum;
    if (group.frozen && says_more) refuse("a frozen group is not updated, so it needs no other keys", "Leave them out");
    if (options.optimizer.nesterov && group.momentum && *group.momentum == 0)
      refuse("Nesterov's momentum needs a momentum above 0", "Leave the group's momentum out");
  }
}

void check_groups_of(const TrainOptions& options, const std::vector<StateTensor>& weights) {
  for (size_t g = 0; g < options.groups.size(); ++g)
    for (const std::string& pattern : options.groups[g].weights) {
      const auto named = [&](const StateTensor& weight) { return names(pattern, weight); };
      if (std::any_of(weights.begin(), weights.end(), named)) continue;
      std::set<std::string> known;
      for (const StateTensor& weight : weights) known.insert(weight.name);
      const std::string near = nearest_name(pattern, known);
      throw Error({.what = "no weight has a name like this",
                   .where = "train.groups, '" + group_name(options, static_cast<int>(g)) + "'",
                   .found = "'" + pattern.substr(0, 200) + "'",
                   .expected = near.empty() ? "" : "perhaps '" + near + "'",
                   .remedy = "`ramet inspect graph RECIPE` lists the names of all weights"});
    }
  const bool any = std::any_of(weights.begin(), weights.end(),
                               [&](const StateTensor& weight) { return !is_frozen(options, weight); });
  if (!any) throw Error({.what = "all weights are frozen: there is nothing to train", .where = "train.groups"});
}

}  // namespace ramet::train

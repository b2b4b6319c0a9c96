#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/layout/mesh.h"

namespace ramet::layout {

/// The owner of a state that never changes: each stage that reads it has it.
inline constexpr int kEveryStage = -1;

/// The update of one stage: what changes the states that it owns, and what that needs. Exact sums over all weights
/// (OpDef::regroups) keep the stage's own terms and are added up among stages before anything else reads them. Throws
/// Error when a node needs weights of two stages.
class StageUpdates {
 public:
  /// `owner`: the stage of each weight and accumulator; the other states' are found by what they meet.
  StageUpdates(const Graph& update, const Mesh& mesh, std::map<std::string, int> owner);

  Graph of_stage(int stage) const;
  /// Stage of every state of the update.
  const std::map<std::string, int>& owners() const { return owner_; }

 private:
  void label_nodes();

  const Graph& update_;
  const Mesh& mesh_;
  std::map<std::string, int> owner_;
  std::vector<int> label_;  // of each value
};

/// Parts of one stage's update, so that only a part of its states need be in device memory at once: sums over replicas
/// and norms of each group of weights; what follows from all norms; the optimizers of each group. Where norms follow
/// from sums over all weights themselves, there are more such rounds. Nodes of the result by part. `group` of each
/// state; states that have none go with what they meet.
std::vector<int> update_parts(const Graph& update, const std::map<std::string, int>& group, int groups);

}  // namespace ramet::layout

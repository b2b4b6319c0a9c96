#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/layout/mesh.h"

namespace ramet::layout {

/// The owner of a state that never changes: each stage that reads it has it.
inline constexpr int kEveryStage = -1;

/// The update of one stage: the nodes that change the states that the stage owns, and the nodes that those need. Exact
/// sums over all weights (OpDef::regroups) keep the stage's own terms and are added up among stages before anything
/// else reads them. Throws Error when a node needs weights of two stages.
class StageUpdates {
 public:
  /// `owner`: the stage of each weight and accumulator. The owner of any other state is the stage whose states it is
  /// computed with.
  StageUpdates(const Graph& update, const Mesh& mesh, std::map<std::string, int> owner);

  Graph of_stage(int stage) const;
  /// Stage of every state of the update.
  const std::map<std::string, int>& owners() const { return owner_; }

 private:
  void label_nodes();
  /// The name of the node that computes the value. All stages that add up the value call their collective by it.
  std::string name_of_sum(ValueId value) const;

  const Graph& update_;
  const Mesh& mesh_;
  std::map<std::string, int> owner_;
  std::vector<int> label_;  // of each value
};

/// Whether an op with these attributes is a collective between stages.
bool meets_stages(const OpDef& op, const Attributes& attributes);

/// Cuts one stage's update into pieces, so that only some of its states need be in device memory at once: first, for
/// each group of weights, sums over replicas and norms; then the nodes that need all norms; then the optimizer of each
/// group. Where norms themselves need sums over all weights, there are more such rounds. Collectives between stages
/// stay in the graph's order, which all stages share. Returns the number of each node's piece. `group` has the group of
/// each state; a state without one goes with the states that it is computed with.
std::vector<int> update_parts(const Graph& update, const std::map<std::string, int>& group, int groups);

}  // namespace ramet::layout

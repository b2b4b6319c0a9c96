#include "ramet/transform/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/ops/map_program.h"
#include "ramet/transform/map_clusters.h"

namespace ramet::transform {
namespace {

constexpr int kNoCluster = -1;

/// Nodes that will be one map, last first. The map stands where the last of them stood.
struct Cluster {
  std::vector<NodeId> nodes;
  NodeId last = kNoNode;
  Shape space;
  Part part;                 // layouts cut between parts, so no map reaches over two
  std::set<ValueId> inputs;  // read from outside
  int steps = 0;
};

class Fuser {
 public:
  Fuser(const Graph& graph, const FuseLimits& limits) : graph_(graph), limits_(limits), uses_(graph.uses()) {
    cluster_of_.assign(graph.nodes().size(), kNoCluster);
  }

  Graph run() {
    for (NodeId id = static_cast<NodeId>(graph_.nodes().size()) - 1; id >= 0; --id)
      if (is_fusible(id)) assign(id);
    return rebuild();
  }

 private:
  bool is_fusible(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op->map_op.empty() || node.outputs.size() != 1) return false;
    for (const ValueId input : node.inputs)
      if (graph_.type(input).dtype == DType::kF64) return false;  // whole programs are computed in f32 only
    const TensorType& type = graph_.type(node.outputs[0]);
    return (is_floating(type.dtype) && type.dtype != DType::kF64) || type.dtype == DType::kBool;
  }

  /// Where a node will run: at its own place, or at its cluster's.
  NodeId place(NodeId id) const {
    const int cluster = cluster_of_[static_cast<size_t>(id)];
    return cluster == kNoCluster ? id : clusters_[static_cast<size_t>(cluster)].last;
  }

  void assign(NodeId id) {
    const ValueId value = graph_.node(id).outputs[0];
    // Earliest place first: an outside reader of the value must run after the map that computes it.
    std::map<NodeId, int> candidates;
    for (NodeId user : uses_[static_cast<size_t>(value)])
      if (const int cluster = cluster_of_[static_cast<size_t>(user)]; cluster != kNoCluster)
        candidates.emplace(place(user), cluster);
    if (!candidates.empty()) {
      const auto [where, cluster] = *candidates.begin();
      if (may_join(id, clusters_[static_cast<size_t>(cluster)])) return join(id, cluster);
    }
    clusters_.push_back({{}, id, graph_.type(value).shape, graph_.node(id).part, {}, 0});
    join(id, static_cast<int>(clusters_.size()) - 1);
  }

  bool may_join(NodeId id, const Cluster& cluster) const {
    const Node& node = graph_.node(id);
    const ValueId value = node.outputs[0];
    if (graph_.type(value).shape != cluster.space || node.part != cluster.part) return false;
    for (NodeId user : uses_[static_cast<size_t>(value)])
      if (place(user) < cluster.last) return false;
    std::set<ValueId> inputs = cluster.inputs;
    inputs.erase(value);
    inputs.insert(node.inputs.begin(), node.inputs.end());
    return static_cast<int>(inputs.size()) <= limits_.inputs && cluster.steps + step_count(id) <= limits_.steps;
  }

  int step_count(NodeId id) const { return static_cast<int>(map_program_of(graph_.signature(id)).steps.size()); }

  void join(NodeId id, int index) {
    Cluster& cluster = clusters_[static_cast<size_t>(index)];
    const Node& node = graph_.node(id);
    cluster_of_[static_cast<size_t>(id)] = index;
    cluster.nodes.push_back(id);
    cluster.steps += step_count(id);
    cluster.inputs.erase(node.outputs[0]);
    cluster.inputs.insert(node.inputs.begin(), node.inputs.end());
  }

  Graph rebuild() const {
    std::vector<MapCluster> made;
    for (const Cluster& cluster : clusters_) made.push_back({cluster.nodes, cluster.last, cluster.space});
    return with_maps(graph_, made, MapRounding::kAtOutputs);
  }

  const Graph& graph_;
  const FuseLimits limits_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<int> cluster_of_;
  std::vector<Cluster> clusters_;
};

}  // namespace

Graph fuse(const Graph& graph, const FuseLimits& limits) { return Fuser(graph, limits).run(); }

StepGraph fuse(StepGraph step) {
  for (Graph* graph : step.graphs()) *graph = fuse(*graph);
  return step;
}

}  // namespace ramet::transform

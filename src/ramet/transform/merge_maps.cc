#include "ramet/transform/merge_maps.h"

#include <algorithm>
#include <set>

#include "ramet/ops/map_program.h"
#include "ramet/ops/map_role.h"
#include "ramet/transform/map_clusters.h"

namespace ramet::transform {
namespace {

constexpr int kNoCluster = -1;

class Merger {
 public:
  Merger(const Graph& graph, const MergeLimits& limits)
      : graph_(graph),
        limits_(limits),
        uses_(graph.uses()),
        is_output_(graph.values().size(), false),
        cluster_of_(graph.nodes().size(), kNoCluster) {
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
  }

  Graph run() {
    for (NodeId id = static_cast<NodeId>(graph_.nodes().size()) - 1; id >= 0; --id) {
      if (!may_merge(id)) continue;
      if (!join_readers(id) && role_of(id) != MapRole::kSpread) begin_cluster(id);
    }
    std::vector<MapCluster> made;
    for (MapCluster& cluster : clusters_)
      if (!cluster.nodes.empty()) made.push_back(std::move(cluster));
    return with_maps(graph_, made, MapRounding::kAlways);
  }

 private:
  MapRole role_of(NodeId id) const { return map_role(graph_.signature(id)); }

  /// Types whose values a map holds exactly, or rounds by a step of its own.
  bool has_known_types(const std::vector<ValueId>& values) const {
    return std::ranges::all_of(values, [&](ValueId value) {
      const DType dtype = graph_.type(value).dtype;
      return dtype != DType::kF64 && !(is_floating(dtype) && size_of(dtype) < 2);
    });
  }

  bool may_merge(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!node.gradient.empty() || !has_known_types(node.inputs) || !has_known_types(node.outputs)) return false;
    const MapRole role = role_of(id);
    if (role != MapRole::kProgram) return role != MapRole::kNone;
    // A map of integers is no faster for being larger.
    const bool floats = std::ranges::all_of(node.outputs, [&](ValueId value) {
      const DType dtype = graph_.type(value).dtype;
      return is_floating(dtype) || dtype == DType::kBool;
    });
    return floats && !map_program_of(graph_.signature(id)).draws();
  }

  Shape space_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (role_of(id) == MapRole::kSumRows) return graph_.type(node.inputs[0]).shape;
    if (role_of(id) == MapRole::kSpread) return graph_.type(node.outputs[0]).shape;
    return map_space_of(graph_.signature(id));
  }

  int steps_of(NodeId id) const {
    if (role_of(id) != MapRole::kProgram) return 0;
    int steps = static_cast<int>(map_program_of(graph_.signature(id)).steps.size());
    for (const ValueId value : graph_.node(id).outputs) {
      const DType dtype = graph_.type(value).dtype;
      steps += is_floating(dtype) && size_of(dtype) == 2;
    }
    return steps;
  }

  void begin_cluster(NodeId id) {
    cluster_of_[static_cast<size_t>(id)] = static_cast<int>(clusters_.size());
    clusters_.push_back({{id}, id, space_of(id)});
  }

  /// Where a node will run: at its own place, or at its cluster's.
  NodeId place(NodeId id) const {
    const int cluster = cluster_of_[static_cast<size_t>(id)];
    return cluster == kNoCluster ? id : clusters_[static_cast<size_t>(cluster)].last;
  }

  bool fits(const Node& node, const Shape& space, const MapCluster& target) const {
    const Node& last = graph_.node(target.last);
    return space == target.space && node.part == last.part && node.pass == last.pass;
  }

  /// Puts a node, and those clusters of its readers that would else run before it, into the cluster of a reader; false
  /// when no cluster can take them.
  bool join_readers(NodeId id) {
    std::set<std::pair<NodeId, int>> targets;  // by place: in the last one, nothing has to run earlier than it can
    for (const ValueId value : graph_.node(id).outputs)
      for (const NodeId user : uses_[static_cast<size_t>(value)])
        if (const int cluster = cluster_of_[static_cast<size_t>(user)]; cluster != kNoCluster)
          targets.emplace(place(user), cluster);
    return std::any_of(targets.rbegin(), targets.rend(), [&](const auto& each) { return join(id, each.second); });
  }

  bool join(NodeId id, int index) {
    const MapCluster& target = clusters_[static_cast<size_t>(index)];
    if (!fits(graph_.node(id), space_of(id), target)) return false;
    std::set<int> moved;
    if (!find_moved({id}, index, &moved)) return false;
    const bool inside = std::ranges::all_of(graph_.node(id).outputs, [&](ValueId value) {
      return !is_output_[static_cast<size_t>(value)] &&
             std::ranges::all_of(uses_[static_cast<size_t>(value)], [&](NodeId user) {
               const int cluster = cluster_of_[static_cast<size_t>(user)];
               return cluster == index || moved.contains(cluster);
             });
    });
    // A broadcast that others read exists anyway.
    if (role_of(id) == MapRole::kSpread && !inside) return false;
    std::vector<NodeId> nodes = target.nodes;
    nodes.push_back(id);
    for (const int cluster : moved) {
      const std::vector<NodeId>& more = clusters_[static_cast<size_t>(cluster)].nodes;
      nodes.insert(nodes.end(), more.begin(), more.end());
    }
    std::ranges::sort(nodes, std::greater<>());
    if (!is_small(nodes)) return false;
    for (const NodeId node : nodes) cluster_of_[static_cast<size_t>(node)] = index;
    for (const int cluster : moved) clusters_[static_cast<size_t>(cluster)].nodes.clear();
    clusters_[static_cast<size_t>(index)].nodes = std::move(nodes);
    return true;
  }

  /// Whether `nodes` can run at the place of cluster `target`. Readers that run earlier must move there as well: with
  /// `moved`, their clusters are noted, without it they are not allowed.
  bool find_moved(const std::vector<NodeId>& nodes, int target, std::set<int>* moved) const {
    const MapCluster& at = clusters_[static_cast<size_t>(target)];
    for (const NodeId node : nodes)
      for (const ValueId value : graph_.node(node).outputs)
        for (const NodeId user : uses_[static_cast<size_t>(value)]) {
          const int cluster = cluster_of_[static_cast<size_t>(user)];
          if (cluster == target || place(user) >= at.last || std::ranges::find(nodes, user) != nodes.end()) continue;
          if (!moved || cluster == kNoCluster) return false;
          if (moved->contains(cluster)) continue;
          const MapCluster& readers = clusters_[static_cast<size_t>(cluster)];
          if (!fits(graph_.node(readers.last), readers.space, at) || !find_moved(readers.nodes, target, nullptr))
            return false;
          moved->insert(cluster);
        }
    return true;
  }

  bool is_small(const std::vector<NodeId>& nodes) const {
    std::set<ValueId> inputs;
    int steps = 0;
    for (const NodeId id : nodes) {
      inputs.insert(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
      steps += steps_of(id);
    }
    for (const NodeId id : nodes)
      for (const ValueId value : graph_.node(id).outputs) inputs.erase(value);
    return static_cast<int>(inputs.size()) <= limits_.inputs && steps <= limits_.steps;
  }

  const Graph& graph_;
  const MergeLimits limits_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_output_;
  std::vector<int> cluster_of_;
  std::vector<MapCluster> clusters_;
};

}  // namespace

Graph merge_maps(const Graph& graph, const MergeLimits& limits) { return Merger(graph, limits).run(); }

}  // namespace ramet::transform

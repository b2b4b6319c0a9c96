#include "ramet/transform/map_clusters.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ramet/ops/map_program.h"
#include "ramet/ops/map_role.h"
#include "ramet/ops/map_types.h"
#include "ramet/transform/append_map.h"
#include "ramet/transform/map_needs.h"

namespace ramet::transform {
namespace {

/// Serial number of a cluster's map: the last that a node of it has.
int32_t serial_of(const Graph& graph, const MapCluster& cluster) {
  const auto numbered = std::ranges::find_if(cluster.nodes, [&](NodeId id) { return graph.node(id).serial != 0; });
  return numbered == cluster.nodes.end() ? 0 : graph.node(*numbered).serial;
}

/// Writes the map of one cluster.
class ClusterMap {
 public:
  ClusterMap(const Graph& graph, const MapCluster& cluster, const std::vector<std::vector<NodeId>>& uses,
             const std::vector<bool>& is_output, MapRounding rounding)
      : graph_(graph), cluster_(cluster), uses_(uses), is_output_(is_output), rounding_(rounding) {
    std::set<ValueId> made, read;
    for (const NodeId id : cluster.nodes) {
      made.insert(graph.node(id).outputs.begin(), graph.node(id).outputs.end());
      read.insert(graph.node(id).inputs.begin(), graph.node(id).inputs.end());
    }
    for (const ValueId value : read) {
      if (made.contains(value)) continue;
      number_[value] = program_.inputs++;
      inputs_.push_back(value);
    }
    for (auto id = cluster.nodes.rbegin(); id != cluster.nodes.rend(); ++id) add(*id);
    shrink();
  }

  void emit(GraphCopier& copier, Graph& result) const {
    if (outputs_.empty()) return;  // the chain has no reader: it is dead
    std::vector<ValueId> inputs;
    for (const ValueId input : inputs_) inputs.push_back(copier[input]);
    std::vector<DType> dtypes;
    for (const ValueId output : outputs_) dtypes.push_back(graph_.type(output).dtype);
    NodeInfo info = copier.info(cluster_.last);
    info.serial = serial_of(graph_, cluster_);
    const Attributes attributes{
        {"program", program_.text()}, {"shape", cluster_.space.dims()}, {"dtypes", dtypes_text(dtypes)}};
    const NodeId map = result.add_node(OpRegistry::instance().get("map"), inputs, attributes, std::move(info));
    for (size_t i = 0; i < outputs_.size(); ++i) copier.map(outputs_[i], result.node(map).outputs[i]);
  }

 private:
  using Reduce = MapProgram::Reduce;

  bool is_inside(NodeId node) const { return std::ranges::find(cluster_.nodes, node) != cluster_.nodes.end(); }
  bool is_read(ValueId value, bool inside) const {
    if (!inside && is_output_[static_cast<size_t>(value)]) return true;
    return std::ranges::any_of(uses_[static_cast<size_t>(value)],
                               [&](NodeId user) { return is_inside(user) == inside; });
  }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeSignature signature = graph_.signature(id);
    const MapRole role = map_role(signature);
    if (role == MapRole::kSumRows)
      give(node.outputs[0], number_.at(node.inputs[0]), Reduce::kSumRows);
    else if (role == MapRole::kSpread)
      give(node.outputs[0], number_.at(node.inputs[0]), Reduce::kNone);
    else
      append(map_program_of(signature), node);
  }

  /// Appends a node's own program, whose inputs are the node's inputs.
  void append(const MapProgram& own, const Node& node) {
    std::vector<int> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(number_.at(input));
    const std::vector<int> values = append_steps(program_, own, std::move(inputs));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const MapProgram::Output& output = own.outputs[i];
      const int value = values[static_cast<size_t>(output.value)];
      give(node.outputs[i], output.reduce == Reduce::kNone ? rounded(node.outputs[i], value) : value, output.reduce);
    }
  }

  /// The number of a value as readers inside of the cluster must see it.
  int rounded(ValueId value, int number) {
    if (rounding_ == MapRounding::kAtOutputs || !is_read(value, true)) return number;
    return append_rounding(program_, number, graph_.type(value).dtype);
  }

  void give(ValueId value, int number, Reduce reduce) {
    if (reduce == Reduce::kNone) number_[value] = number;
    if (!is_read(value, false)) return;
    program_.outputs.push_back({number, reduce});
    outputs_.push_back(value);
  }

  /// Leaves out the steps and inputs that no output needs: those of a map's outputs that nobody reads.
  void shrink() {
    std::vector<int> wanted = {0};  // a map has an input
    for (const MapProgram::Output& output : program_.outputs) wanted.push_back(output.value);
    const std::vector<int> needed = needed_values(program_, wanted);
    if (std::ssize(needed) == program_.values()) return;
    MapProgram whole = std::exchange(program_, {});
    const std::vector<ValueId> read = std::exchange(inputs_, {});
    std::vector<int> number(static_cast<size_t>(whole.values()), -1);
    for (const int value : needed) {
      if (value < whole.inputs) {
        inputs_.push_back(read[static_cast<size_t>(value)]);
        number[static_cast<size_t>(value)] = program_.inputs++;
        continue;
      }
      MapProgram::Step& step = whole.steps[static_cast<size_t>(value - whole.inputs)];
      for (int& operand : step.operands) operand = number[static_cast<size_t>(operand)];
      number[static_cast<size_t>(value)] = program_.values();
      program_.steps.push_back(std::move(step));
    }
    for (const MapProgram::Output& output : whole.outputs)
      program_.outputs.push_back({number[static_cast<size_t>(output.value)], output.reduce});
  }

  const Graph& graph_;
  const MapCluster& cluster_;
  const std::vector<std::vector<NodeId>>& uses_;
  const std::vector<bool>& is_output_;
  const MapRounding rounding_;
  MapProgram program_;
  std::vector<ValueId> inputs_, outputs_;
  std::map<ValueId, int> number_;
};

}  // namespace

Graph with_maps(const Graph& graph, const std::vector<MapCluster>& clusters, MapRounding rounding) {
  const std::vector<std::vector<NodeId>> uses = graph.uses();
  std::vector<bool> is_output(graph.values().size(), false);
  for (const GraphOutput& output : graph.outputs()) is_output[static_cast<size_t>(output.value)] = true;
  const auto has_unread_output = [&](NodeId id) {
    return std::ranges::any_of(graph.node(id).outputs, [&](ValueId value) {
      return !is_output[static_cast<size_t>(value)] && uses[static_cast<size_t>(value)].empty();
    });
  };
  std::vector<const MapCluster*> cluster_of(graph.nodes().size(), nullptr);
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  for (const MapCluster& cluster : clusters) {
    const int32_t serial = serial_of(graph, cluster);
    for (const NodeId id : cluster.nodes) {
      copier.stand_in(graph.node(id).serial, serial);
      if (cluster.nodes.size() > 1 || has_unread_output(id)) cluster_of[static_cast<size_t>(id)] = &cluster;
    }
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const MapCluster* cluster = cluster_of[static_cast<size_t>(id)];
    if (!cluster)
      copier.copy_node(id);
    else if (cluster->last == id)
      ClusterMap(graph, *cluster, uses, is_output, rounding).emit(copier, result);
  }
  copier.copy_outputs();
  return result;
}

}  // namespace ramet::transform

#include "ramet/transform/residual.h"

#include <vector>

namespace ramet::transform {
namespace {

/// The nodes on ways from `from` to `to`; none when `to` does not depend on `from`.
std::set<NodeId> nodes_between(const Graph& graph, ValueId from, ValueId to) {
  const NodeId first = graph.value(from).producer;
  // Which nodes depend on `from`: they all stand behind its maker, and before that of `to`.
  const NodeId last = graph.value(to).producer;
  std::set<NodeId> forward, between;
  if (last == kNoNode || last <= first) return between;
  std::set<ValueId> reached{from};
  for (NodeId id = first + 1; id <= last; ++id)
    for (ValueId input : graph.node(id).inputs)
      if (reached.count(input)) {
        forward.insert(id);
        for (ValueId output : graph.node(id).outputs) reached.insert(output);
        break;
      }
  if (!reached.count(to)) return between;
  std::set<ValueId> needed{to};
  for (NodeId id = last; id > first; --id) {
    const Node& node = graph.node(id);
    bool makes = false;
    for (ValueId output : node.outputs) makes = makes || needed.count(output);
    if (!makes || !forward.count(id)) continue;
    between.insert(id);
    for (ValueId input : node.inputs) needed.insert(input);
  }
  return between;
}

}  // namespace

std::map<NodeId, Residual> find_residuals(const Graph& graph) {
  std::map<NodeId, Residual> residuals;
  int sums = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (!node.op->scaling.sum || node.inputs.size() != 2) continue;
    const TensorType& type = graph.type(node.outputs[0]);
    if (!is_floating(type.dtype) || type.shape.rank() == 0) continue;
    for (size_t branch : {1, 0}) {
      const ValueId skip = node.inputs[1 - branch], other = node.inputs[branch];
      if (graph.value(skip).producer == kNoNode || graph.type(skip).shape != type.shape ||
          graph.type(other).shape != type.shape)
        continue;
      std::set<NodeId> nodes = nodes_between(graph, skip, other);
      if (nodes.empty()) continue;
      Residual residual{.branch = branch, .nodes = std::move(nodes)};
      ValueId before = skip;
      NodeId maker = graph.value(before).producer;
      while (maker != kNoNode && !residuals.count(maker) && graph.node(maker).op->scaling.passes) {
        before = graph.node(maker).inputs[0];
        maker = graph.value(before).producer;
      }
      if (const auto known = residuals.find(maker); maker != kNoNode && known != residuals.end())
        residual.sum = known->second.sum, residual.index = known->second.index + 1;
      else
        residual.sum = sums++;
      residuals.emplace(id, std::move(residual));
      break;
    }
  }
  return residuals;
}

}  // namespace ramet::transform

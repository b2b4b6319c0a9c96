#include "ramet/program/order_analysis.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "ramet/layout/stage_update.h"

namespace ramet::program {

void OrderAnalysis::find_roots() {
  const size_t values = graph.values().size();
  root_.resize(values);
  size_.assign(values, 0);
  kept.assign(values, false);
  external.assign(values, false);
  for (const GraphInput& input : graph.inputs()) {
    const auto value = static_cast<size_t>(input.value);
    root_[value] = input.value;
    external[value] = input.role == InputRole::kState || input.role == InputRole::kBoundary;
    if (!external[value]) size_[value] = graph.type(input.value).bytes();
  }
  for (const Node& node : graph.nodes())
    for (ValueId output : node.outputs) {
      const auto value = static_cast<size_t>(output);
      root_[value] = node.op->is_view ? root_[static_cast<size_t>(node.inputs[0])] : output;
      if (!node.op->is_view) size_[value] = graph.type(output).bytes();
    }
  for (const GraphOutput& output : graph.outputs()) {
    const ValueId root = this->root(output.value);
    kept[static_cast<size_t>(root)] = true;
    if (output.role != OutputRole::kResult) size_[static_cast<size_t>(root)] = 0;
  }
}

void OrderAnalysis::find_edges() {
  reads.resize(nodes);
  successors.resize(nodes);
  predecessors.assign(nodes, 0);
  readers.resize(graph.values().size());
  NodeId meeting = kNoNode;  // the last collective between stages
  for (size_t id = 0; id < nodes; ++id) {
    const Node& node = graph.node(static_cast<NodeId>(id));
    for (ValueId input : node.inputs) {
      add_edge(graph.value(input).producer, static_cast<NodeId>(id));
      auto& roots = reads[id];
      if (std::find(roots.begin(), roots.end(), root(input)) == roots.end()) roots.push_back(root(input));
    }
    for (ValueId read : reads[id]) readers[static_cast<size_t>(read)].push_back(static_cast<NodeId>(id));
    // Stages meet in collectives in one order, that of their graphs.
    if (!layout::meets_stages(*node.op, node.attributes)) continue;
    add_edge(meeting, static_cast<NodeId>(id));
    meeting = static_cast<NodeId>(id);
  }
  // Readers of a state before its writer, if the graph's own order has them so.
  std::unordered_map<std::string, ValueId> old;
  for (const GraphInput& input : graph.inputs())
    if (input.role == InputRole::kState) old[graph.value(input.value).name] = input.value;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.role != OutputRole::kState) continue;
    const NodeId writer = graph.value(root(output.value)).producer;
    const auto state = old.find(output.name);
    if (writer == kNoNode || state == old.end()) continue;
    for (NodeId reader : readers[static_cast<size_t>(state->second)])
      if (reader < writer) add_edge(reader, writer);
  }
}

void OrderAnalysis::add_edge(NodeId from, NodeId to) {
  if (from == kNoNode) return;
  auto& after = successors[static_cast<size_t>(from)];
  if (!after.empty() && after.back() == to) return;
  after.push_back(to);
  ++predecessors[static_cast<size_t>(to)];
}

}  // namespace ramet::program

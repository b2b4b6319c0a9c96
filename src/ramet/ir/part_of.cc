#include "ramet/ir/part_of.h"

#include <algorithm>

namespace ramet::ir {

Graph part_of(const Graph& graph, const std::string& name, const std::vector<GraphOutput>& outputs) {
  std::vector<bool> needed(graph.values().size(), false);
  for (const GraphOutput& output : outputs) needed[static_cast<size_t>(output.value)] = true;
  const auto is_needed = [&](const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId value) { return needed[static_cast<size_t>(value)]; });
  };
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node)
    if (is_needed(*node))
      for (const ValueId input : node->inputs) needed[static_cast<size_t>(input)] = true;
  Graph part(name);
  GraphCopier copier(graph, part);
  for (const GraphInput& input : graph.inputs())
    if (needed[static_cast<size_t>(input.value)]) copier.copy_input(input);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    if (is_needed(graph.node(id))) copier.copy_node(id);
  for (const GraphOutput& output : outputs) part.add_output(output.name, copier[output.value], output.role);
  return part;
}

Graph part_of(const Graph& graph, const std::set<std::string>& wanted) {
  std::vector<GraphOutput> outputs;
  for (const GraphOutput& output : graph.outputs())
    if (wanted.count(output.name)) outputs.push_back(output);
  return part_of(graph, graph.name(), outputs);
}

}  // namespace ramet::ir

#include "ramet/ir/text.h"

#include "ramet/base/error.h"

namespace ramet {
namespace {

std::string quote(const std::string& text) { return text_of(Attribute(text)); }

std::string value_text(const Graph& graph, ValueId id) {
  const std::string& name = graph.value(id).name;
  return "%" + std::to_string(id) + (name.empty() ? "" : " " + quote(name));
}

std::string node_text(const Graph& graph, const Node& node, bool whole) {
  std::string text = "  ";
  for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + value_text(graph, node.outputs[i]);
  text += " = " + node.op->name + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", %" : "%") + std::to_string(node.inputs[i]);
  text += ")";
  if (!node.attributes.empty()) {
    text += " {";
    bool first = true;
    for (const auto& [name, attribute] : node.attributes) {
      text += (first ? "" : ", ") + name + "=" + (whole ? text_of(attribute) : short_text_of(attribute));
      first = false;
    }
    text += "}";
  }
  text += " : ";
  for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + graph.type(node.outputs[i]).text();
  if (!node.name.empty()) text += " @ " + quote(node.name);
  return text + "\n";
}

std::string input_text(const Graph& graph, const GraphInput& input) {
  return "  input " + value_text(graph, input.value) + " : " + graph.type(input.value).text() + " " +
         std::string(name_of(input.role)) + "\n";
}

std::string graph_text(const Graph& graph, bool whole) {
  std::string text = "graph " + quote(graph.name()) + " {\n";
  // Inputs and nodes are printed in the order of their values' numbers, so that reading gives the same numbers.
  auto input = graph.inputs().begin();
  const auto print_inputs_before = [&](ValueId limit) {
    for (; input != graph.inputs().end() && input->value < limit; ++input) text += input_text(graph, *input);
  };
  for (const Node& node : graph.nodes()) {
    if (!node.outputs.empty()) print_inputs_before(node.outputs[0]);
    text += node_text(graph, node, whole);
  }
  print_inputs_before(static_cast<ValueId>(graph.values().size()));
  for (const auto& output : graph.outputs())
    text += "  output " + quote(output.name) + " = %" + std::to_string(output.value) + " " +
            std::string(name_of(output.role)) + "\n";
  return text + "}\n";
}

}  // namespace

std::string print(const Graph& graph) { return graph_text(graph, true); }
std::string print_short(const Graph& graph) { return graph_text(graph, false); }

std::string print_dot(const Graph& graph) {
  std::string text = "digraph " + quote(graph.name()) + " {\n  node [shape=box, fontname=monospace];\n";
  for (const auto& input : graph.inputs())
    text += "  v" + std::to_string(input.value) +
            " [shape=ellipse, label=" + quote(graph.value(input.value).name + "\n" + graph.type(input.value).text()) +
            "];\n";
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    text += "  n" + std::to_string(id) + " [label=" + quote(node.op->name + "\n" + node.name) + "];\n";
    for (ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      text += "  " + (producer == kNoNode ? "v" + std::to_string(input) : "n" + std::to_string(producer)) + " -> n" +
              std::to_string(id) + " [label=" + quote(graph.type(input).text()) + "];\n";
    }
  }
  for (const auto& output : graph.outputs()) {
    const NodeId producer = graph.value(output.value).producer;
    text += "  o" + std::to_string(&output - graph.outputs().data()) + " [shape=ellipse, label=" + quote(output.name) +
            "];\n  " + (producer == kNoNode ? "v" + std::to_string(output.value) : "n" + std::to_string(producer)) +
            " -> o" + std::to_string(&output - graph.outputs().data()) + ";\n";
  }
  return text + "}\n";
}

}  // namespace ramet

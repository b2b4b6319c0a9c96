#include "ramet/ir/text.h"

#include "ramet/base/error.h"

namespace ramet::ir {
namespace {

std::string quote(const std::string& text) { return text_of(Attribute(text)); }

std::string value_text(const Graph& graph, ValueId id, bool named = true) {
  const std::string name = named ? graph.value(id).name : "";
  return "%" + std::to_string(id) + (name.empty() ? "" : " " + quote(name));
}

std::string info_text(const NodeInfo& info, PrintedText how) {
  std::string text;
  if (!info.name.empty() && how != PrintedText::kMeaning) text += " @ " + quote(info.name);
  if (info.part.known()) text += " part " + quote(info.part.stack) + " " + std::to_string(info.part.index);
  if (info.pass != NodePass::kForward) text += " pass " + std::string(name_of(info.pass));
  if (info.serial != 0) text += " serial " + std::to_string(info.serial);
  if (info.forward_of != 0) text += " of " + std::to_string(info.forward_of);
  if (!info.gradient.empty()) text += " gradient " + quote(info.gradient);
  if (!info.origin.empty() && how < PrintedText::kKey) text += " from " + quote(info.origin);
  return text;
}

std::string node_text(const Graph& graph, const Node& node, PrintedText how) {
  std::string text = "  ";
  for (size_t i = 0; i < node.outputs.size(); ++i)
    text += (i ? ", " : "") + value_text(graph, node.outputs[i], how != PrintedText::kMeaning);
  text += " = " + node.op->name + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", %" : "%") + std::to_string(node.inputs[i]);
  text += ")";
  if (!node.attributes.empty()) {
    text += " {";
    bool first = true;
    for (const auto& [name, attribute] : node.attributes) {
      text += (first ? "" : ", ") + name + "=" + (how == PrintedText::kAll ? text_of(attribute) : short_text_of(attribute));
      first = false;
    }
    text += "}";
  }
  text += " : ";
  for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + graph.type(node.outputs[i]).text();
  return text + info_text(node, how) + "\n";
}

std::string input_text(const Graph& graph, const GraphInput& input) {
  std::string text = "  input " + value_text(graph, input.value) + " : " + graph.type(input.value).text() + " " +
                     std::string(name_of(input.role));
  for (size_t i = 0; i < input.axes.size(); ++i) text += (i ? "," : " [") + quote(input.axes[i]);
  return text + (input.axes.empty() ? "\n" : "]\n");
}

}  // namespace

std::string print(const Graph& graph, PrintedText how) {
  std::string text = "graph " + quote(graph.name()) + " {\n";
  // Inputs and nodes are printed in the order of their values' numbers, so that reading gives the same numbers.
  auto input = graph.inputs().begin();
  const auto print_inputs_before = [&](ValueId limit) {
    for (; input != graph.inputs().end() && input->value < limit; ++input) text += input_text(graph, *input);
  };
  for (const Node& node : graph.nodes()) {
    if (!node.outputs.empty()) print_inputs_before(node.outputs[0]);
    text += node_text(graph, node, how);
  }
  print_inputs_before(static_cast<ValueId>(graph.values().size()));
  for (const auto& output : graph.outputs())
    text += "  output " + quote(output.name) + " = %" + std::to_string(output.value) + " " +
            std::string(name_of(output.role)) + "\n";
  return text + "}\n";
}

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

}  // namespace ramet::ir

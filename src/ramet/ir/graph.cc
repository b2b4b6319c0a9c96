#include "ramet/ir/graph.h"

#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"

namespace ramet::ir {

std::string_view name_of(InputRole role) {
  switch (role) {
    case InputRole::kData: return "data";
    case InputRole::kScalar: return "scalar";
    case InputRole::kState: return "state";
    case InputRole::kBoundary: return "boundary";
  }
  internal_error("name_of", "unknown input role");
}

std::string_view name_of(OutputRole role) {
  switch (role) {
    case OutputRole::kResult: return "result";
    case OutputRole::kState: return "state";
    case OutputRole::kBoundary: return "boundary";
  }
  internal_error("name_of", "unknown output role");
}

std::string_view name_of(NodePass pass) {
  switch (pass) {
    case NodePass::kForward: return "forward";
    case NodePass::kBackward: return "backward";
    case NodePass::kRecompute: return "recompute";
    case NodePass::kAccumulate: return "accumulate";
    case NodePass::kUpdate: return "update";
  }
  internal_error("name_of", "unknown pass of a node");
}

std::string text_of(const Part& part) { return part.known() ? part.stack + " " + std::to_string(part.index) : ""; }

ValueId Graph::add_input(const std::string& name, TensorType type, InputRole role, std::vector<std::string> axes) {
  if (find_input(name) != kNoValue)
    throw Error(
        {.what = "a second graph input of the same name", .where = "graph '" + name_ + "'", .found = "'" + name + "'"});
  if (!axes.empty() && static_cast<int>(axes.size()) != type.shape.rank())
    throw Error({.what = "not one axis a dimension",
                 .where = "input '" + name + "' of graph '" + name_ + "'",
                 .found = std::to_string(axes.size()) + " axes",
                 .expected = std::to_string(type.shape.rank()) + ", as " + type.text() + " has dimensions"});
  const ValueId id = static_cast<ValueId>(values_.size());
  values_.push_back({std::move(type), name, kNoNode, 0});
  inputs_.push_back({id, role, std::move(axes)});
  input_names_.add(name, static_cast<int32_t>(inputs_.size()) - 1);
  return id;
}

ValueId Graph::add_input(const Graph& from, const GraphInput& input) {
  const Value& value = from.value(input.value);
  return add_input(value.name, value.type, input.role, input.axes);
}

NodeId Graph::add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attributes, NodeInfo info) {
  NodeSignature signature{&op, {}, {}, std::move(attributes), info.name};
  signature.inputs.reserve(inputs.size());
  for (ValueId input : inputs) {
    if (input < 0 || static_cast<size_t>(input) >= values_.size())
      throw Error({.what = "node reads a value that does not exist",
                   .where = signature.text(),
                   .found = "%" + std::to_string(input)});
    signature.inputs.push_back(type(input));
  }
  const int count = static_cast<int>(inputs.size());
  if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs))
    throw Error(
        {.what = "wrong number of inputs",
         .where = signature.text(),
         .found = std::to_string(count),
         .expected = std::to_string(op.min_inputs) + (op.max_inputs == op.min_inputs ? ""
                                                      : op.max_inputs < 0            ? " or more"
                                                                          : " to " + std::to_string(op.max_inputs))});
  std::vector<TensorType> types = op.infer(signature);
  const NodeId id = static_cast<NodeId>(nodes_.size());
  Node node{std::move(info), &op, std::move(inputs), {}, std::move(signature.attributes)};
  for (size_t i = 0; i < types.size(); ++i) {
    node.outputs.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({std::move(types[i]), "", id, static_cast<int>(i)});
  }
  nodes_.push_back(std::move(node));
  return id;
}

void Graph::add_output(const std::string& name, ValueId value, OutputRole role) {
  if (find_output(name))
    throw Error({.what = "a second graph output of the same name",
                 .where = "graph '" + name_ + "'",
                 .found = "'" + name + "'"});
  if (value < 0 || static_cast<size_t>(value) >= values_.size())
    throw Error(
        {.what = "output of a value that does not exist", .where = "graph '" + name_ + "'", .found = "'" + name + "'"});
  outputs_.push_back({name, value, role});
  output_names_.add(name, static_cast<int32_t>(outputs_.size()) - 1);
}

ValueId Graph::find_input(std::string_view name) const {
  const auto name_of = [this](int32_t entry) -> std::string_view {
    return value(inputs_[static_cast<size_t>(entry)].value).name;
  };
  const int32_t entry = input_names_.find(name, name_of);
  return entry < 0 ? kNoValue : inputs_[static_cast<size_t>(entry)].value;
}

const GraphOutput* Graph::find_output(std::string_view name) const {
  const auto name_of = [this](int32_t entry) -> std::string_view { return outputs_[static_cast<size_t>(entry)].name; };
  const int32_t entry = output_names_.find(name, name_of);
  return entry < 0 ? nullptr : &outputs_[static_cast<size_t>(entry)];
}

NodeSignature Graph::signature(NodeId id) const {
  const Node& source = node(id);
  NodeSignature signature{source.op, {}, {}, source.attributes, source.name};
  for (ValueId input : source.inputs) signature.inputs.push_back(type(input));
  for (ValueId output : source.outputs) signature.outputs.push_back(type(output));
  return signature;
}

std::vector<std::vector<NodeId>> Graph::uses() const {
  std::vector<std::vector<NodeId>> uses(values_.size());
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id)
    for (ValueId input : node(id).inputs) {
      auto& users = uses[static_cast<size_t>(input)];
      if (users.empty() || users.back() != id) users.push_back(id);
    }
  return uses;
}

std::string Graph::text_of(NodeId id) const {
  const std::string& origin = node(id).origin;
  return signature(id).text() + (origin.empty() ? "" : " of " + origin);
}

Hash Graph::hash() const { return hash_text(print(*this, PrintedText::kMeaning)); }

void GraphCopier::copy_inputs() {
  for (const auto& input : from_.inputs()) copy_input(input);
}

NodeInfo GraphCopier::info(NodeId id) const {
  NodeInfo info = from_.node(id);
  if (const auto other = stand_ins_.find(info.forward_of); other != stand_ins_.end()) info.forward_of = other->second;
  return info;
}

void GraphCopier::stand_in(int32_t serial, int32_t from) {
  if (serial == 0 || from == 0 || serial == from) return;
  for (auto& [other, to] : stand_ins_)
    if (to == serial) to = from;
  stand_ins_[serial] = from;
}

NodeId GraphCopier::copy_node(NodeId id) {
  std::vector<ValueId> inputs;
  inputs.reserve(from_.node(id).inputs.size());
  for (ValueId input : from_.node(id).inputs) inputs.push_back((*this)[input]);
  return copy_node(id, std::move(inputs), from_.node(id).attributes);
}

NodeId GraphCopier::copy_node(NodeId id, std::vector<ValueId> inputs, Attributes attributes) {
  const Node& node = from_.node(id);
  const NodeId copy = to_.add_node(*node.op, std::move(inputs), std::move(attributes), info(id));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = to_.node(copy).outputs[i];
    map(node.outputs[i], output);
    const std::string& name = from_.value(node.outputs[i]).name;
    if (!name.empty()) to_.set_value_name(output, name);
  }
  return copy;
}

void GraphCopier::copy_outputs() {
  for (const auto& output : from_.outputs()) to_.add_output(output.name, (*this)[output.value], output.role);
}

}  // namespace ramet::ir

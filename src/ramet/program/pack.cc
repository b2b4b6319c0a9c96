#include "ramet/program/pack.h"

#include <map>
#include <set>
#include <tuple>

namespace ramet {
namespace {

class Packer {
 public:
  Packer(StepGraph& step, const KernelLibrary& library) : step_(step), library_(library) {
    for (const StateTensor& state : step.states) kinds_[state.name] = state.kind;
    for (const GraphOutput& output : step.derive.outputs())
      if (output.role == OutputRole::kState) derived_[output.name] = output.value;
  }

  Graph run(const Graph& graph) {
    Graph packed(graph.name());
    GraphCopier copier(graph, packed);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
      if (!pack_node(graph, id, packed, copier)) copier.copy_node(id);
    copier.copy_outputs();
    return packed;
  }

  /// States that come to be, in order.
  const std::vector<StateTensor>& added() const { return added_; }

 private:
  /// Whether the value is a state that changes only with the weights.
  bool is_from_weights(const Value& value) const {
    if (value.producer != kNoNode) return false;
    const auto kind = kinds_.find(value.name);
    return kind != kinds_.end() && (kind->second == StateKind::kWeight || kind->second == StateKind::kDerived);
  }

  bool pack_node(const Graph& graph, NodeId id, Graph& packed, GraphCopier& copier) {
    const Node& node = graph.node(id);
    Attributes attributes = node.attributes;
    std::vector<ValueId> inputs;
    bool changed = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = graph.value(node.inputs[i]);
      inputs.push_back(copier[node.inputs[i]]);
      const std::string letter(1, static_cast<char>('a' + i));
      if (i >= 26 || !is_from_weights(value) || attributes.has(letter + "_packed")) continue;
      const auto layout = library_.packing(graph.signature(id), static_cast<int>(i));
      if (!layout) continue;
      const std::string state = packed_state(value, *layout);
      ValueId input = packed.find_input(state);
      if (input == kNoValue) input = packed.add_input(state, {DType::kU8, Shape{layout->bytes}}, InputRole::kState);
      inputs.back() = input;
      attributes.set(letter + "_packed", layout->format);
      attributes.set(letter + "_shape", value.type.shape.dims());
      attributes.set(letter + "_dtype", value.type.dtype);
      changed = true;
    }
    if (!changed) return false;
    const NodeId copy = packed.add_node(*node.op, std::move(inputs), std::move(attributes), node.name);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      copier.map(node.outputs[i], packed.node(copy).outputs[i]);
      packed.set_value_name(packed.node(copy).outputs[i], graph.value(node.outputs[i]).name);
    }
    return true;
  }

  /// The derived state with the packing of a state, made on first demand.
  std::string packed_state(const Value& value, const PackedLayout& layout) {
    const auto key = std::make_tuple(value.name, layout.format, layout.bytes);
    if (const auto known = packings_.find(key); known != packings_.end()) return known->second;
    std::string name = "packed." + value.name;
    for (int i = 1; kinds_.count(name); ++i) name = "packed." + std::to_string(i) + "." + value.name;
    Graph& derive = step_.derive;
    ValueId source;
    if (const auto made = derived_.find(value.name); made != derived_.end()) source = made->second;
    else if (source = derive.find_input(value.name); source == kNoValue)
      source = derive.add_input(value.name, value.type, InputRole::kState);
    const NodeId node = derive.add_node(OpRegistry::instance().get("pack"), {source},
                                        {{"format", layout.format}, {"bytes", layout.bytes}, {"dtype", value.type.dtype}},
                                        "pack/" + value.name);
    derive.add_output(name, derive.node(node).outputs[0], OutputRole::kState);
    kinds_[name] = StateKind::kDerived;
    added_.push_back({name, derive.type(derive.node(node).outputs[0]), StateKind::kDerived, {}, ""});
    return packings_[key] = name;
  }

  StepGraph& step_;
  const KernelLibrary& library_;
  std::map<std::string, StateKind> kinds_;
  std::map<std::string, ValueId> derived_;  // values of `derive` by the state that they become
  std::map<std::tuple<std::string, std::string, int64_t>, std::string> packings_;
  std::vector<StateTensor> added_;
};

/// Without the inputs that no node and no output reads.
Graph without_unused_states(const Graph& graph) {
  std::vector<bool> used(graph.values().size(), false);
  for (const Node& node : graph.nodes())
    for (ValueId input : node.inputs) used[static_cast<size_t>(input)] = true;
  for (const GraphOutput& output : graph.outputs()) used[static_cast<size_t>(output.value)] = true;
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  for (const GraphInput& input : graph.inputs()) {
    if (input.role == InputRole::kState && !used[static_cast<size_t>(input.value)]) continue;
    const Value& value = graph.value(input.value);
    copier.map(input.value, result.add_input(value.name, value.type, input.role));
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
  return result;
}

/// `derive` with only the outputs in `wanted` and what they need.
Graph derive_only(const Graph& derive, const std::set<std::string>& wanted) {
  std::vector<bool> needed(derive.values().size(), false);
  for (const GraphOutput& output : derive.outputs())
    if (output.role != OutputRole::kState || wanted.count(output.name)) needed[static_cast<size_t>(output.value)] = true;
  std::vector<bool> keep(derive.nodes().size(), false);
  for (size_t id = derive.nodes().size(); id-- > 0;) {
    const Node& node = derive.node(static_cast<NodeId>(id));
    for (ValueId output : node.outputs) keep[id] = keep[id] || needed[static_cast<size_t>(output)];
    if (keep[id])
      for (ValueId input : node.inputs) needed[static_cast<size_t>(input)] = true;
  }
  Graph result(derive.name());
  GraphCopier copier(derive, result);
  for (const GraphInput& input : derive.inputs()) {
    if (!needed[static_cast<size_t>(input.value)]) continue;
    const Value& value = derive.value(input.value);
    copier.map(input.value, result.add_input(value.name, value.type, input.role));
  }
  for (size_t id = 0; id < derive.nodes().size(); ++id)
    if (keep[id]) copier.copy_node(static_cast<NodeId>(id));
  for (const GraphOutput& output : derive.outputs())
    if (output.role != OutputRole::kState || wanted.count(output.name))
      result.add_output(output.name, copier[output.value], output.role);
  return result;
}

void drop_unread_derived_states(StepGraph& step) {
  step.micro = without_unused_states(step.micro);
  step.update = without_unused_states(step.update);
  step.evaluate = without_unused_states(step.evaluate);
  std::set<std::string> read;
  for (const Graph* graph : {&step.micro, &step.update, &step.evaluate})
    for (const GraphInput& input : graph->inputs())
      if (input.role == InputRole::kState) read.insert(graph->value(input.value).name);
  // A derived state that `derive` itself reads back is kept.
  for (const GraphInput& input : step.derive.inputs())
    if (input.role == InputRole::kState) read.insert(step.derive.value(input.value).name);
  std::set<std::string> kept;
  std::erase_if(step.states, [&](const StateTensor& state) {
    if (state.kind == StateKind::kDerived && !read.count(state.name)) return true;
    kept.insert(state.name);
    return false;
  });
  step.derive = derive_only(step.derive, kept);
}

}  // namespace

StepGraph pack(StepGraph step, const KernelLibrary& library) {
  Packer packer(step, library);
  Graph micro = packer.run(step.micro);
  Graph update = packer.run(step.update);
  Graph evaluate = packer.run(step.evaluate);
  step.micro = std::move(micro);
  step.update = std::move(update);
  step.evaluate = std::move(evaluate);
  step.states.insert(step.states.end(), packer.added().begin(), packer.added().end());
  drop_unread_derived_states(step);
  return step;
}

}  // namespace ramet

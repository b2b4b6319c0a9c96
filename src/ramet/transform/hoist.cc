#include "ramet/transform/hoist.h"

#include <map>
#include <set>

namespace ramet::transform {
namespace {

/// Whether no micro-batch changes such a state.
bool is_fixed(StateKind kind) {
  return kind == StateKind::kWeight || kind == StateKind::kConstant || kind == StateKind::kPattern ||
         kind == StateKind::kDeferred;
}

/// Describes a value by how it is computed from states, so that equal values of two graphs meet in one name.
class Hoister {
 public:
  explicit Hoister(StepGraph& step) : step_(step) {
    for (const auto& state : step.states) {
      if (is_fixed(state.kind) || state.kind == StateKind::kDerived) constant_.insert(state.name);
      taken_.insert(state.name);
    }
  }

  Graph run(const Graph& graph) {
    find_constant_values(graph);
    std::vector<bool> exported = find_exports(graph);
    Graph result(graph.name());
    GraphCopier copier(graph, result);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
      const Node& node = graph.node(id);
      bool whole = !node.outputs.empty();
      for (ValueId output : node.outputs) whole = whole && is_constant(output);
      if (!whole) {
        copier.copy_node(id);
        continue;
      }
      for (ValueId output : node.outputs)
        if (exported[static_cast<size_t>(output)]) {
          const std::string name = state_of(graph, output);
          ValueId input = result.find_input(name);
          if (input == kNoValue) input = result.add_input(name, graph.type(output), InputRole::kState);
          copier.map(output, input);
        }
    }
    copier.copy_outputs();
    return result;
  }

 private:
  bool is_constant(ValueId id) const { return !key_[static_cast<size_t>(id)].empty(); }

  /// Values computed from weights alone, and at least one weight, get a key that says how.
  void find_constant_values(const Graph& graph) {
    key_.assign(graph.values().size(), "");
    for (const auto& input : graph.inputs()) {
      const std::string& name = graph.value(input.value).name;
      if (input.role == InputRole::kState && constant_.count(name)) key_[static_cast<size_t>(input.value)] = "$" + name;
    }
    for (const Node& node : graph.nodes()) {
      bool constant = !node.inputs.empty();
      std::string key = node.op->name + "(";
      for (ValueId input : node.inputs) {
        constant = constant && is_constant(input);
        key += key_[static_cast<size_t>(input)] + ",";
      }
      if (!constant || widens(graph, node)) continue;
      for (const auto& [name, attribute] : node.attributes) key += name + "=" + short_text_of(attribute) + ";";
      for (size_t i = 0; i < node.outputs.size(); ++i)
        key_[static_cast<size_t>(node.outputs[i])] = key + ")" + std::to_string(i);
    }
  }

  /// Whether a wider type of the same elements is all that the node makes: kept, it would cost more memory than the
  /// weights that it is made from, and nothing is quicker made again.
  static bool widens(const Graph& graph, const Node& node) {
    int64_t read = 0, written = 0;
    for (ValueId input : node.inputs) {
      if (graph.type(input).shape != graph.type(node.inputs[0]).shape) return false;
      read += graph.type(input).bytes();
    }
    for (ValueId output : node.outputs) {
      if (graph.type(output).shape != graph.type(node.inputs[0]).shape) return false;
      written += graph.type(output).bytes();
    }
    return node.outputs.size() == 1 && written >= read && graph.type(node.outputs[0]).dtype == DType::kF32 &&
           graph.type(node.inputs[0]).dtype != DType::kF32;
  }

  /// Constant values, made by a node, that something outside the constant part reads.
  std::vector<bool> find_exports(const Graph& graph) const {
    std::vector<bool> exported(graph.values().size(), false);
    for (const Node& node : graph.nodes()) {
      bool constant = !node.outputs.empty();
      for (ValueId output : node.outputs) constant = constant && is_constant(output);
      if (constant) continue;
      for (ValueId input : node.inputs)
        if (is_constant(input)) exported[static_cast<size_t>(input)] = true;
    }
    for (const auto& output : graph.outputs())
      if (is_constant(output.value)) exported[static_cast<size_t>(output.value)] = true;
    return exported;
  }

  /// The value in `derive`, copied there together with the nodes that it needs.
  ValueId derive_value(const Graph& graph, ValueId id) {
    const std::string& key = key_[static_cast<size_t>(id)];
    if (const auto known = derived_.find(key); known != derived_.end()) return known->second;
    const Value& value = graph.value(id);
    if (value.producer == kNoNode) {
      // A derived state has the value that `derive` computes, not its old value.
      if (const GraphOutput* made = step_.derive.find_output(value.name); made && made->role == OutputRole::kState)
        return derived_[key] = made->value;
      ValueId input = step_.derive.find_input(value.name);
      if (input == kNoValue) input = step_.derive.add_input(value.name, value.type, InputRole::kState);
      return derived_[key] = input;
    }
    const Node& node = graph.node(value.producer);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(derive_value(graph, input));
    const NodeId copy = step_.derive.add_node(*node.op, inputs, node.attributes, node);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      derived_[key_[static_cast<size_t>(node.outputs[i])]] = step_.derive.node(copy).outputs[i];
    return derived_[key];
  }

  std::string state_of(const Graph& graph, ValueId id) {
    const std::string key = key_[static_cast<size_t>(id)];
    if (const auto known = states_.find(key); known != states_.end()) return known->second;
    ValueId first = id;
    while (graph.value(first).producer != kNoNode) first = graph.node(graph.value(first).producer).inputs[0];
    const std::string& weight = graph.value(first).name;
    std::string name = "derived." + weight;
    for (int i = 1; !taken_.insert(name).second; ++i) name = "derived." + std::to_string(i) + "." + weight;
    const ValueId value = derive_value(graph, id);
    step_.derive.add_output(name, value, OutputRole::kState);
    const StateTensor& source = step_.state(weight);
    StateTensor state{name, graph.type(id), StateKind::kDerived, {}, ""};
    state.of = source.of.empty() ? weight : source.of;
    state.role = "derived";
    step_.states.push_back(std::move(state));
    return states_[key] = name;
  }

  StepGraph& step_;
  std::set<std::string> constant_, taken_;
  std::vector<std::string> key_;
  std::map<std::string, ValueId> derived_;
  std::map<std::string, std::string> states_;
};

/// Puts nodes of `derive` in front of each node that reads a derived state.
class Unhoister {
 public:
  Unhoister(const Graph& graph, const Graph& derive, const std::set<std::string>& wanted)
      : graph_(graph), derive_(derive), wanted_(wanted), result_(graph.name()), copier_(graph, result_) {}

  Graph run() {
    for (const auto& input : graph_.inputs())
      if (!is_derived(input)) copier_.copy_input(input);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) copy_node(id);
    for (const auto& output : graph_.outputs())
      result_.add_output(output.name,
                         copier_[output.value] != kNoValue ? copier_[output.value] : remake(output.value, {}),
                         output.role);
    return std::move(result_);
  }

 private:
  bool is_derived(const GraphInput& input) const {
    return input.role == InputRole::kState && wanted_.count(graph_.value(input.value).name) != 0;
  }

  void copy_node(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      const ValueId known = copier_[input];
      inputs.push_back(known != kNoValue ? known : remake(input, node));
    }
    copier_.copy_node(id, std::move(inputs), node.attributes);
  }

  /// What a derived state held, made anew for a node.
  ValueId remake(ValueId derived, const NodeInfo& reader) {
    std::map<ValueId, ValueId> made;
    return copy_derive(derive_.find_output(graph_.value(derived).name)->value, reader, made);
  }

  ValueId copy_derive(ValueId id, const NodeInfo& reader, std::map<ValueId, ValueId>& made) {
    if (const auto known = made.find(id); known != made.end()) return known->second;
    const Value& value = derive_.value(id);
    if (value.producer == kNoNode) {
      ValueId input = result_.find_input(value.name);
      if (input == kNoValue) input = result_.add_input(value.name, value.type, InputRole::kState);
      return made[id] = input;
    }
    const Node& node = derive_.node(value.producer);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(copy_derive(input, reader, made));
    NodeInfo info = reader.named(reader.name + "/derive");
    info.serial = 0;
    const NodeId copy = result_.add_node(*node.op, std::move(inputs), node.attributes, std::move(info));
    for (size_t i = 0; i < node.outputs.size(); ++i) made[node.outputs[i]] = result_.node(copy).outputs[i];
    return made.at(id);
  }

  const Graph &graph_, &derive_;
  const std::set<std::string>& wanted_;
  Graph result_;
  GraphCopier copier_;
};

/// Whether `derive` computes all of its states from states that no micro-batch changes.
bool is_from_fixed(const StepGraph& step) {
  for (const auto& input : step.derive.inputs())
    if (!is_fixed(step.state(step.derive.value(input.value).name).kind)) return false;
  return true;
}

}  // namespace

StepGraph hoist(StepGraph step) {
  Hoister hoister(step);
  Graph micro = hoister.run(step.micro);
  step.micro = std::move(micro);
  // Programs that change weights, and requests about weights alone, run seldom: what they make of weights is not kept
  // between their runs.
  for (StepProgram& program : step.programs) {
    const bool seldom =
        program.when.kind == When::Kind::kSteps || (program.when.kind == When::Kind::kRequest && !program.reads_data());
    if (seldom || step.writes_sources(program)) continue;
    Graph hoisted = hoister.run(program.graph);
    program.graph = std::move(hoisted);
  }
  return step;
}

Graph unhoist(const Graph& graph, const Graph& derive, const std::set<std::string>& wanted) {
  return Unhoister(graph, derive, wanted).run();
}

StepGraph unhoist(StepGraph step) {
  if (!is_from_fixed(step)) return step;
  std::set<std::string> derived;
  for (const GraphOutput& output : step.derive.outputs()) derived.insert(output.name);
  for (Graph* graph : step.graphs())
    if (graph != &step.derive) *graph = unhoist(*graph, step.derive, derived);
  std::erase_if(step.states, [](const StateTensor& state) { return state.kind == StateKind::kDerived; });
  step.derive = Graph("derive");
  return step;
}

}  // namespace ramet::transform

#include "ramet/program/join.h"

#include <set>
#include <unordered_map>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"

namespace ramet::program {
namespace {

class Joiner {
 public:
  explicit Joiner(const StepGraph& step) : step_(step) {
    for (const StateTensor& state : step.states)
      if (state.kind == StateKind::kAccumulator) accumulators_.insert(state.name);
  }

  Graph run() {
    copy_micro();
    copy_update();
    return std::move(joined_);
  }

 private:
  bool is_accumulator(const std::string& name) const { return accumulators_.count(name) != 0; }

  /// The other term, when the node adds a tensor to an accumulator that nothing else reads: 0 + g is g.
  ValueId other_term(const Graph& micro, NodeId id, const std::vector<std::vector<NodeId>>& uses) const {
    const Node& node = micro.node(id);
    if (node.op->map_op != "add" || node.inputs.size() != 2 || node.inputs[0] == node.inputs[1]) return kNoValue;
    for (size_t i = 0; i < 2; ++i) {
      const Value& value = micro.value(node.inputs[i]);
      if (value.producer != kNoNode || !is_accumulator(value.name)) continue;
      if (uses[static_cast<size_t>(node.inputs[i])].size() != 1) continue;
      const ValueId other = node.inputs[1 - i];
      if (micro.type(other) == micro.type(node.outputs[0])) return other;
    }
    return kNoValue;
  }

  /// An accumulator read by some other node: it is zero there.
  ValueId zeros(const Value& value) {
    const OpDef& full = OpRegistry::instance().get("full");
    const NodeId node =
        joined_.add_node(full, {}, {{"dtype", value.type.dtype}, {"shape", value.type.shape.dims()}, {"value", 0.0}});
    return joined_.node(node).outputs[0];
  }

  void copy_micro() {
    const Graph& micro = step_.micro;
    const auto uses = micro.uses();
    GraphCopier copier(micro, joined_);
    std::set<ValueId> skipped;
    for (const GraphInput& input : micro.inputs()) {
      const Value& value = micro.value(input.value);
      if (input.role == InputRole::kState && is_accumulator(value.name))
        skipped.insert(input.value);
      else
        copier.copy_input(input);
    }
    for (NodeId id = 0; id < static_cast<NodeId>(micro.nodes().size()); ++id) {
      if (const ValueId other = other_term(micro, id, uses); other != kNoValue && copier[other] != kNoValue) {
        copier.map(micro.node(id).outputs[0], copier[other]);
        continue;
      }
      for (ValueId input : micro.node(id).inputs)
        if (copier[input] == kNoValue && skipped.count(input)) copier.map(input, zeros(micro.value(input)));
      copier.copy_node(id);
    }
    for (const GraphOutput& output : micro.outputs()) {
      if (copier[output.value] == kNoValue) copier.map(output.value, zeros(micro.value(output.value)));
      if (output.role == OutputRole::kState) state_[output.name] = copier[output.value];
      if (output.role == OutputRole::kState && is_accumulator(output.name)) continue;
      // When the update changes a state again, its value is the final one.
      if (const GraphOutput* later = step_.update.find_output(output.name);
          output.role == OutputRole::kState && later && later->role == OutputRole::kState)
        continue;
      joined_.add_output(output.name, copier[output.value], output.role);
    }
  }

  /// The graph that `update` continues: what micro left in a state, or fed already, is read from there.
  void copy_update() {
    const Graph& update = step_.update;
    GraphCopier copier(update, joined_);
    for (const GraphInput& input : update.inputs()) {
      const Value& value = update.value(input.value);
      if (const auto state = state_.find(value.name); input.role == InputRole::kState && state != state_.end()) {
        copier.map(input.value, state->second);
        continue;
      }
      if (input.role == InputRole::kState && is_accumulator(value.name)) {
        copier.map(input.value, zeros(value));
        continue;
      }
      ValueId known = joined_.find_input(value.name);
      if (known == kNoValue) known = joined_.add_input(update, input);
      if (joined_.type(known) != value.type)
        throw Error({.what = "micro and update read an input of one name with two types",
                     .where = "'" + value.name + "'",
                     .found = value.type.text(),
                     .expected = joined_.type(known).text()});
      copier.map(input.value, known);
    }
    for (NodeId id = 0; id < static_cast<NodeId>(update.nodes().size()); ++id) {
      NodeInfo info = update.node(id);
      info.pass = NodePass::kUpdate;
      joined_.set_info(copier.copy_node(id), std::move(info));
    }
    for (const GraphOutput& output : update.outputs()) {
      if (output.role == OutputRole::kState && joined_.find_output(output.name))
        throw Error({.what = "micro and update both write a state", .where = "'" + output.name + "'"});
      joined_.add_output(output.name, copier[output.value], output.role);
    }
  }

  const StepGraph& step_;
  std::set<std::string> accumulators_;
  std::unordered_map<std::string, ValueId> state_;
  Graph joined_{"step"};
};

}  // namespace

StepGraph join(StepGraph step) {
  if (step.micro_batches() != 1) return step;
  Graph joined = Joiner(step).run();
  step.micro = std::move(joined);
  step.update = Graph("update");
  step.joined = true;
  std::erase_if(step.states, [](const StateTensor& state) { return state.kind == StateKind::kAccumulator; });
  return step;
}

}  // namespace ramet::program

#include "ramet/transform/lower_states.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/transform/simplify.h"

namespace ramet::transform {
namespace {

bool is_constant(const Node& node) { return node.op->name == "constant"; }

class ConstantLifter {
 public:
  explicit ConstantLifter(StepGraph& step) : step_(step) {
    for (const StateTensor& state : step.states)
      if (state.kind == StateKind::kConstant) known_.insert(state.name);
  }

  void lift(Graph& graph) {
    const auto has_constants = [](const Graph& of) {
      return std::any_of(of.nodes().begin(), of.nodes().end(), is_constant);
    };
    if (!has_constants(graph)) return;
    const Graph source = simplify(graph);
    Graph result(graph.name());
    GraphCopier copier(source, result);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(source.nodes().size()); ++id) {
      const Node& node = source.node(id);
      if (!is_constant(node)) {
        copier.copy_node(id);
        continue;
      }
      const TensorData& data = node.attributes.get_tensor("data");
      const std::string name = state_of(data);
      ValueId input = result.find_input(name);
      if (input == kNoValue) input = result.add_input(name, data.type(), InputRole::kState);
      copier.map(node.outputs[0], input);
    }
    copier.copy_outputs();
    graph = std::move(result);
  }

 private:
  std::string state_of(const TensorData& data) {
    std::string name = "constant." + data.hash().hex();
    if (known_.insert(name).second) {
      StateTensor state{name, data.type(), StateKind::kConstant, StateInit::from(data), ""};
      step_.states.push_back(std::move(state));
    }
    return name;
  }

  StepGraph& step_;
  std::set<std::string> known_;
};

/// The graph without its outputs to the states named, whose values it notes.
Graph without_outputs(const Graph& graph, const std::set<std::string>& names, std::map<std::string, ValueId>& values) {
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) copier.copy_node(id);
  for (const GraphOutput& output : graph.outputs())
    if (output.role == OutputRole::kState && names.count(output.name))
      values[output.name] = copier[output.value];
    else
      result.add_output(output.name, copier[output.value], output.role);
  return result;
}

class Deferrer {
 public:
  explicit Deferrer(StepGraph& step) : step_(step) {
    for (const StateTensor& state : step.states) {
      const GraphOutput* value = step.micro.find_output(state.name);
      if (state.kind != StateKind::kDeferred || !value || value->role != OutputRole::kState) continue;
      deferred_.push_back(state);
      names_.insert(state.name);
      if (step.update.find_output(state.name))
        throw Error({.what = "micro-batches give values for a deferred state that the update writes itself",
                     .where = "'" + state.name + "'",
                     .remedy = "Leave it to one of them"});
    }
  }

  void run() {
    if (deferred_.empty()) return;
    std::map<std::string, ValueId> values;
    step_.micro = without_outputs(step_.micro, names_, values);
    for (const StateTensor& state : deferred_) {
      StateTensor sum{"accumulator." + state.name, rows_of(state), StateKind::kAccumulator, {}, state.group};
      if (!state.axes.empty()) sum.axes.push_back({});
      sum.axes.insert(sum.axes.end(), state.axes.begin(), state.axes.end());
      add_row(sum, values.at(state.name));
      apply(state, sum);
      step_.states.push_back(std::move(sum));
    }
  }

 private:
  TensorType rows_of(const StateTensor& state) const {
    std::vector<int64_t> dims{step_.micro_batches()};
    dims.insert(dims.end(), state.type.shape.dims().begin(), state.type.shape.dims().end());
    return {DType::kF32, Shape(std::move(dims))};
  }

  static Tensor input(GraphBuilder& build, const std::string& name, const TensorType& type, InputRole role) {
    const ValueId known = build.graph().find_input(name);
    return known != kNoValue ? build.tensor(known) : build.input(name, type.dtype, type.shape, role);
  }

  /// Beside the node that makes the value, so that it lies in the same part of the model.
  void add_row(const StateTensor& sum, ValueId value) {
    GraphBuilder build(step_.micro);
    const NodeId maker = step_.micro.value(value).producer;
    const NodeInfo beside = maker == kNoNode ? NodeInfo() : step_.micro.node(maker).info();
    InfoScope scope(build, beside.derived(NodePass::kAccumulate, beside.name + "/row"));
    const Tensor counter = input(build, "counter", {DType::kI64, Shape{2}}, InputRole::kScalar);
    std::vector<int64_t> row{1};
    row.insert(row.end(), sum.type.shape.dims().begin() + 1, sum.type.shape.dims().end());
    const Tensor next = build.op("scatter_add",
                                 {slice(counter, {1}, {2}), reshape(build.tensor(value), Shape(row)),
                                  input(build, sum.name, sum.type, InputRole::kState)},
                                 {{"rows", sum.type.shape[0]}, {"accumulate", true}});
    build.output(sum.name, next, OutputRole::kState);
  }

  void apply(const StateTensor& state, const StateTensor& sum) {
    GraphBuilder build(step_.update);
    Scope scope(build, "fold/" + state.name);
    // A step that a guard ends changes no state.
    std::vector<Tensor> guards;
    for (const std::string& guard : step_.guards)
      if (const GraphOutput* result = step_.update.find_output(guard)) guards.push_back(build.tensor(result->value));
    const Tensor next =
        fold(input(build, state.name, state.type, InputRole::kState),
             input(build, sum.name, sum.type, InputRole::kState), state.fold.by, state.fold.momentum, guards);
    build.output(state.name, next, OutputRole::kState);
  }

  StepGraph& step_;
  std::vector<StateTensor> deferred_;
  std::set<std::string> names_;
};

}  // namespace

StepGraph lower_states(StepGraph step) {
  Deferrer(step).run();
  ConstantLifter lifter(step);
  for (Graph* graph : step.graphs()) lifter.lift(*graph);
  return step;
}

}  // namespace ramet::transform

#include "ramet/transform/step_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"

namespace ramet {
namespace {

[[noreturn]] void fail(const std::string& after, const std::string& where, const std::string& what,
                       const std::string& found = "", const std::string& expected = "") {
  throw Error(
      {.what = "step is not valid after " + after + ": " + what, .where = where, .found = found, .expected = expected},
      ErrorKind::kFailure);
}

void verify_states(const Graph& graph, const std::map<std::string, const StateTensor*>& states,
                   const std::string& after) {
  const auto check = [&](const std::string& name, const TensorType& type, const std::string& what) {
    const std::string where = what + " '" + name + "' of graph '" + graph.name() + "'";
    const auto state = states.find(name);
    if (state == states.end()) fail(after, where, "no state of that name");
    if (state->second->type != type)
      fail(after, where, "type differs from the state's", type.text(), state->second->type.text());
  };
  for (const auto& input : graph.inputs())
    if (input.role == InputRole::kState) check(graph.value(input.value).name, graph.type(input.value), "input");
  for (const auto& output : graph.outputs())
    if (output.role == OutputRole::kState) check(output.name, graph.type(output.value), "output");
}

void verify_axes(const StateTensor& state, const std::string& after, const std::string& where) {
  if (state.axes.empty()) return;
  if (static_cast<int>(state.axes.size()) != state.type.shape.rank())
    fail(after, where, "not one logical axis a dimension", std::to_string(state.axes.size()), state.type.text());
  for (size_t dim = 0; dim < state.axes.size(); ++dim) {
    const LogicalAxis& axis = state.axes[dim];
    if (axis.blocks < 1 || state.type.shape.dims()[dim] % axis.blocks != 0)
      fail(after, where, "the blocks of logical axis '" + axis.name + "' do not divide its dimension",
           std::to_string(axis.blocks), "a divisor of " + std::to_string(state.type.shape.dims()[dim]));
    if (axis.padding < 0 || axis.padding > state.type.shape.dims()[dim] || (axis.padding > 0 && dim > 0))
      fail(after, where, "only a part of the first dimension can be padding", text_of(axis), state.type.text());
  }
}

/// A micro-batch program runs between other micro-batches, on many devices at once: it writes nothing. What the
/// training program or the compiler makes anew in each step is not for others to write.
bool may_write(const StepProgram& program, StateKind kind) {
  if (program.when.kind == When::Kind::kMicroBatch) return false;
  return kind == StateKind::kWeight || kind == StateKind::kOptimizer;
}

void verify_program_states(const StepProgram& program, const std::map<std::string, const StateTensor*>& states,
                           const std::string& after) {
  const std::string where = "program '" + program.name + "'";
  const auto kind_of = [&](const std::string& name) { return states.at(name)->kind; };
  for (const GraphInput& input : program.graph.inputs()) {
    if (input.role != InputRole::kState) continue;
    const std::string& name = program.graph.value(input.value).name;
    if (kind_of(name) == StateKind::kAccumulator)
      fail(after, where, "reads accumulator '" + name + "', which only the training program has",
           "", "weights, optimizer states and derived states");
  }
  for (const GraphOutput& output : program.graph.outputs())
    if (output.role == OutputRole::kState && !may_write(program, kind_of(output.name)))
      fail(after, where,
           "writes " + std::string(name_of(kind_of(output.name))) + " '" + output.name + "'", text_of(program.when),
           program.when.kind == When::Kind::kMicroBatch ? "a program of every micro-batch writes no state"
                                                        : "weights and optimizer states");
}

void verify_programs(const StepGraph& step, const std::map<std::string, const StateTensor*>& states,
                     const std::string& after) {
  std::set<std::string> names = {"train", "prepare", "micro", "update", "derive"};
  std::set<std::string> micro_results;
  for (const GraphOutput& output : step.micro.outputs())
    if (output.role == OutputRole::kResult) micro_results.insert(output.name);
  for (const StepProgram& program : step.programs) {
    const std::string where = "program '" + program.name + "'";
    const When& when = program.when;
    if (program.name.empty() || !names.insert(program.name).second)
      fail(after, where, "a program needs a name of its own");
    if (when.every < 1 || when.micro < -1 || when.micro >= step.micro_batches() ||
        (when.kind != When::Kind::kSteps && when != When{when.kind}))
      fail(after, where, "runs at an impossible time", text_of(when));
    if (when.kind == When::Kind::kSteps && program.reads_data() != (when.micro >= 0))
      fail(after, where, when.micro < 0 ? "reads data, but of no micro-batch" : "reads no data of its micro-batch",
           text_of(when));
    verify_program_states(program, states, after);
    if (when.kind != When::Kind::kMicroBatch) continue;
    for (const GraphOutput& output : program.graph.outputs())
      if (!micro_results.insert(output.name).second)
        fail(after, where, "gives a result that another graph of the micro-batch gives", "'" + output.name + "'");
  }
}

void verify_guards(const StepGraph& step, const std::string& after) {
  for (const std::string& guard : step.guards) {
    bool found = false;
    for (const Graph* graph : {&step.micro, &step.update}) {
      const GraphOutput* output = graph->find_output(guard);
      if (!output || output->role != OutputRole::kResult) continue;
      const TensorType& type = graph->type(output->value);
      if (type.elements() != 1 || !is_floating(type.dtype))
        fail(after, "guard '" + guard + "'", "not one floating-point number", type.text());
      found = true;
    }
    if (!found) fail(after, "guard '" + guard + "'", "neither micro nor update gives a result of this name");
  }
}

}  // namespace

std::string text_of(const When& when) {
  const std::string every = when.every == 1 ? "every step" : "every " + std::to_string(when.every) + " steps";
  switch (when.kind) {
    case When::Kind::kMicroBatch: return "every micro-batch";
    case When::Kind::kSteps: return when.micro < 0 ? every : "micro-batch " + std::to_string(when.micro) + " of " + every;
    case When::Kind::kRequest: return "on request";
  }
  internal_error("text_of", "unknown time of a program");
}

bool StepProgram::writes_states() const {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [](const GraphOutput& output) { return output.role == OutputRole::kState; });
}

bool StepProgram::reads_data() const {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [](const GraphInput& input) { return input.role == InputRole::kData; });
}

std::string_view name_of(StateKind kind) {
  switch (kind) {
    case StateKind::kWeight: return "weight";
    case StateKind::kOptimizer: return "optimizer";
    case StateKind::kAccumulator: return "accumulator";
    case StateKind::kDerived: return "derived";
  }
  internal_error("name_of", "unknown state kind");
}

std::string text_of(const LogicalAxis& axis) {
  if (axis.name.empty()) return "-";
  return (axis.blocks > 1 ? std::to_string(axis.blocks) + "*" : "") + axis.name +
         (axis.padding > 0 ? "+" + std::to_string(axis.padding) : "");
}

const TensorAxes& default_tensor_axes() {
  static const TensorAxes kAxes = {{"heads", 1}, {"mlp", 1}, {"vocab", 1}, {"embed", 2}};
  return kAxes;
}

TensorType StateTensor::unpadded() const {
  if (axes.empty() || axes[0].padding == 0) return type;
  std::vector<int64_t> dims = type.shape.dims();
  dims[0] -= axes[0].padding;
  return {type.dtype, Shape(std::move(dims))};
}

const StateTensor& StepGraph::state(const std::string& name) const {
  for (const auto& state : states)
    if (state.name == name) return state;
  throw Error({.what = "no such state", .where = "step", .found = "'" + name + "'"});
}

const StepProgram* StepGraph::find_program(std::string_view name) const {
  for (const StepProgram& program : programs)
    if (program.name == name) return &program;
  return nullptr;
}

std::vector<Graph*> StepGraph::graphs() {
  std::vector<Graph*> all = {&derive, &micro, &update};
  for (StepProgram& program : programs) all.push_back(&program.graph);
  return all;
}

std::vector<const Graph*> StepGraph::graphs() const {
  std::vector<const Graph*> all = {&derive, &micro, &update};
  for (const StepProgram& program : programs) all.push_back(&program.graph);
  return all;
}

void verify(const StepGraph& step, const std::string& after) {
  std::map<std::string, const StateTensor*> states;
  for (const auto& state : step.states) {
    const std::string where = "state '" + state.name + "'";
    if (!states.emplace(state.name, &state).second) fail(after, where, "a second state of that name");
    verify_axes(state, after, where);
  }
  if (step.lanes < 1 || step.micro_batches_per_lane < 1)
    fail(after, "lanes", "lanes and micro-batches must be 1 or more");
  for (const auto& [name, axis] : step.axes)
    if (name.empty() || (axis != 1 && axis != 2))
      fail(after, "logical axis '" + name + "'", "tensor shards have no such axis", std::to_string(axis), "1 or 2");
  for (const Graph* graph : step.graphs()) {
    verify(*graph, after);
    verify_states(*graph, states, after);
  }
  verify_programs(step, states, after);
  verify_guards(step, after);
}

std::string print(const StepGraph& step, PrintedText how) {
  std::string text = "step lanes=" + std::to_string(step.lanes) +
                     " micro_batches_per_lane=" + std::to_string(step.micro_batches_per_lane) + "\n";
  for (const auto& [name, axis] : step.axes) {
    const auto usual = default_tensor_axes().find(name);
    if (usual == default_tensor_axes().end() || usual->second != axis)
      text += "axis " + text_of(Attribute(name)) + " t" + std::to_string(axis) + "\n";
  }
  static const char* init_names[] = {"zeros", "constant", "normal", "truncated_normal", "uniform"};
  for (const auto& state : step.states) {
    text +=
        "state " + text_of(Attribute(state.name)) + " : " + state.type.text() + " " + std::string(name_of(state.kind));
    if (state.init.kind != StateInit::Kind::kZeros)
      text += std::string(" ") + init_names[static_cast<size_t>(state.init.kind)] + "(" +
              text_of(Attribute(state.init.a)) + ", " + text_of(Attribute(state.init.b)) + ")";
    if (!state.group.empty()) text += " group=" + text_of(Attribute(state.group));
    for (size_t dim = 0; dim < state.axes.size(); ++dim) text += (dim ? "," : " axes=") + text_of(state.axes[dim]);
    for (const auto& [field, value] : {std::pair{" of=", &state.of}, std::pair{" role=", &state.role},
                                       std::pair{" part=", &state.part}, std::pair{" external=", &state.external_name}})
      if (!value->empty()) text += field + text_of(Attribute(*value));
    if (state.low_half) text += " low_half";
    text += "\n";
  }
  for (const std::string& guard : step.guards) text += "guard " + text_of(Attribute(guard)) + "\n";
  for (const Graph* graph : {&step.derive, &step.micro, &step.update}) text += print(*graph, how);
  for (const StepProgram& program : step.programs)
    text += "program " + text_of(Attribute(program.name)) + " " + text_of(program.when) + "\n" + print(program.graph, how);
  return text;
}

}  // namespace ramet

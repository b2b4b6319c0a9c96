#include "ramet/transform/step_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/transform/declared_states.h"

namespace ramet::transform {
namespace {

// Which of a step's graphs read or write a state. A program is one of three, by when it runs.
constexpr unsigned kMicro = 1, kUpdate = 2, kDerive = 4, kBeside = 8, kBehind = 16, kRequest = 32;
constexpr unsigned kTrain = kMicro | kUpdate, kPrograms = kBeside | kBehind | kRequest;
constexpr unsigned kAll = kTrain | kDerive | kPrograms;
constexpr unsigned kOnce = kUpdate | kBehind | kRequest;  // they change what all replicas hold, alike

struct Role {
  std::string_view name;
  unsigned reads, writes;
  bool saved, hashed;
};
/// In the order of StateKind.
constexpr Role kRoles[kStateKindCount] = {
    {"weight", kAll, kOnce, true, true},
    {"optimizer", kAll, kOnce, true, false},
    {"accumulator", kTrain, kTrain, false, false},
    {"derived", kAll, kDerive, false, false},
    {"constant", kAll, 0, false, false},
    {"pattern", kAll, kOnce, true, true},
    {"deferred", kAll, kMicro | kOnce, true, true},
    {"chained", kTrain | kPrograms, kMicro | kOnce, true, true},
    {"kept", kRequest, kRequest, false, false},
};
const Role& role_of(StateKind kind) { return kRoles[static_cast<size_t>(kind)]; }

[[noreturn]] void refuse_role(const StateTensor& state, const std::string& what, const std::string& found,
                              const std::string& expected, const std::string& remedy = "") {
  throw Error({.what = what,
               .where = std::string(name_of(state.kind)) + " state '" + state.name + "'",
               .found = found,
               .expected = expected,
               .remedy = remedy});
}

std::string graphs_text(unsigned graphs) {
  std::string text;
  for (const auto& [bit, name] :
       {std::pair{kMicro, "micro"}, std::pair{kUpdate, "update"}, std::pair{kDerive, "derive"},
        std::pair{kBeside, "programs of every micro-batch"}, std::pair{kBehind, "programs behind a step"},
        std::pair{kRequest, "programs on request"}})
    if (graphs & bit) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "no graph" : text;
}

unsigned graph_of(const When& when) {
  switch (when.kind) {
    case When::Kind::kMicroBatch: return kBeside;
    case When::Kind::kSteps: return kBehind;
    case When::Kind::kRequest: return kRequest;
  }
  internal_error("graph_of", "unknown time of a program");
}

/// `who`: "graph 'micro'", "program 'evaluate'".
void check_graph_roles(const Graph& graph, const std::string& who, unsigned as,
                       const std::map<std::string, const StateTensor*>& states) {
  for (const GraphInput& input : graph.inputs()) {
    const auto known = states.find(graph.value(input.value).name);
    if (input.role != InputRole::kState || known == states.end()) continue;
    const StateTensor& state = *known->second;
    if ((role_of(state.kind).reads & as) == 0)
      refuse_role(state, "a graph reads a state that it may not", who + " reads it",
                  "read by " + graphs_text(role_of(state.kind).reads));
    // In a layout other micro-batches come between, so its contents would be undefined.
    const GraphOutput* written = graph.find_output(state.name);
    if (state.kind == StateKind::kAccumulator && as == kMicro && !(written && written->role == OutputRole::kState))
      refuse_role(state, "a micro-batch reads a sum that it does not add to", who + " reads it",
                  "a graph that reads and writes it");
  }
  for (const GraphOutput& output : graph.outputs()) {
    const auto known = states.find(output.name);
    if (output.role != OutputRole::kState || known == states.end()) continue;
    const Role& role = role_of(known->second->kind);
    if ((role.writes & as) == 0)
      refuse_role(*known->second, "a graph writes a state that it may not", who + " writes it",
                  "written by " + graphs_text(role.writes),
                  as == kMicro ? "Let micro add to an accumulator and the update change the state, or make the state "
                                 "deferred or chained"
                  : as == kBeside ? "A program of every micro-batch writes no state: let it give a result, or run "
                                    "behind the step"
                                  : "");
  }
}

void check_state(const StateTensor& state, int64_t lanes) {
  const StateInit& init = state.init;
  // Weights may be held in another type than the one they start with.
  const bool fits = init.data && init.data->type().shape == state.type.shape &&
                    (init.data->type().dtype == state.type.dtype || state.kind == StateKind::kWeight);
  if (init.kind == StateInit::Kind::kData && !fits)
    refuse_role(state, "the data that a state starts with are of another type",
                init.data ? init.data->type().text() : "none", state.type.text());
  if (init.kind == StateInit::Kind::kFunction && !init.of_element)
    refuse_role(state, "the function that gives a state's first values is missing", "'" + init.function + "'",
                "a function of the element");
  if (state.kind == StateKind::kConstant && init.kind != StateInit::Kind::kData)
    refuse_role(state, "a constant has no data", "", "initial values of kind data");
  if (state.kind == StateKind::kPattern && !is_integer(state.type.dtype) && state.type.dtype != DType::kBool)
    refuse_role(state, "a pattern holds integers", state.type.text(), "i32, i64 or bool");
  if (state.kind == StateKind::kDeferred && state.type.dtype != DType::kF32)
    refuse_role(state, "a deferred state is f32", state.type.text(), "f32" + state.type.shape.text());
  if (state.kind == StateKind::kChained && lanes != 1)
    refuse_role(state, "lanes would break the chain from one micro-batch to the next", std::to_string(lanes) + " lanes",
                "1", "Set train.lanes=1");
}

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

std::string quote_text(const std::string& text) { return ir::text_of(Attribute(text)); }

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

void verify_programs(const StepGraph& step, const std::string& after) {
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
    case When::Kind::kSteps:
      return when.micro < 0 ? every : "micro-batch " + std::to_string(when.micro) + " of " + every;
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

std::string_view name_of(StateKind kind) { return role_of(kind).name; }

StateKind state_kind_from_name(std::string_view name) {
  std::string known;
  for (int kind = 0; kind < kStateKindCount; ++kind) {
    if (kRoles[kind].name == name) return static_cast<StateKind>(kind);
    known += (kind ? ", " : "") + std::string(kRoles[kind].name);
  }
  throw Error({.what = "unknown kind of state", .found = "'" + std::string(name) + "'", .expected = known});
}

std::string_view name_of(StateInit::Kind kind) {
  static constexpr std::string_view kNames[kStateInitKinds] = {"zeros",   "constant", "normal",   "truncated_normal",
                                                               "uniform", "iota",     "function", "data"};
  return kNames[static_cast<size_t>(kind)];
}

void check_declared(const StateTensor& state) {
  check_state(state, 1);
  verify_axes(state, "its declaration", std::string(name_of(state.kind)) + " state '" + state.name + "'");
}

bool is_saved(StateKind kind) { return role_of(kind).saved; }
bool is_hashed(StateKind kind) { return role_of(kind).hashed; }

StateInit StateInit::by(std::string name, std::function<double(int64_t element)> of_element) {
  StateInit init{Kind::kFunction};
  init.of_element = std::move(of_element);
  init.function = std::move(name);
  return init;
}

StateInit StateInit::from(TensorData data) {
  StateInit init{Kind::kData};
  init.data = std::move(data);
  return init;
}

std::string text_of(const LogicalAxis& axis) {
  if (axis.name.empty()) return "-";
  return (axis.blocks > 1 ? std::to_string(axis.blocks) + "*" : "") + axis.name +
         (axis.padding > 0 ? "+" + std::to_string(axis.padding) : "");
}

const TensorAxes& default_tensor_axes() {
  static const TensorAxes kAxes = {{"heads", 1}, {"mlp", 1}, {"vocab", 1}, {"parts", 1}, {"embed", 2}};
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

StateKind StepGraph::placed_as(const StateTensor& state) const {
  if (!state.low_half) return state.kind;
  const auto reads = [&](const Graph& graph) { return graph.find_input(state.name) != kNoValue; };
  const bool in_passes =
      reads(micro) || reads(derive) || std::any_of(programs.begin(), programs.end(), [&](const StepProgram& program) {
        return program.reads_data() && reads(program.graph);
      });
  return in_passes ? state.kind : StateKind::kOptimizer;
}

bool StepGraph::writes_sources(const StepProgram& program) const {
  return std::any_of(program.graph.outputs().begin(), program.graph.outputs().end(), [&](const GraphOutput& output) {
    return output.role == OutputRole::kState && (role_of(state(output.name).kind).reads & kDerive) != 0;
  });
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

void check_roles(const StepGraph& step) {
  std::map<std::string, const StateTensor*> states;
  for (const StateTensor& state : step.states) {
    states.emplace(state.name, &state);
    check_state(state, step.lanes);
  }
  check_graph_roles(step.micro, "graph 'micro'", step.joined ? kTrain : kMicro, states);
  check_graph_roles(step.update, "graph 'update'", kUpdate, states);
  check_graph_roles(step.derive, "graph 'derive'", kDerive, states);
  for (const StepProgram& program : step.programs)
    check_graph_roles(program.graph, "program '" + program.name + "'", graph_of(program.when), states);
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
  check_roles(step);
  verify_programs(step, after);
  verify_guards(step, after);
}

std::string print(const StepGraph& step, PrintedText how) {
  std::string text = "step lanes=" + std::to_string(step.lanes) +
                     " micro_batches_per_lane=" + std::to_string(step.micro_batches_per_lane) + "\n";
  for (const auto& [name, axis] : step.axes) {
    const auto usual = default_tensor_axes().find(name);
    if (usual == default_tensor_axes().end() || usual->second != axis)
      text += "axis " + quote_text(name) + " t" + std::to_string(axis) + "\n";
  }
  for (const auto& state : step.states) {
    text += "state " + quote_text(state.name) + " : " + state.type.text() + " " + std::string(name_of(state.kind));
    if (state.init.data)
      text += " data(" + quote_text(state.init.data->hash().hex()) + ")";
    else if (state.init.of_element)
      text += " function(" + quote_text(state.init.function) + ")";
    else if (state.init.kind != StateInit::Kind::kZeros)
      text += " " + std::string(name_of(state.init.kind)) + "(" + ir::text_of(Attribute(state.init.a)) + ", " +
              ir::text_of(Attribute(state.init.b)) + ")";
    if (state.kind == StateKind::kDeferred)
      text += " fold=" + state.fold.by + "(" + ir::text_of(Attribute(state.fold.momentum)) + ")";
    if (!state.group.empty()) text += " group=" + ir::text_of(Attribute(state.group));
    for (size_t dim = 0; dim < state.axes.size(); ++dim) text += (dim ? "," : " axes=") + text_of(state.axes[dim]);
    for (const auto& [field, value] : {std::pair{" of=", &state.of}, std::pair{" role=", &state.role},
                                       std::pair{" part=", &state.part}, std::pair{" external=", &state.external_name}})
      if (!value->empty()) text += field + ir::text_of(Attribute(*value));
    if (state.low_half) text += " low_half";
    text += "\n";
  }
  for (const std::string& guard : step.guards) text += "guard " + quote_text(guard) + "\n";
  for (const Graph* graph : {&step.derive, &step.micro, &step.update}) text += print(*graph, how);
  for (const StepProgram& program : step.programs)
    text += "program " + quote_text(program.name) + " " + text_of(program.when) + "\n" + print(program.graph, how);
  return text;
}

}  // namespace ramet::transform

#include "ramet/transform/step_graph.h"

#include <map>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"

namespace ramet::transform {
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

}  // namespace

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

void verify(const StepGraph& step, const std::string& after) {
  std::map<std::string, const StateTensor*> states;
  for (const auto& state : step.states) {
    const std::string where = "state '" + state.name + "'";
    if (!states.emplace(state.name, &state).second) fail(after, where, "a second state of that name");
    verify_axes(state, after, where);
  }
  if (step.lanes < 1 || step.micro_batches_per_lane < 1)
    fail(after, "lanes", "lanes and micro-batches must be 1 or more");
  for (const Graph* graph : {&step.micro, &step.update, &step.derive, &step.evaluate}) {
    verify(*graph, after);
    verify_states(*graph, states, after);
  }
}

std::string print(const StepGraph& step) {
  std::string text = "step lanes=" + std::to_string(step.lanes) +
                     " micro_batches_per_lane=" + std::to_string(step.micro_batches_per_lane) + "\n";
  static const char* init_names[] = {"zeros", "constant", "normal", "truncated_normal", "uniform"};
  for (const auto& state : step.states) {
    text +=
        "state " + ir::text_of(Attribute(state.name)) + " : " + state.type.text() + " " +
        std::string(name_of(state.kind));
    if (state.init.kind != StateInit::Kind::kZeros)
      text += std::string(" ") + init_names[static_cast<size_t>(state.init.kind)] + "(" +
              ir::text_of(Attribute(state.init.a)) + ", " + ir::text_of(Attribute(state.init.b)) + ")";
    if (!state.group.empty()) text += " group=" + ir::text_of(Attribute(state.group));
    for (size_t dim = 0; dim < state.axes.size(); ++dim) text += (dim ? "," : " axes=") + text_of(state.axes[dim]);
    text += "\n";
  }
  for (const Graph* graph : {&step.derive, &step.micro, &step.update, &step.evaluate}) text += print(*graph);
  return text;
}

}  // namespace ramet::transform

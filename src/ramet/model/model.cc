#include "ramet/model/model.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/model/step_outputs.h"

namespace ramet::model {
namespace {

/// What a graph computes, as text: ops, attributes, edges and types; of names only those by which others find its
/// inputs and outputs.
std::string structure_of(const Graph& graph) {
  std::string text;
  const auto add = [&](std::string_view word) { text.append(word).push_back(' '); };
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    add("input"), add(name_of(input.role)), add(value.name), add(value.type.text());
    text += std::to_string(input.value) + "\n";
  }
  for (const Node& node : graph.nodes()) {
    add(node.op->name);
    for (const auto& [name, attribute] : node.attributes) add(name), add(short_text_of(attribute));
    for (const ValueId input : node.inputs) add(std::to_string(input));
    add("->");
    for (const ValueId output : node.outputs) add(std::to_string(output)), add(graph.type(output).text());
    text += "\n";
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (is_step_output(output)) continue;
    add("output"), add(name_of(output.role)), add(output.name);
    text += std::to_string(output.value) + "\n";
  }
  return text;
}

bool is_scalar_output(const Graph& graph, const std::string& name) {
  const GraphOutput* output = graph.find_output(name);
  return output && graph.type(output->value).elements() == 1;
}

[[noreturn]] void refuse(const Model& model, const std::string& what, const std::string& found,
                         const std::string& expected = "") {
  throw Error({.what = what,
               .where = "model '" + model.name + "'",
               .found = found,
               .expected = expected,
               .remedy = "Declare the model as its graphs are"});
}

void check_outputs(const Model& model) {
  std::set<std::string> known;
  for (const Metric& metric : model.metrics) {
    if (!known.insert(metric.name).second) refuse(model, "two metrics of one name", "'" + metric.name + "'");
    if (metric.how == Metric::How::kExp) {
      if (!known.count(metric.numerator))
        refuse(model, "a metric of a metric that is not declared before it", "'" + metric.numerator + "'");
      continue;
    }
    if (metric.how == Metric::How::kAverage) {
      if (metric.parts.empty()) refuse(model, "an average of no metrics", "'" + metric.name + "'");
      continue;
    }
    const bool ratio = metric.how == Metric::How::kRatio;
    for (const std::string& name : {metric.numerator, ratio ? metric.denominator : metric.numerator})
      if (!is_scalar_output(model.forward, name) && !is_scalar_output(model.evaluate, name))
        refuse(model, "metric '" + metric.name + "' is of an output that no graph has", "'" + name + "'",
               "a scalar output of the forward graph");
  }
  for (const Metric& metric : model.metrics)
    for (const std::string& part : metric.parts)
      if (!known.count(part)) refuse(model, "a part of metric '" + metric.name + "' is no metric", "'" + part + "'");
  for (const std::string& guard : model.guards)
    if (!is_scalar_output(model.forward, guard))
      refuse(model, "a guard is of an output that the forward graph does not have", "'" + guard + "'",
             "a scalar output");
}

}  // namespace

Metric mean_metric(std::string name, std::string count) {
  return {.name = name, .numerator = name, .denominator = std::move(count), .numerator_is_mean = true};
}

Metric share_metric(std::string name, std::string correct, std::string count) {
  return {.name = std::move(name), .numerator = std::move(correct), .denominator = std::move(count)};
}

std::vector<StateTensor> Model::published() const {
  std::vector<StateTensor> result = weights;
  for (const StateTensor& state : states)
    if (state.kind == StateKind::kDeferred) result.push_back(state);
  return result;
}

Model with_seed(Model model, int64_t seed) {
  const auto seeded = [&](const Graph& graph) {
    Graph copy(graph.name());
    GraphCopier copier(graph, copy);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
      const Node& node = graph.node(id);
      if (!node.attributes.has("seed")) {
        copier.copy_node(id);
        continue;
      }
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(copier[input]);
      Attributes attributes = node.attributes;
      attributes.set("seed", seed);
      copier.copy_node(id, std::move(inputs), std::move(attributes));
    }
    copier.copy_outputs();
    return copy;
  };
  model.forward = seeded(model.forward);
  for (NamedGraph& program : model.programs) program.graph = seeded(program.graph);
  return model;
}

Hash Model::identity() const {
  Hasher hasher;
  hasher.update(structure_of(forward)).update(structure_of(evaluate));
  for (const StateTensor& weight : weights) {
    hasher.update("weight " + weight.name + " " + weight.type.text() + " " + weight.group);
    for (const LogicalAxis& axis : weight.axes) hasher.update(" " + text_of(axis));
    hasher.update("\n");
  }
  for (const StateTensor& state : states) {
    hasher.update("state " + state.name + " " + state.type.text() + " " + std::string(name_of(state.kind)));
    if (state.kind == StateKind::kConstant && state.init.data) hasher.update(" " + state.init.data->hash().hex());
    if (state.kind == StateKind::kDeferred)
      hasher.update(" " + state.fold.by + " " + std::to_string(state.fold.momentum));
    for (const LogicalAxis& axis : state.axes) hasher.update(" " + text_of(axis));
    hasher.update("\n");
  }
  for (const Metric& metric : metrics) {
    hasher.update("metric " + metric.name + " " + metric.numerator + " " + metric.denominator + " " +
                  std::to_string(static_cast<int>(metric.how)) + (metric.numerator_is_mean ? " mean " : " ") +
                  std::to_string(metric.most_items));
    for (const std::string& part : metric.parts) hasher.update(" " + part);
    hasher.update("\n");
  }
  hasher.update(packed_rows ? "packed rows\n" : "");
  for (const std::string& guard : guards) hasher.update("guard " + guard + "\n");
  // Programs on request read what the model is, and are no part of it.
  for (const NamedGraph& program : programs)
    if (program.when.kind != When::Kind::kRequest)
      hasher.update("program " + program.name + " " + text_of(program.when) + "\n").update(program.graph.hash().hex());
  return hasher.digest();
}

void check_states(const Model& model) {
  std::map<std::string, const StateTensor*> states;
  for (const std::vector<StateTensor>* list : {&model.weights, &model.states})
    for (const StateTensor& state : *list)
      if (!states.emplace(state.name, &state).second) refuse(model, "two states of one name", "'" + state.name + "'");
  const auto check = [&](const Graph& graph, const std::string& name, const TensorType& type) {
    const auto state = states.find(name);
    if (state == states.end())
      refuse(model, "graph '" + graph.name() + "' has a state that the model does not declare", "'" + name + "'");
    if (state->second->type != type)
      refuse(model, "state '" + name + "' is of another type in graph '" + graph.name() + "'", type.text(),
             state->second->type.text());
  };
  std::vector<const Graph*> graphs = {&model.forward, &model.evaluate};
  for (const NamedGraph& program : model.programs) graphs.push_back(&program.graph);
  for (const Graph* graph : graphs) {
    for (const GraphInput& input : graph->inputs())
      if (input.role == InputRole::kState) check(*graph, graph->value(input.value).name, graph->type(input.value));
    for (const GraphOutput& output : graph->outputs())
      if (output.role == OutputRole::kState) check(*graph, output.name, graph->type(output.value));
  }
}

std::vector<InputSpec> checked_inputs(const Model& model) {
  check_outputs(model);
  std::vector<InputSpec> inputs = model.inputs;
  std::set<std::string> used;
  for (const Graph* graph : {&model.forward, &model.evaluate})
    for (const GraphInput& input : graph->inputs()) {
      if (input.role != InputRole::kData) continue;
      const Value& value = graph->value(input.value);
      used.insert(value.name);
      const auto known =
          std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& spec) { return spec.name == value.name; });
      if (known == inputs.end())
        inputs.push_back({.name = value.name, .type = value.type});
      else if (known->type != value.type)
        refuse(model, "input '" + value.name + "' is declared as another type than the graph reads", known->type.text(),
               value.type.text());
      else if (!known->axes.empty() && std::ssize(known->axes) != value.type.shape.rank())
        refuse(model, "input '" + value.name + "' has another number of axes than dimensions",
               std::to_string(known->axes.size()), std::to_string(value.type.shape.rank()));
    }
  for (const InputSpec& spec : inputs)
    if (!used.count(spec.name)) refuse(model, "a declared input is read by no graph", "'" + spec.name + "'");
  return inputs;
}

}  // namespace ramet::model

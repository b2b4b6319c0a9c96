#include "ramet/train/step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ramet/base/rounding.h"
#include "ramet/ops/build.h"
#include "ramet/train/groups.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/optimizers/optimizer.h"
#include "ramet/train/scaling.h"
#include "ramet/train/update.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/lower_states.h"
#include "ramet/transform/precision.h"

namespace ramet {
namespace {

std::string top_scope(const std::string& path) { return path.substr(0, path.find('/')); }

/// The forward graph with an input for each part of a weight's readers, and those parts, by weight and by scope in
/// order of their first reader.
std::pair<Graph, std::vector<GradientPart>> with_parts(const Model& model) {
  std::map<std::string, std::vector<std::string>> scopes;
  for (const Node& node : model.forward.nodes())
    for (ValueId input : node.inputs) {
      const Value& value = model.forward.value(input);
      if (value.producer != kNoNode) continue;
      auto& known = scopes[value.name];
      const std::string scope = top_scope(node.name);
      if (std::find(known.begin(), known.end(), scope) == known.end()) known.push_back(scope);
    }
  const auto alias = [&](const std::string& name, const std::string& scope) {
    return scope == scopes[name].front() ? name : name + "@" + scope;
  };

  std::pair<Graph, std::vector<GradientPart>> result;
  auto& [graph, parts] = result;
  graph.set_name(model.forward.name());
  GraphCopier copier(model.forward, graph);
  copier.copy_inputs();
  for (const StateTensor& weight : model.weights) {
    parts.push_back({&weight, weight.name});
    const auto& readers = scopes[weight.name];
    for (size_t i = 1; i < readers.size(); ++i) {
      parts.push_back({&weight, alias(weight.name, readers[i])});
      graph.add_input(parts.back().input, weight.type, InputRole::kState);
    }
  }
  for (const Node& node : model.forward.nodes()) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      const Value& value = model.forward.value(input);
      const bool weight = value.producer == kNoNode;
      const ValueId other = weight ? graph.find_input(alias(value.name, top_scope(node.name))) : kNoValue;
      inputs.push_back(other != kNoValue ? other : copier[input]);
    }
    const NodeId copy = graph.add_node(*node.op, inputs, node.attributes, node.name);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      copier.map(node.outputs[o], graph.node(copy).outputs[o]);
      graph.set_value_name(graph.node(copy).outputs[o], model.forward.value(node.outputs[o]).name);
    }
  }
  copier.copy_outputs();
  return result;
}

/// The output that is differentiated for a part of the loss: the loss itself, or what with_scaled_losses() adds.
std::string differentiated_output(const LossPart& loss, const TrainOptions& options) {
  if (!loss.denominator.empty()) return "scaled_loss." + loss.metric;
  return options.loss_scale.automatic || options.loss_scale.number.value_or(1) != 1 ? "scaled_loss" : loss.loss;
}

/// The graph with a further output for each part of the loss that is not differentiated as it is: the loss x its
/// denominator in units x the loss scale, which is the scalar "loss_scale" where it is automatic.
Graph with_scaled_losses(const Graph& forward, const std::vector<LossPart>& losses, const TrainOptions& options) {
  Graph graph(forward.name());
  GraphCopier copier(forward, graph);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(forward.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
  GraphBuilder build(graph);
  for (const LossPart& part : losses) {
    const std::string output = differentiated_output(part, options);
    if (output == part.loss) continue;
    Scope scope(build, "loss_scale");
    Tensor loss = build.tensor(graph.find_output(part.loss)->value);
    if (!part.denominator.empty())
      loss = multiply(loss, scale(build.tensor(graph.find_output(part.denominator)->value), 1 / part.unit));
    const double factor = options.loss_scale.number.value_or(1);
    if (options.loss_scale.automatic)
      loss = multiply(loss, scalar_input(build, "loss_scale"));
    else if (factor != 1)
      loss = scale(loss, factor);
    build.output(output, loss);
  }
  return graph;
}

/// The output of the differentiated graph with the gradient by a part's input.
std::string gradient_output(size_t loss, const std::string& input) {
  return (loss == 0 ? "grad." : "grad." + std::to_string(loss) + ".") + input;
}

/// Forward and backward of each part of the loss, one after another, with outputs as gradient_output() names them.
Graph differentiate_losses(const Graph& forward, const std::vector<GradientPart>& parts,
                           const std::vector<LossPart>& losses, const TrainOptions& options) {
  Graph result = forward;
  for (size_t loss = losses.size(); loss-- > 0;) {
    std::vector<std::string> names;
    for (const GradientPart& part : parts)
      for (const GradientSum& sum : part.sums)
        if (sum.loss == loss) names.push_back(part.input);
    const Graph both = differentiate(result, differentiated_output(losses[loss], options), names);
    if (loss == 0) return both;
    Graph renamed(both.name());
    GraphCopier copier(both, renamed);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
    for (const GraphOutput& output : both.outputs()) {
      const bool made = output.name.starts_with("grad.") && !result.find_output(output.name);
      renamed.add_output(made ? gradient_output(loss, output.name.substr(5)) : output.name, copier[output.value],
                         output.role);
    }
    result = std::move(renamed);
  }
  return result;
}

/// Inputs that the output depends on.
std::set<std::string> inputs_of(const Graph& graph, const std::string& output) {
  std::vector<bool> reached(graph.values().size(), false);
  reached[static_cast<size_t>(graph.find_output(output)->value)] = true;
  for (NodeId id = static_cast<NodeId>(graph.nodes().size()) - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    const bool any = std::any_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId value) { return reached[static_cast<size_t>(value)]; });
    if (!any) continue;
    for (ValueId input : node.inputs) reached[static_cast<size_t>(input)] = true;
  }
  std::set<std::string> names;
  for (const GraphInput& input : graph.inputs())
    if (reached[static_cast<size_t>(input.value)]) names.insert(graph.value(input.value).name);
  return names;
}

/// A sum for each part of the loss that depends on a part of a weight, and one for the first part in any case.
void find_sums(const Graph& aliased, const std::vector<LossPart>& losses, const TrainOptions& options,
               std::vector<GradientPart>& parts) {
  for (size_t loss = 0; loss < losses.size(); ++loss) {
    const std::set<std::string> met = inputs_of(aliased, losses[loss].loss);
    for (GradientPart& part : parts) {
      if (is_frozen(options, *part.weight) || (loss > 0 && !met.count(part.input))) continue;
      part.sums.push_back({loss, "accumulator." + part.input + (loss > 0 ? "@" + losses[loss].metric : "")});
    }
  }
}

/// The weights with their aliases.
std::vector<StateTensor> states_of(const std::vector<GradientPart>& parts) {
  std::vector<StateTensor> states;
  for (const GradientPart& part : parts) {
    states.push_back(*part.weight);
    states.back().name = part.input;
  }
  return states;
}

/// The aliased graph under unit scaling, where it is asked for, which the parts get to know.
Graph with_scaling(const TrainOptions& options, const Graph& aliased, std::vector<GradientPart>& parts) {
  UnitScaled scaled = scaled_graph(options, aliased, states_of(parts));
  for (GradientPart& part : parts) part.scaled = scaled.weights[part.input];
  return std::move(scaled.graph);
}

/// The graph with sums over the batch in order (transform/chunk.h), where `sums` says so.
Graph with_sums(const Graph& graph, const Model& model, const TrainOptions& options) {
  const bool wanted = options.sums == "in-order" || (options.sums == "auto" && model.packed_rows);
  return wanted && options.precision == "f32" ? set_sums_in_order(graph) : graph;
}

/// Forward and backward of the aliased graph; each gradient is added to its accumulator.
Graph make_micro(const Model& model, const Graph& aliased, const std::vector<GradientPart>& parts,
                 const std::vector<LossPart>& losses, const TrainOptions& options, const Precision& compute) {
  const std::vector<StateTensor> states = states_of(parts);
  const Graph forward =
      set_chunks(with_sums(lower_precision(aliased, compute), model, options), options.chunks, states);
  std::vector<std::string> names;
  for (const GradientPart& part : parts) names.push_back(part.input);
  const Graph differentiated =
      differentiate_losses(with_scaled_losses(forward, losses, options), parts, losses, options);
  // Backward has sums of its own, over rows.
  const Graph both = hold_weights(set_chunks(with_sums(differentiated, model, options), options.chunks, states), names,
                                  held_form(options));

  Graph micro("micro");
  GraphCopier copier(both, micro);
  for (const GraphInput& input : both.inputs()) {
    const Value& value = both.value(input.value);
    const auto part =
        std::find_if(parts.begin(), parts.end(), [&](const GradientPart& p) { return p.input == value.name; });
    const bool alias = part != parts.end() && part->input != part->weight->name;
    const bool low = value.type.dtype == kU16;
    const std::string name = alias ? part->weight->name : low ? value.name.substr(0, value.name.find('@')) : value.name;
    const ValueId known = alias || low ? micro.find_input(name) : kNoValue;
    copier.map(input.value, known != kNoValue ? known : micro.add_input(name, value.type, input.role));
  }
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
  GraphBuilder build(micro);
  for (const auto& output : both.outputs())
    if (!output.name.starts_with("scaled_loss") && !output.name.starts_with("grad."))
      micro.add_output(output.name, copier[output.value], output.role);
  Scope scope(build, "accumulate");
  for (const GradientPart& part : parts)
    for (const GradientSum& each : part.sums) {
      const Tensor gradient = build.tensor(copier[both.find_output(gradient_output(each.loss, part.input))->value]);
      const DType held = dtype_from_name(options.accumulators);
      const Tensor sum = build.state(each.state, held, part.weight->type.shape);
      const Tensor next = held == DType::kF32 ? add(sum, gradient)
                                              : add_to_sum(sum, gradient, accumulation_factor(options),
                                                           drawn_rounding(build, options, each.state));
      build.output(each.state, next, OutputRole::kState);
    }
  for (const LossPart& loss : losses) {
    if (loss.denominator.empty()) continue;
    const Tensor items = reshape(build.tensor(copier[both.find_output(loss.denominator)->value]), {1});
    build.output(loss.items_state(), add(build.state(loss.items_state(), DType::kF32, {1}), items), OutputRole::kState);
  }
  return micro;
}

}  // namespace

TrainOptions with_order_of_sums(TrainOptions options, const Layout& layout) {
  if (options.bits == "exact") return options;
  options.lanes = layout.r;
  options.chunks = std::lcm(layout.t1, layout.t2);
  return options;
}

StepGraph make_training_step(const Model& model, const TrainOptions& options) {
  check_groups(options, "train.groups");
  check_groups_of(options, model.weights);
  const Precision compute = precision_from_name(options.precision);
  StepGraph step;
  step.lanes = options.lanes;
  step.micro_batches_per_lane = options.accumulation / options.lanes;
  step.states = held_weights(model.weights, held_form(options));
  const std::vector<LossPart> losses = loss_parts(model, options);
  auto [aliased, parts] = with_parts(model);
  find_sums(aliased, losses, options, parts);
  aliased = with_scaling(options, aliased, parts);
  for (const GradientPart& part : parts)
    for (const GradientSum& sum : part.sums)
      step.states.push_back({sum.state,
                             {dtype_from_name(options.accumulators), part.weight->type.shape},
                             StateKind::kAccumulator,
                             {},
                             part.weight->group,
                             part.weight->axes});
  for (const LossPart& loss : losses)
    if (!loss.denominator.empty())
      step.states.push_back({loss.items_state(), {DType::kF32, Shape{1}}, StateKind::kAccumulator, {}, ""});
  step.micro = make_micro(model, aliased, parts, losses, options, compute);
  build_update(model, parts, losses, options, step);
  step.update = set_chunks(step.update, options.chunks, step.states);
  std::vector<std::string> names;
  for (const StateTensor& weight : model.weights) names.push_back(weight.name);
  const Graph evaluate = scaled_graph(options, model.evaluate, model.weights).graph;
  const auto add_program = [&](const std::string& name, const Graph& graph) {
    Graph held = hold_weights(set_chunks(graph, options.chunks, model.weights), names, held_form(options));
    held.set_name(name);
    step.programs.push_back({name, std::move(held), When::on_request()});
  };
  if (!evaluate.nodes().empty()) add_program("evaluate", with_sums(lower_precision(evaluate, compute), model, options));
  for (const NamedGraph& program : model.programs)
    add_program(program.name, lower_precision(scaled_graph(options, program.graph, model.weights).graph, compute));
  step.guards = model.guards;
  if (step.guards.empty()) step.guards.push_back("loss");
  step.guards.push_back("grad_norm");
  step.states.insert(step.states.end(), model.states.begin(), model.states.end());
  return lower_states(std::move(step));
}

}  // namespace ramet

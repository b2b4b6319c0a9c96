#include "ramet/train/step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/base/words.h"
#include "ramet/ops/build.h"
#include "ramet/train/evolve.h"
#include "ramet/train/groups.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/optimizers/optimizer.h"
#include "ramet/train/scaling.h"
#include "ramet/train/update.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/cluster_sums.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/layers.h"
#include "ramet/transform/lower_states.h"
#include "ramet/transform/precision.h"

namespace ramet::train {
namespace {

/// "before encoder 0", "in encoder 3", "after encoder 11"
std::string text_of(const ModelRegion& region, const LayerOrder& layers) {
  using Where = ModelRegion::Where;
  if (layers.size() == 0) return "";
  const char* word = region.where == Where::kBefore ? "before " : region.where == Where::kIn ? "in " : "after ";
  return word + text_of(layers[region.layer]);
}

/// The forward graph with an input for each part of a weight's readers, and those parts, by weight and in order of
/// their first reader.
std::pair<Graph, std::vector<GradientPart>> with_parts(const Model& model) {
  const LayerOrder order(model.forward);
  const std::vector<ModelRegion> region_of_node = regions_of(model.forward, order);
  std::map<std::string, std::vector<ModelRegion>> regions;  // of each weight's readers
  const auto is_weight = [&](const Value& value) {
    const auto has_its_name = [&](const StateTensor& weight) { return weight.name == value.name; };
    return value.producer == kNoNode && std::any_of(model.weights.begin(), model.weights.end(), has_its_name);
  };
  for (size_t n = 0; n < region_of_node.size(); ++n)
    for (ValueId input : model.forward.nodes()[n].inputs) {
      const Value& value = model.forward.value(input);
      if (!is_weight(value)) continue;
      auto& known = regions[value.name];
      if (std::find(known.begin(), known.end(), region_of_node[n]) == known.end()) known.push_back(region_of_node[n]);
    }

  std::pair<Graph, std::vector<GradientPart>> result;
  auto& [graph, parts] = result;
  graph.set_name(model.forward.name());
  GraphCopier copier(model.forward, graph);
  copier.copy_inputs();
  std::map<std::pair<std::string, ModelRegion>, ValueId> aliases;
  for (const StateTensor& weight : model.weights) {
    const auto& readers = regions[weight.name];
    parts.push_back({&weight, weight.name, readers.size() > 1 ? text_of(readers[0], order) : ""});
    for (size_t i = 1; i < readers.size(); ++i) {
      parts.push_back({&weight, weight.name + "@" + std::to_string(i), text_of(readers[i], order)});
      aliases[{weight.name, readers[i]}] = graph.add_input(parts.back().input, weight.type, InputRole::kState);
    }
  }
  for (NodeId id = 0; id < static_cast<NodeId>(model.forward.nodes().size()); ++id) {
    const Node& node = model.forward.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      const Value& value = model.forward.value(input);
      const auto alias = value.producer == kNoNode ? aliases.find({value.name, region_of_node[static_cast<size_t>(id)]})
                                                   : aliases.end();
      inputs.push_back(alias != aliases.end() ? alias->second : copier[input]);
    }
    copier.copy_node(id, std::move(inputs), node.attributes);
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

/// The state that holds a sum.
StateTensor state_of(const GradientSum& sum, const GradientPart& part, const TrainOptions& options) {
  const StateTensor& weight = *part.weight;
  const TensorType type{dtype_from_name(options.accumulators), weight.type.shape};
  StateTensor state{sum.state, type, StateKind::kAccumulator, {}, weight.group, weight.axes};
  state.of = weight.name;
  state.role = "sum";
  state.part = part.region;
  return state;
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
      set_cluster_sums(differentiate_losses(with_scaled_losses(forward, losses, options), parts, losses, options));
  // Backward has sums of its own, over rows.
  const Graph both = hold_weights(set_chunks(with_sums(differentiated, model, options), options.chunks, states), names,
                                  held_form(options));

  Graph micro("micro");
  GraphCopier copier(both, micro);
  std::map<std::string, std::string> state_of;  // of weights' inputs and their low halves
  for (const GradientPart& part : parts) {
    state_of[part.input] = part.weight->name;
    if (held_form(options).split) state_of[low_half_of(part.input)] = low_half_of(part.weight->name);
  }
  for (const GraphInput& input : both.inputs()) {
    const Value& value = both.value(input.value);
    const auto state = state_of.find(value.name);
    if (state == state_of.end()) {
      copier.copy_input(input);
      continue;
    }
    const ValueId known = micro.find_input(state->second);
    copier.map(input.value, known != kNoValue ? known : micro.add_input(state->second, value.type, input.role));
  }
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
  GraphBuilder build(micro);
  for (const auto& output : aliased.outputs())  // the model's own
    micro.add_output(output.name, copier[both.find_output(output.name)->value], output.role);
  InfoScope scope(build, NodeInfo().derived(NodePass::kAccumulate, "accumulate"));
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

/// A program of the model as the options compute it.
StepProgram make_program(const Model& model, const TrainOptions& options, const std::string& name) {
  const Precision compute = precision_from_name(options.precision);
  const auto lowered = [&](const Graph& graph) {
    return lower_precision(scaled_graph(options, graph, model.weights).graph, compute);
  };
  const auto found = std::find_if(model.programs.begin(), model.programs.end(),
                                  [&](const NamedGraph& program) { return program.name == name; });
  const bool evaluates = found == model.programs.end();
  std::vector<std::string> weights;
  for (const StateTensor& weight : model.weights) weights.push_back(weight.name);
  const Graph graph = evaluates ? with_sums(lowered(model.evaluate), model, options) : lowered(found->graph);
  Graph held =
      hold_weights(set_chunks(set_cluster_sums(graph), options.chunks, model.weights), weights, held_form(options));
  held.set_name(name);
  return {name, std::move(held), evaluates ? When::on_request() : found->when};
}

/// The program before `program` that finds the new blocks of sparse weights by the gradient of the loss in the first
/// micro-batch.
StepProgram make_candidates(const Model& model, const TrainOptions& options, const StepProgram& program) {
  const std::vector<LossPart> losses = loss_parts(model, options);
  if (losses.size() > 1)
    throw Error({.what = "new blocks are found by the gradient of one loss",
                 .where = "program '" + program.name + "'",
                 .found = "a loss of " + std::to_string(losses.size()) + " parts",
                 .expected = "new blocks that are drawn"});
  const auto ordered = [&](const Graph& graph) {
    return set_chunks(with_sums(graph, model, options), options.chunks, model.weights);
  };
  const Graph both = differentiate(ordered(lower_precision(model.forward, precision_from_name(options.precision))),
                                   losses.front().loss, values_by_gradient(model, program.graph));
  std::vector<std::string> weights;
  for (const StateTensor& weight : model.weights) weights.push_back(weight.name);
  const Graph held = hold_weights(ordered(both), weights, held_form(options));
  return {kCandidates, candidates_graph(model, program.graph, held), When::each_step(program.when.every, 0)};
}

}  // namespace

TrainOptions with_order_of_sums(TrainOptions options, const Layout& layout) {
  if (options.bits == "exact") return options;
  options.lanes = layout.r;
  options.chunks = std::lcm(layout.t1, layout.t2);
  return options;
}

std::vector<std::string> program_names(const Model& model) {
  std::vector<std::string> names;
  if (!model.evaluate.nodes().empty()) names.push_back("evaluate");
  for (const NamedGraph& program : model.programs) names.push_back(program.name);
  return names;
}

StepGraph make_prediction_step(const Model& model, const TrainOptions& options,
                               const std::vector<std::string>& programs) {
  const std::vector<std::string> known = program_names(model);
  StepGraph step;
  step.axes = model.axes;
  step.lanes = options.lanes;
  std::set<std::string> met;
  for (const std::string& name : programs) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string all = listed(known);
      throw Error({.what = "the model has no program of this name",
                   .where = "model '" + model.name + "'",
                   .found = "'" + name + "'",
                   .expected = all.empty() ? "none: it has only a loss" : "one of " + all});
    }
    StepProgram program = make_program(model, options, name);
    program.when = When::on_request();
    for (const GraphInput& input : program.graph.inputs()) met.insert(program.graph.value(input.value).name);
    for (const GraphOutput& output : program.graph.outputs()) met.insert(output.name);
    step.programs.push_back(std::move(program));
  }
  std::vector<StateTensor> states = held_weights(model.weights, held_form(options));
  states.insert(states.end(), model.states.begin(), model.states.end());
  for (StateTensor& state : states)
    if (met.count(state.name)) step.states.push_back(std::move(state));
  return lower_states(std::move(step));
}

StepGraph make_training_step(const Model& model, const TrainOptions& options) {
  for (const StateTensor& state : model.states)
    if (state.kind == StateKind::kChained && options.loss_scale.automatic)
      throw Error({.what = "an automatic loss scale skips steps, which a memory that micro-batches change cannot",
                   .where = "train.loss_scale, chained state '" + state.name + "'",
                   .found = "auto",
                   .expected = "a number",
                   .remedy = "Set train.loss_scale to a number, or train.precision to bf16 or f32"});
  check_groups(options, "train.groups");
  check_groups_of(options, model.weights);
  const Precision compute = precision_from_name(options.precision);
  StepGraph step;
  step.axes = model.axes;
  step.lanes = options.lanes;
  step.micro_batches_per_lane = options.accumulation / options.lanes;
  step.states = held_weights(model.weights, held_form(options));
  const std::vector<LossPart> losses = loss_parts(model, options);
  auto [aliased, parts] = with_parts(model);
  find_sums(aliased, losses, options, parts);
  aliased = with_scaling(options, aliased, parts);
  for (const GradientPart& part : parts)
    for (const GradientSum& sum : part.sums) step.states.push_back(state_of(sum, part, options));
  for (const LossPart& loss : losses)
    if (!loss.denominator.empty())
      step.states.push_back({loss.items_state(), {DType::kF32, Shape{1}}, StateKind::kAccumulator, {}, ""});
  step.micro = make_micro(model, aliased, parts, losses, options, compute);
  build_update(model, parts, losses, options, step);
  step.update = set_chunks(step.update, options.chunks, step.states);
  for (const std::string& name : program_names(model)) {
    StepProgram program = make_program(model, options, name);
    if (grows_by_gradient(program.graph)) step.programs.push_back(make_candidates(model, options, program));
    step.programs.push_back(std::move(program));
  }
  for (StepProgram& program : step.programs) program.graph = with_carried_states(model, options, step, program.graph);
  step.guards = model.guards;
  if (step.guards.empty()) step.guards.push_back("loss");
  step.guards.push_back("grad_norm");
  step.states.insert(step.states.end(), model.states.begin(), model.states.end());
  return lower_states(std::move(step));
}

}  // namespace ramet::train

#include "ramet/train/step.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ops/build.h"
#include "ramet/ops/rounding.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/loss_scale.h"
#include "ramet/train/scaling.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/precision.h"

namespace ramet::train {
namespace {

/// The readers of a weight that share one accumulator: all of it when a single top-level scope of the forward graph
/// reads it, else those of one scope. A tied weight is so read in parts of the model that a pipeline may run at
/// different times and places: with a sum for each, no such order shows.
struct GradientPart {
  const StateTensor* weight = nullptr;
  std::string input;  ///< of the aliased graph: "W", and "W@SCOPE" for scopes after the first
  ScaledWeight scaled{};
  std::string accumulator() const { return "accumulator." + input; }
};

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

/// The graph with a further output "scaled_loss" = loss x factor, or x the scalar "loss_scale" where there is none.
Graph with_scaled_loss(const Graph& forward, std::optional<double> factor) {
  Graph graph(forward.name());
  GraphCopier copier(forward, graph);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(forward.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
  GraphBuilder build(graph);
  Scope scope(build, "loss_scale");
  const Tensor loss = build.tensor(graph.find_output("loss")->value);
  build.output("scaled_loss", factor ? scale(loss, *factor)
                                     : multiply(loss, build.input("loss_scale", DType::kF32, {}, InputRole::kScalar)));
  return graph;
}

/// What a micro-batch's gradient is multiplied with before it is summed: f16's sums are means, as far as a power of two
/// goes, since the sum of thousands of gradients would leave its range when their mean does not.
double accumulation_factor(const Recipe& recipe) {
  if (recipe.train.accumulators != "f16") return 1;
  return 1 / static_cast<double>(std::bit_ceil(static_cast<uint64_t>(recipe.train.accumulation)));
}

/// Draws for stochastic rounding of what is held for `name`.
RoundingBy drawn_rounding(GraphBuilder& build, const Recipe& recipe, const std::string& name) {
  const ValueId known = build.graph().find_input("counter");
  const Tensor counter =
      known != kNoValue ? build.tensor(known) : build.input("counter", DType::kI64, {2}, InputRole::kScalar);
  return {counter, recipe.train.seed, name};
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

/// The aliased graph under the recipe's scaling, which the parts get to know.
Graph with_scaling(const Recipe& recipe, const Graph& aliased, std::vector<GradientPart>& parts) {
  UnitScaled scaled = scaled_graph(recipe, aliased, states_of(parts));
  for (GradientPart& part : parts) part.scaled = scaled.weights[part.input];
  return std::move(scaled.graph);
}

/// Forward and backward of the aliased graph; each gradient is added to its accumulator.
Graph make_micro(const Graph& aliased, const std::vector<GradientPart>& parts, const Recipe& recipe,
                 const Precision& compute) {
  const bool automatic = recipe.train.loss_scale.automatic;
  const double loss_scale = recipe.train.loss_scale.number.value_or(1);
  const bool scaled = automatic || loss_scale != 1;
  const std::vector<StateTensor> states = states_of(parts);
  Graph forward = set_chunks(with_sums(lower_precision(aliased, compute), recipe), recipe.train.chunks, states);
  if (scaled) forward = with_scaled_loss(forward, automatic ? std::nullopt : std::optional(loss_scale));
  std::vector<std::string> names;
  for (const GradientPart& part : parts) names.push_back(part.input);
  const Graph differentiated = differentiate(forward, scaled ? "scaled_loss" : "loss", names);
  // Backward has sums of its own, over rows.
  const HeldForm form = held_form(recipe);
  const Graph both =
      hold_weights(set_chunks(with_sums(differentiated, recipe), recipe.train.chunks, states), names, form);

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
    if (output.name != "scaled_loss" && !output.name.starts_with("grad."))
      micro.add_output(output.name, copier[output.value], output.role);
  Scope scope(build, "accumulate");
  for (const GradientPart& part : parts) {
    const Tensor gradient = build.tensor(copier[both.find_output("grad." + part.input)->value]);
    const DType held = dtype_from_name(recipe.train.accumulators);
    const Tensor sum = build.state(part.accumulator(), held, part.weight->type.shape);
    const Tensor next =
        held == DType::kF32
            ? add(sum, gradient)
            : add_to_sum(sum, gradient, accumulation_factor(recipe), drawn_rounding(build, recipe, part.accumulator()));
    build.output(part.accumulator(), next, OutputRole::kState);
  }
  return micro;
}

class UpdateBuilder {
 public:
  UpdateBuilder(const Model& model, const std::vector<GradientPart>& parts, const Recipe& recipe, StepGraph& step)
      : model_(model), parts_(parts), recipe_(recipe), step_(step), build_(step.update) {}

  void run() {
    std::vector<Tensor> gradients;
    for (const auto& weight : model_.weights) {
      scales_.push_back(weight_scale(recipe_, model_, weight, scaled_of(weight)));
      gradients.push_back(gradient_of(weight));
    }
    const std::vector<Tensor> grad_scales = make_grad_scales(gradients);
    const std::string& kind = recipe_.train.optimizer.kind;
    rate_ = scalar("learning_rate");
    scalars_ = {.rate = rate_, .correction1 = {}, .correction2 = {}, .grad_scale = {}};
    if (kind == "adam" || kind == "adamw" || kind == "lamb")
      scalars_.correction1 = scalar("correction1"), scalars_.correction2 = scalar("correction2");
    if (kind == "adafactor") second_decay_ = scalar("second_decay");
    // Optimizers that the size of a gradient matters to get that of the unscaled model.
    const bool sized = kind == "sgd" || kind == "adam" || kind == "lars";
    for (size_t i = 0; i < gradients.size(); ++i) {
      Scope scope(build_, "update/" + model_.weights[i].name);
      scalars_.grad_scale = grad_scales[i];
      if (sized && scales_[i].gradient != 1) scalars_.grad_scale = scale(grad_scales[i], scales_[i].gradient);
      scalars_.rate = rate_of(i);
      (this->*update_of(kind))(model_.weights[i], gradients[i]);
    }
  }

 private:
  Tensor scalar(const std::string& name) { return build_.input(name, DType::kF32, {}, InputRole::kScalar); }

  /// How a weight is scaled: of a tied one the first reader that is no last product, for the sum of all gradients.
  ScaledWeight scaled_of(const StateTensor& weight) const {
    ScaledWeight scaled;
    bool any = false;
    double squares = 0;  // of the true gradients, in proportion
    for (const GradientPart& part : parts_) {
      if (part.weight != &weight) continue;
      if (!any || scaled.kind == ScaledWeight::Kind::kOutput) scaled = part.scaled;
      any = true;
      squares += 1 / (part.scaled.gradient * part.scaled.gradient);
    }
    scaled.gradient = 1 / std::sqrt(squares);
    return scaled;
  }

  /// The sum of the weight's parts, in order of scopes; scaled parts by what each is of the whole.
  Tensor gradient_of(const StateTensor& weight) {
    Scope scope(build_, "gradient/" + weight.name);
    const double whole = scaled_of(weight).gradient;
    Tensor sum;
    for (const GradientPart& part : parts_) {
      if (part.weight != &weight) continue;
      Tensor term = build_.state(part.accumulator(), dtype_from_name(recipe_.train.accumulators), weight.type.shape);
      if (is_scaled(recipe_) && whole != part.scaled.gradient) term = scale(term, whole / part.scaled.gradient);
      sum = sum.valid() ? add(sum, term) : term;
    }
    return sum;
  }

  /// The learning rate of weight `i`.
  Tensor rate_of(size_t i) {
    const double factor = scales_[i].rate;
    if (factor == 1) return rate_;
    Tensor& rate = rates_[factor];
    if (!rate.valid()) rate = scale(rate_, factor);
    return rate;
  }

  /// What each gradient is multiplied with: the mean over micro-batches, less the loss scale, clipped. Not finite when
  /// the norm is not, so that the optimizers leave everything as it was: the norm of all gradients, or of that one
  /// alone where updates do not wait for all.
  std::vector<Tensor> make_grad_scales(const std::vector<Tensor>& gradients) {
    Scope scope(build_, "gradient_norm");
    std::vector<Tensor> squares;
    for (size_t i = 0; i < gradients.size(); ++i) {
      Scope of_weight(build_, model_.weights[i].name);  // "gradient_norm/W", which checks of numerics look for
      // Of the model's own, unscaled gradients: what the norm is clipped to keeps its meaning.
      const double own = scales_[i].gradient;
      Tensor gradient = gradients[i];
      if (own != 1) gradient = scale(gradient.type().dtype == DType::kF32 ? gradient : cast(gradient, DType::kF32), own);
      squares.push_back(sum_squares(gradient));
    }
    const double mean = 1 / (static_cast<double>(recipe_.train.accumulation) *
                             recipe_.train.loss_scale.number.value_or(1) * accumulation_factor(recipe_));
    Tensor norm = scale(sqrt(from_exact(exact_sum(squares))), mean), factor = full(build_, DType::kF32, {}, mean);
    if (recipe_.train.loss_scale.automatic) {
      const Tensor inverse = scalar("inverse_loss_scale");
      norm = multiply(norm, inverse), factor = multiply(factor, inverse);
      watch_range(gradients);
    }
    build_.output("grad_norm", norm);
    if (recipe_.train.accumulators != "f32") report_underflow(gradients);
    if (recipe_.train.clip_norm > 0) {
      const Tensor limit = full(build_, DType::kF32, {}, recipe_.train.clip_norm),
                   one = full(build_, DType::kF32, {}, 1);
      factor = multiply(factor, minimum(one, divide(limit, add_scalar(norm, 1e-6))));  // as PyTorch's clip_grad_norm_
    }
    const auto guarded = [&](Tensor guard) { return add(factor, scale(guard, 0)); };  // 0 x infinity is NaN
    if (!recipe_.train.optimizer.in_backward) return std::vector<Tensor>(gradients.size(), guarded(norm));
    std::vector<Tensor> result;
    for (const Tensor square : squares) result.push_back(guarded(from_exact(square)));
    return result;
  }

  /// The share of the sums that their type holds with fewer bits.
  void report_underflow(const std::vector<Tensor>& gradients) {
    std::vector<Tensor> counts;
    int64_t elements = 0;
    for (const Tensor gradient : gradients) {
      counts.push_back(count_underflow(gradient));
      elements += gradient.type().elements();
    }
    const Tensor count = from_exact(exact_sum(counts));
    build_.output("gradient_underflow", scale(count, 1 / static_cast<double>(elements)));
  }

  /// What an automatic loss scale goes by (train/loss_scale.h).
  void watch_range(const std::vector<Tensor>& gradients) {
    const std::optional<LossScaleRange> range = loss_scale_range(recipe_);
    if (!range) return;
    std::vector<Tensor> histograms;
    for (const Tensor gradient : gradients) histograms.push_back(exponent_histogram(gradient));
    const Tensor all = histogram_sum(histograms);
    // Sums of f16 are means already.
    const bool means = accumulation_factor(recipe_) != 1;
    const int sums = means ? 0 : std::bit_width(static_cast<uint64_t>(recipe_.train.accumulation)) - 1;
    build_.output("grad_near_overflow", histogram_share(all, range->near() + sums));
    build_.output("grad_room", histogram_share(all, range->room() + sums));
    build_.output("grad_underflow", histogram_share(all, range->least + sums, true));
  }

  Tensor optimizer_state(const std::string& name, const StateTensor& weight) {
    return optimizer_state(name, weight, dtype_from_name(recipe_.train.optimizer.state));
  }
  Tensor optimizer_state(const std::string& name, const StateTensor& weight, DType dtype) {
    const TensorType type{dtype, weight.type.shape};
    step_.states.push_back({name, type, StateKind::kOptimizer, {}, weight.group, weight.axes});
    return build_.state(name, type.dtype, type.shape);
  }
  /// The weight as it is held.
  Tensor held_weight(const StateTensor& weight) {
    return build_.state(weight.name, held_form(recipe_).dtype, weight.type.shape);
  }
  /// How the weight's update holds it and its moments.
  StateForm state_form(const StateTensor& weight) {
    StateForm form;
    const HeldForm held = held_form(recipe_);
    if (held.split) form.low = build_.state(low_half_of(weight.name), kU16, weight.type.shape);
    if ((!held.whole() && !held.split) || recipe_.train.optimizer.state != "f32")
      form.rounding = drawn_rounding(build_, recipe_, weight.name);
    return form;
  }
  void output_weight(const StateTensor& weight, Tensor next, Tensor low) {
    build_.output(weight.name, next, OutputRole::kState);
    if (low.valid()) build_.output(low_half_of(weight.name), low, OutputRole::kState);
  }
  /// One number for each place of dimension `dim` of a weight.
  Tensor optimizer_state_of(const std::string& name, const StateTensor& weight, size_t dim) {
    StateTensor state{name, {DType::kF32, Shape{weight.type.shape[static_cast<int>(dim)]}}, StateKind::kOptimizer, {}, weight.group};
    if (!weight.axes.empty()) state.axes = {weight.axes[dim]};
    step_.states.push_back(state);
    return build_.state(name, DType::kF32, state.type.shape);
  }
  void state_output(const std::string& name, Tensor value) {
    if (value.valid()) build_.output(name, value, OutputRole::kState);
  }

  // LARS, Adafactor and Lion work on f32 copies of what is held in fewer bits, one weight's at a time.
  Tensor whole_weight(const StateTensor& weight) {
    const HeldForm form = held_form(recipe_);
    const Tensor held = held_weight(weight);
    if (form.split) return join_halves(held, build_.state(low_half_of(weight.name), kU16, weight.type.shape));
    return form.whole() ? held : cast(held, DType::kF32);
  }
  void output_whole_weight(const StateTensor& weight, Tensor next) {
    const HeldForm form = held_form(recipe_);
    if (form.split) {
      const auto [high, low] = split_halves(next);
      return output_weight(weight, high, low);
    }
    const RoundingBy drawn = form.whole() ? RoundingBy{} : drawn_rounding(build_, recipe_, weight.name);
    output_weight(weight, form.whole() ? next : narrow(next, form.dtype, {.saturate = true}, drawn), {});
  }
  /// What f16 holds is kHalfStateScale times the moment (ops/rounding.h).
  static double moment_scale(DType held) { return held == DType::kF16 ? kHalfStateScale : 1; }
  Tensor whole_moment(const std::string& name, const StateTensor& weight) {
    const Tensor held = optimizer_state(name, weight);
    const DType dtype = held.type().dtype;
    return dtype == DType::kF32 ? held : narrow(held, DType::kF32, {.scale = 1 / moment_scale(dtype)});
  }
  void output_moment(const std::string& name, Tensor next) {
    if (!next.valid()) return;
    const DType held = dtype_from_name(recipe_.train.optimizer.state);
    state_output(name, held == DType::kF32 ? next
                                           : narrow(next, held, {.scale = moment_scale(held), .saturate = true},
                                                    drawn_rounding(build_, recipe_, name)));
  }

  using Update = void (UpdateBuilder::*)(const StateTensor&, Tensor);
  static Update update_of(const std::string& kind) {
    static const std::map<std::string, Update> updates = {
        {"sgd", &UpdateBuilder::update_sgd},        {"adam", &UpdateBuilder::update_adam},
        {"adamw", &UpdateBuilder::update_adam},     {"lamb", &UpdateBuilder::update_adam},
        {"lars", &UpdateBuilder::update_lars},      {"adafactor", &UpdateBuilder::update_adafactor},
        {"lion", &UpdateBuilder::update_lion}};
    return updates.at(kind);
  }
  double decay_of(const StateTensor& weight) const {
    const double factor = scales_[static_cast<size_t>(&weight - model_.weights.data())].decay;
    return weight.group == "decay" ? recipe_.train.optimizer.weight_decay * factor : 0;
  }

  void update_sgd(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.train.optimizer;
    const std::string name = "optimizer.momentum." + weight.name;
    const Tensor momentum = optimizer.momentum != 0 ? optimizer_state(name, weight) : Tensor{};
    const SgdResult result =
        sgd(held_weight(weight), gradient, momentum, scalars_.rate, scalars_.grad_scale,
            {.momentum = optimizer.momentum, .weight_decay = decay_of(weight), .nesterov = optimizer.nesterov},
            state_form(weight));
    output_weight(weight, result.weight, result.low);
    if (result.momentum.valid()) build_.output(name, result.momentum, OutputRole::kState);
  }

  void update_adam(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.train.optimizer;
    const Tensor m = optimizer_state("optimizer.m." + weight.name, weight),
                 v = optimizer_state("optimizer.v." + weight.name, weight);
    const AdamOptions options{.beta1 = optimizer.beta1,
                              .beta2 = optimizer.beta2,
                              .epsilon = optimizer.epsilon,
                              .weight_decay = decay_of(weight),
                              .decoupled = optimizer.kind != "adam",
                              .norm_cap = optimizer.weight_norm_cap};
    const bool adapts = optimizer.kind == "lamb" && (optimizer.trust == "all" || weight.group == "decay");
    const Tensor w = held_weight(weight);
    const StateForm form = state_form(weight);
    const AdamResult result = adapts ? lamb(w, gradient, m, v, scalars_, options, form)
                                     : adam(w, gradient, m, v, scalars_, options, form);
    output_weight(weight, result.weight, result.low);
    build_.output("optimizer.m." + weight.name, result.m, OutputRole::kState);
    build_.output("optimizer.v." + weight.name, result.v, OutputRole::kState);
  }

  void update_lars(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.train.optimizer;
    const std::string name = "optimizer.momentum." + weight.name;
    const Tensor momentum = optimizer.momentum != 0 ? whole_moment(name, weight) : Tensor{};
    const SgdResult result = lars(whole_weight(weight), gradient, momentum, scalars_.rate, scalars_.grad_scale,
                                  {.momentum = optimizer.momentum,
                                   .weight_decay = decay_of(weight),
                                   .trust_coefficient = weight.group == "decay" ? optimizer.trust_coefficient : 0,
                                   .norm_cap = optimizer.weight_norm_cap});
    output_whole_weight(weight, result.weight);
    output_moment(name, result.momentum);
  }

  void update_lion(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.train.optimizer;
    const std::string name = "optimizer.m." + weight.name;
    const LionResult result =
        lion(whole_weight(weight), gradient, whole_moment(name, weight), scalars_.rate, scalars_.grad_scale,
             {.beta1 = optimizer.beta1, .beta2 = optimizer.beta2, .weight_decay = decay_of(weight)});
    output_whole_weight(weight, result.weight);
    output_moment(name, result.m);
  }

  void update_adafactor(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.train.optimizer;
    const auto name = [&](const char* state) { return "optimizer." + std::string(state) + "." + weight.name; };
    AdafactorStates states;
    if (optimizer.factored && weight.type.shape.rank() == 2) {
      states.row = optimizer_state_of(name("row"), weight, 0);
      states.column = optimizer_state_of(name("column"), weight, 1);
    } else {
      states.square = optimizer_state(name("v"), weight, DType::kF32);
    }
    if (optimizer.first_moment) states.m = whole_moment(name("m"), weight);
    const Shape real = weight.unpadded().shape;
    const AdafactorResult result =
        adafactor(whole_weight(weight), gradient, states, scalars_.rate, second_decay_, scalars_.grad_scale,
                  {.beta1 = optimizer.first_moment ? optimizer.beta1 : 0,
                   .weight_decay = decay_of(weight),
                   .clip_threshold = optimizer.clip_threshold,
                   .square_epsilon = optimizer.square_epsilon,
                   .scale_epsilon = optimizer.scale_parameter ? optimizer.scale_epsilon : 0,
                   .rows = real.rank() > 0 ? real[0] : 0,
                   .elements = real.elements()});
    output_whole_weight(weight, result.weight);
    state_output(name("row"), result.row);
    state_output(name("column"), result.column);
    state_output(name("v"), result.square);
    output_moment(name("m"), result.m);
  }

  const Model& model_;
  const std::vector<GradientPart>& parts_;
  const Recipe& recipe_;
  StepGraph& step_;
  GraphBuilder build_;
  AdamScalars scalars_;
  Tensor second_decay_;  // of Adafactor
  std::vector<WeightScale> scales_;  ///< one a weight
  Tensor rate_;
  std::map<double, Tensor> rates_;
};

}  // namespace

Recipe with_order_of_sums(Recipe recipe, const Layout& layout) {
  if (recipe.train.bits == "exact") return recipe;
  recipe.train.lanes = layout.r;
  recipe.train.chunks = std::lcm(layout.t1, layout.t2);
  return recipe;
}

Graph with_sums(const Graph& graph, const Recipe& recipe) {
  const bool wanted = recipe.train.sums == "in-order" || (recipe.train.sums == "auto" && recipe.data.packs());
  return wanted && recipe.train.precision == "f32" ? set_sums_in_order(graph) : graph;
}

StepGraph make_training_step(const Model& model, const Recipe& recipe) {
  const Precision compute = precision_from_name(recipe.train.precision);
  StepGraph step;
  step.lanes = recipe.train.lanes;
  step.micro_batches_per_lane = recipe.train.accumulation / recipe.train.lanes;
  step.states = held_weights(model.weights, held_form(recipe));
  auto [aliased, parts] = with_parts(model);
  aliased = with_scaling(recipe, aliased, parts);
  for (const GradientPart& part : parts) {
    const StateTensor& weight = *part.weight;
    step.states.push_back(
        {part.accumulator(),
         {dtype_from_name(recipe.train.accumulators), weight.type.shape},
         StateKind::kAccumulator,
         {},
         weight.group,
         weight.axes});
  }
  step.micro = make_micro(aliased, parts, recipe, compute);
  UpdateBuilder(model, parts, recipe, step).run();
  step.update = set_chunks(step.update, recipe.train.chunks, step.states);
  std::vector<std::string> names;
  for (const StateTensor& weight : model.weights) names.push_back(weight.name);
  const Graph evaluate = scaled_graph(recipe, model.evaluate, model.weights).graph;
  step.evaluate = hold_weights(
      set_chunks(with_sums(lower_precision(evaluate, compute), recipe), recipe.train.chunks, model.weights), names,
      held_form(recipe));
  step.evaluate.set_name("evaluate");
  return step;
}

}  // namespace ramet::train

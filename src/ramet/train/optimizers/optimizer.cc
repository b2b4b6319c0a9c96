#include "ramet/train/optimizers/optimizer.h"

#include <algorithm>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/rounding.h"
#include "ramet/train/held_weights.h"

namespace ramet::train {

OptimizerDef sgd_optimizer();
OptimizerDef adam_optimizer();
OptimizerDef adamw_optimizer();
OptimizerDef lamb_optimizer();
OptimizerDef lars_optimizer();
OptimizerDef adafactor_optimizer();
OptimizerDef lion_optimizer();
OptimizerDef rmsprop_optimizer();
OptimizerDef centered_rmsprop_optimizer();
OptimizerDef adagrad_optimizer();

const std::vector<OptimizerDef>& optimizers() {
  static const std::vector<OptimizerDef> all = {sgd_optimizer(),    adam_optimizer(),    adamw_optimizer(),
                                                lamb_optimizer(),   lars_optimizer(),    adafactor_optimizer(),
                                                lion_optimizer(),   rmsprop_optimizer(), centered_rmsprop_optimizer(),
                                                adagrad_optimizer()};
  return all;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerDef& optimizer : optimizers()) names.push_back(optimizer.name);
  return names;
}

const OptimizerDef& find_optimizer(const std::string& name) {
  const auto& all = optimizers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OptimizerDef& each) { return each.name == name; });
  if (found != all.end()) return *found;
  std::string known;
  for (const OptimizerDef& each : all) known += (known.empty() ? "" : ", ") + each.name;
  throw Error({.what = "unknown optimizer", .found = "'" + name.substr(0, 100) + "'", .expected = "one of " + known});
}

Tensor scalar_input(GraphBuilder& build, const std::string& name) {
  const ValueId known = build.graph().find_input(name);
  return known != kNoValue ? build.tensor(known) : build.input(name, DType::kF32, {}, InputRole::kScalar);
}

WeightUpdate::WeightUpdate(const OptimizerDef& optimizer, const TrainOptions& train, const OptimizerOptions& options,
                           Inputs inputs, GraphBuilder& build, std::vector<StateTensor>& states)
    : optimizer_(optimizer), train_(train), options_(options), inputs_(std::move(inputs)), build_(build) {
  for (const OptimizerState& state : optimizer_.states) {
    if (state.kept && !state.kept(options_, weight())) continue;
    std::vector<LogicalAxis> axes = weight().axes;
    if (state.form != OptimizerState::Form::kWhole && !axes.empty())
      axes = {axes[state.form == OptimizerState::Form::kRows ? 0 : 1]};
    StateInit init;
    if (state.first) init = {StateInit::Kind::kConstant, state.first(options_)};
    states.push_back({name_of(state), type_of(state), StateKind::kOptimizer, init, weight().group, axes});
    states.back().of = weight().name;
    states.back().role = state.name;
  }
}

double WeightUpdate::moment_scale(DType held) { return held == DType::kF16 ? kHalfStateScale : 1; }

const OptimizerState& WeightUpdate::definition(const std::string& name) const {
  for (const OptimizerState& state : optimizer_.states)
    if (state.name == name) return state;
  internal_error("WeightUpdate", "the entry of optimizer '" + optimizer_.name + "' declares no state '" + name + "'");
}

TensorType WeightUpdate::type_of(const OptimizerState& state) const {
  const DType dtype = state.narrow ? dtype_from_name(options_.state) : DType::kF32;
  if (state.form == OptimizerState::Form::kWhole) return {dtype, weight().type.shape};
  return {dtype, Shape{weight().type.shape[state.form == OptimizerState::Form::kRows ? 0 : 1]}};
}

Tensor WeightUpdate::scalar(const std::string& name) {
  const bool declared = std::any_of(optimizer_.scalars.begin(), optimizer_.scalars.end(),
                                    [&](const OptimizerScalar& scalar) { return scalar.name == name; });
  if (!declared)
    internal_error("WeightUpdate",
                   "the entry of optimizer '" + optimizer_.name + "' declares no scalar '" + name + "'");
  return scalar_input(build_, name + inputs_.suffix);
}

Tensor WeightUpdate::state(const std::string& name) {
  const OptimizerState& state = definition(name);
  if (state.kept && !state.kept(options_, weight())) return {};
  const TensorType type = type_of(state);
  const Tensor held = build_.state(name_of(state), type.dtype, type.shape);
  if (!optimizer_.works_in_f32 || type.dtype == DType::kF32) return held;
  return narrow(held, DType::kF32, {.scale = 1 / moment_scale(type.dtype)});
}

Tensor WeightUpdate::value() {
  const HeldForm held = held_form(train_);
  const Tensor weight = build_.state(inputs_.weight.name, held.dtype, inputs_.weight.type.shape);
  if (!optimizer_.works_in_f32 || held.whole()) return weight;
  if (held.split)
    return join_halves(weight, build_.state(low_half_of(inputs_.weight.name), DType::kU16, inputs_.weight.type.shape));
  return cast(weight, DType::kF32);
}

StateForm WeightUpdate::form() {
  StateForm form;
  const HeldForm held = held_form(train_);
  if (held.split) form.low = build_.state(low_half_of(weight().name), DType::kU16, weight().type.shape);
  if ((!held.whole() && !held.split) || options_.state != "f32")
    form.rounding = drawn_rounding(build_, train_, weight().name);
  return form;
}

Tensor WeightUpdate::unless_overflow(Tensor next, Tensor before) const {
  return select(is_finite(grad_scale()), next, before);
}

Tensor WeightUpdate::decayed_gradient() {
  const Tensor true_size = multiply(gradient(), grad_scale());
  return weight_decay() == 0 ? true_size : add(true_size, scale(value(), weight_decay()));
}

void WeightUpdate::write_weight(Tensor next, Tensor low) {
  const HeldForm held = held_form(train_);
  if (optimizer_.works_in_f32 && held.split)
    std::tie(next, low) = split_halves(next);
  else if (optimizer_.works_in_f32 && !held.whole())
    next = narrow(next, held.dtype, {.saturate = true}, drawn_rounding(build_, train_, weight().name));
  build_.output(weight().name, next, OutputRole::kState);
  if (low.valid()) build_.output(low_half_of(weight().name), low, OutputRole::kState);
}

void WeightUpdate::write(Tensor weight, const std::map<std::string, Tensor>& states, Tensor low) {
  write_weight(weight, low);
  for (const auto& [name, next] : states) (void)definition(name);
  for (const OptimizerState& state : optimizer_.states) {
    const auto found = states.find(state.name);
    if (found == states.end() || !found->second.valid()) continue;
    const DType held = type_of(state).dtype;
    Tensor next = found->second;
    if (optimizer_.works_in_f32 && held != DType::kF32)
      next = narrow(next, held, {.scale = moment_scale(held), .saturate = true},
                    drawn_rounding(build_, train_, name_of(state)));
    build_.output(name_of(state), next, OutputRole::kState);
  }
}

}  // namespace ramet::train

#include "ramet/train/scaling.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"

namespace ramet::train {
namespace {

/// Optimizers whose step is in proportion to the weight's norm.
bool is_proportional(const Recipe& recipe) {
  const std::string& kind = recipe.train.optimizer.kind;
  return kind == "lamb" || kind == "lars" || (kind == "adafactor" && recipe.train.optimizer.scale_parameter);
}

double u_mup_rate(const ScaledWeight& weight) {
  double rate = 1;
  if (weight.kind == ScaledWeight::Kind::kInput) rate = 1 / std::sqrt(static_cast<double>(weight.width));
  if (weight.kind == ScaledWeight::Kind::kHidden) rate = 1 / std::sqrt(static_cast<double>(weight.fan_in));
  return rate / std::sqrt(static_cast<double>(weight.depth));
}

}  // namespace

bool is_scaled(const Recipe& recipe) { return recipe.train.scaling != "none"; }

Model with_unit_weights(Model model) {
  for (const StateTensor& weight : model.weights)
    if (const double deviation = deviation_of(weight.init); deviation > 0) model.deviations[weight.name] = deviation;
  model.weights = unit_weights(std::move(model.weights));
  return model;
}

void check_importable(const Recipe& recipe) {
  if (!is_scaled(recipe)) return;
  throw Error(
      {.what = "weights of a model without scaling cannot be the first ones of a scaled model",
       .where = recipe.where("model.init_from"),
       .found = "'" + recipe.model.init_from.substr(0, 200) + "' with train.scaling = \"" + recipe.train.scaling + "\"",
       .expected = "a checkpoint of a run with the same scaling",
       .remedy = "Set train.scaling = \"none\""});
}

void check_exportable(const Recipe& recipe, const std::string& where) {
  if (!is_scaled(recipe)) return;
  throw Error({.what = "weights of a scaled model cannot be exported",
               .where = where,
               .found = "train.scaling = \"" + recipe.train.scaling + "\"",
               .expected = "a run with train.scaling = \"none\"",
               .remedy = "Other programs do not know the factors that stand beside the weights; use `ramet predict` or "
                         "`ramet eval`"});
}

UnitScaled scaled_graph(const Recipe& recipe, const Graph& graph, std::span<const StateTensor> weights) {
  if (!is_scaled(recipe)) return {graph, {}};
  const auto& train = recipe.train;
  return unit_scale(graph, weights,
                    {.u_mup = train.scaling == "u-mup",
                     .residual_tau = train.residual_tau,
                     .attention = train.attention_multiplier,
                     .residual = train.residual_multiplier,
                     .attention_residual = train.attention_residual_multiplier,
                     .logits = train.logits_multiplier});
}

WeightScale weight_scale(const Recipe& recipe, const Model& model, const StateTensor& weight,
                         const ScaledWeight& scaled) {
  WeightScale scale;
  if (!is_scaled(recipe)) return scale;
  scale.gradient = 1 / (scaled.gradient * scaled.forward);
  if (is_proportional(recipe)) return scale;
  if (recipe.train.scaling == "u-mup") {
    scale.rate = u_mup_rate(scaled);
  } else if (const auto known = model.deviations.find(weight.name); known != model.deviations.end()) {
    // What a product multiplies by moves as far as without scaling; a table's rows meet a norm, for which proportion
    // counts.
    scale.rate = 1 / (scaled.forward != 1 ? scaled.forward : known->second);
  }
  scale.decay = 1 / scale.rate;
  return scale;
}

}  // namespace ramet::train

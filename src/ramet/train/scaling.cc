#include "ramet/train/scaling.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

/// Whether the optimizer's step is in proportion to the weight's norm.
bool is_proportional(const OptimizerOptions& options) {
  const OptimizerDef& optimizer = find_optimizer(options.kind);
  return optimizer.proportional && optimizer.proportional(options);
}

double u_mup_rate(const ScaledWeight& weight) {
  double rate = 1;
  if (weight.kind == ScaledWeight::Kind::kInput) rate = 1 / std::sqrt(static_cast<double>(weight.width));
  if (weight.kind == ScaledWeight::Kind::kHidden) rate = 1 / std::sqrt(static_cast<double>(weight.fan_in));
  return rate / std::sqrt(static_cast<double>(weight.depth));
}

}  // namespace

bool is_scaled(const TrainOptions& options) { return options.scaling != "none"; }

Model with_unit_weights(Model model) {
  for (const StateTensor& weight : model.weights)
    if (const double deviation = deviation_of(weight.init); deviation > 0) model.deviations[weight.name] = deviation;
  model.weights = unit_weights(std::move(model.weights));
  return model;
}

void check_importable(const TrainOptions& options, const std::string& file, const std::string& where) {
  if (!is_scaled(options)) return;
  throw Error(
      {.what = "weights of a model without scaling cannot be the first ones of a scaled model",
       .where = where,
       .found = "'" + file.substr(0, 200) + "' with train.scaling = \"" + options.scaling + "\"",
       .expected = "a checkpoint of a run with the same scaling",
       .remedy = "Set train.scaling = \"none\""});
}

void check_exportable(const TrainOptions& options, const std::string& where) {
  if (!is_scaled(options)) return;
  throw Error({.what = "weights of a scaled model cannot be exported",
               .where = where,
               .found = "train.scaling = \"" + options.scaling + "\"",
               .expected = "a run with train.scaling = \"none\"",
               .remedy = "Other programs do not know the factors that stand beside the weights; use `ramet predict` or "
                         "`ramet eval`"});
}

UnitScaled scaled_graph(const TrainOptions& options, const Graph& graph, std::span<const StateTensor> weights) {
  if (!is_scaled(options)) return {graph, {}};
  return unit_scale(graph, weights,
                    {.u_mup = options.scaling == "u-mup",
                     .residual_tau = options.residual_tau,
                     .attention = options.attention_multiplier,
                     .residual = options.residual_multiplier,
                     .attention_residual = options.attention_residual_multiplier,
                     .logits = options.logits_multiplier});
}

WeightScale weight_scale(const TrainOptions& options, const Model& model, const StateTensor& weight,
                         const ScaledWeight& scaled) {
  WeightScale scale;
  if (!is_scaled(options)) return scale;
  scale.gradient = 1 / (scaled.gradient * scaled.forward);
  if (is_proportional(options.optimizer)) return scale;
  if (options.scaling == "u-mup") {
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

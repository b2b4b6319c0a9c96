#pragma once

#include <map>
#include <string>

#include "ramet/model/model.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/unit_scale.h"

namespace ramet::train {

/// Whether unit scaling or u-muP is asked for.
bool is_scaled(const TrainOptions& options);
/// The model with matrices that start with unit variance; `deviations` gets the standard deviations that the model
/// asked for.
Model with_unit_weights(Model model);

/// Throws Error when the model is scaled and is to start from `file`, weights of a model that is not.
void check_importable(const TrainOptions& options, const std::string& file, const std::string& where);
/// Throws Error when the model is scaled: its weights mean nothing to programs that do not know the factors.
void check_exportable(const TrainOptions& options, const std::string& where);

/// Unit scaling of a graph of the model, forward and with the factors of its gradients; without scaling
/// the graph as it is.
UnitScaled scaled_graph(const TrainOptions& options, const Graph& graph, std::span<const StateTensor> weights);

/// The changes of an update for a scaled weight.
struct WeightScale {
  double rate = 1;      ///< factor of the learning rate
  double decay = 1;     ///< of the weight decay, which the optimizer multiplies with the rate
  double gradient = 1;  ///< makes the gradient that of the model's own, unscaled weight
};

/// Of a weight whose gradient is 1/`gradient` of the loss'. Under unit scaling a step changes a weight as much, in
/// proportion to its initial deviation, as without: the learning rate and the weight decay keep their meaning. Under
/// u-muP learning rates are 1 for vectors and last products, 1/sqrt(width) for tables, 1/sqrt(fan-in) for other
/// products, and in residual branches 1/sqrt(depth) of that; decay does not depend on them. Optimizers whose steps are
/// in proportion to the weight need no rate of their own.
WeightScale weight_scale(const TrainOptions& options, const Model& model, const StateTensor& weight,
                         const ScaledWeight& scaled);

}  // namespace ramet::train

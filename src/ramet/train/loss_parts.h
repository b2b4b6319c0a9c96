#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/model/model.h"
#include "ramet/train/train_options.h"

namespace ramet::train {

/// A part of the loss that a step differentiates and sums by itself.
struct LossPart {
  std::string metric;         ///< "mlm_loss"
  std::string loss;           ///< output of the forward graph
  std::string denominator{};  ///< output that counts the items which it is the mean of; empty: the loss as it is
  /// A power of two near the denominator of one micro-batch. Gradients are summed as multiples of denominator / unit,
  /// so that types of few bits hold them as they hold those of a mean.
  double unit = 1;

  /// The state f32[1] that counts the items of a step.
  std::string items_state() const { return "accumulator.items." + metric; }
};

/// The outputs that a step's micro-batches differentiate: with `loss_mean` = "micro" the loss alone, with "step" each
/// part of the loss, to be divided by its denominator. Throws Error naming declarations of metrics that the model
/// lacks.
std::vector<LossPart> loss_parts(const Model& model, const TrainOptions& options);

/// The metric of the first of `parts` whose denominator is 0 in all micro-batches of a step, by the results of each of
/// them; empty when there is none. Such a step has no gradient, and changes nothing.
std::string metric_without_items(const std::vector<LossPart>& parts,
                                 const std::vector<std::vector<std::pair<std::string, double>>>& micro);

/// The error of such a step, from 0.
Error no_items_error(const std::string& metric, int64_t step);

}  // namespace ramet::train

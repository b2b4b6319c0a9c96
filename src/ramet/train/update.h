#pragma once

#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/train/loss_parts.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/unit_scale.h"

namespace ramet::train {

/// A sum over micro-batches: of the gradient of one part of the loss.
struct GradientSum {
  size_t loss = 0;  ///< which of the loss parts
  std::string state;
};

/// The readers of a weight whose gradients are summed together: those of one region of the model (transform/layers.h).
/// A tied weight is so read in parts of the model that a pipeline may run at different times and places: with a sum for
/// each, no such order shows.
struct GradientPart {
  const StateTensor* weight = nullptr;
  std::string input;   ///< of the aliased graph: "W", and "W@1", "W@2" for regions after the first
  std::string region;  ///< in words, where there are several
  ScaledWeight scaled{};
  std::vector<GradientSum> sums{};  ///< one for each part of the loss that it meets; none for a frozen weight
};

/// The factor on a micro-batch's gradient before it is summed. Sums in f16 are means, up to a power of two: the sum of
/// thousands of gradients could leave the range of f16 when their mean does not.
double accumulation_factor(const TrainOptions& options);

/// Builds `step.update` from the sums of gradients and adds the optimizer's states to `step.states`.
void build_update(const Model& model, const std::vector<GradientPart>& parts, const std::vector<LossPart>& losses,
                  const TrainOptions& options, StepGraph& step);

}  // namespace ramet::train

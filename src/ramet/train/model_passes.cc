#include "ramet/train/model_passes.h"

#include <algorithm>

#include "ramet/train/scaling.h"

namespace ramet::train {

const std::vector<ModelPass>& model_passes() {
  static const std::vector<ModelPass> passes = {
      // Weights of unit variance; the graphs get their factors in the step (train/step.cc), which differentiates them.
      {.name = "unit scaling", .wanted = is_scaled, .apply = [](Model model, const TrainOptions&) {
         return with_unit_weights(std::move(model));
       }}};
  return passes;
}

Model apply_model_passes(Model model, const TrainOptions& options) {
  for (const ModelPass& pass : model_passes()) {
    if (!pass.wanted(options)) continue;
    if (std::find(model.passes.begin(), model.passes.end(), pass.name) != model.passes.end()) continue;
    model = pass.apply(std::move(model), options);
    model.passes.push_back(pass.name);
  }
  return model;
}

}  // namespace ramet::train

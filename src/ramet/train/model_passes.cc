#include "ramet/train/model_passes.h"

#include <algorithm>

#include "ramet/train/scaling.h"
#include "ramet/transform/memory_format.h"

namespace ramet::train {

namespace {

bool has_channels_first(const Model& model) {
  return transform::has_channels_first(model.forward) || transform::has_channels_first(model.evaluate) ||
         std::any_of(model.programs.begin(), model.programs.end(),
                     [](const NamedGraph& program) { return transform::has_channels_first(program.graph); });
}

Model with_channels_last(Model model) {
  model.forward = set_memory_format(model.forward);
  model.evaluate = set_memory_format(model.evaluate);
  for (NamedGraph& program : model.programs) program.graph = set_memory_format(program.graph);
  return model;
}

}  // namespace

const std::vector<ModelPass>& model_passes() {
  static const std::vector<ModelPass> passes = {
      // Weights of unit variance; the graphs get their factors in the step (train/step.cc), which differentiates them.
      {.name = "unit scaling",
       .wanted = [](const Model&, const TrainOptions& options) { return is_scaled(options); },
       .apply = [](Model model, const TrainOptions&) { return with_unit_weights(std::move(model)); }},
      {.name = "memory format",
       .wanted = [](const Model& model, const TrainOptions&) { return has_channels_first(model); },
       .apply = [](Model model, const TrainOptions&) { return with_channels_last(std::move(model)); }}};
  return passes;
}

Model apply_model_passes(Model model, const TrainOptions& options) {
  for (const ModelPass& pass : model_passes()) {
    if (!pass.wanted(model, options)) continue;
    if (std::find(model.passes.begin(), model.passes.end(), pass.name) != model.passes.end()) continue;
    model = pass.apply(std::move(model), options);
    model.passes.push_back(pass.name);
  }
  return model;
}

}  // namespace ramet::train

#pragma once

#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/train/train_options.h"

namespace ramet::train {

/// A rewriting of any kind of model that options may ask for, before its training step is made.
struct ModelPass {
  std::string name;
  bool (*wanted)(const Model& model, const TrainOptions& options);
  Model (*apply)(Model model, const TrainOptions& options);
};

/// All of them, in the order in which they are applied.
const std::vector<ModelPass>& model_passes();

/// The model after the passes that the options ask for. A pass is applied to a model once: `Model::passes` has the
/// names of those that were.
Model apply_model_passes(Model model, const TrainOptions& options);

}  // namespace ramet::train

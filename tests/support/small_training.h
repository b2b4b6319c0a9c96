#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/train/initialize.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/step.h"

namespace ramet::tests {

/// A training small enough for any test of layouts, with all that they meet: dropout, tied embeddings, clipping, lanes
/// and chunks of four. `kind` is "bert" or "gpt2"; `more` are further settings of the recipe.
struct SmallTraining {
  Preparation preparation;
  StepGraph step;  ///< as `make_training_step` gives it
  std::map<std::string, HostTensor> weights;

  SmallTraining(const std::string& kind, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {
        "model.kind=" + kind,     "model.preset=" + std::string(kind == "bert" ? "tiny" : "124m"),
        "model.layers=4",         "model.hidden=48",
        "model.heads=12",         "model.vocabulary_size=96",
        "model.max_positions=12", "data.sequence_length=12",
        "train.micro_batch=2",    "train.lanes=4",
        "train.accumulation=8",   "train.chunks=4",
        "train.clip_norm=0.01"};
    if (kind == "bert") settings.push_back("model.intermediate=96");
    settings.insert(settings.end(), more.begin(), more.end());
    preparation = prepare(parse_recipe("", "small.toml", ".", settings));
    step = make_training_step(preparation.workload.model, preparation.options);
    ThreadTeam team(1);
    for (const StateTensor& state : step.states) {
      if (state.kind != StateKind::kWeight) continue;
      HostTensor tensor(state.type);
      initialize_state(state, 7, tensor.data, team);
      weights.emplace(state.name, std::move(tensor));
    }
  }

  /// Scalar inputs of the update of step `number`.
  static std::vector<std::pair<std::string, double>> scalars(int64_t number) {
    const double t = static_cast<double>(number + 1);
    return {{"learning_rate", 0.01}, {"correction1", 1 - std::pow(0.9, t)}, {"correction2", 1 - std::pow(0.999, t)}};
  }
};

}  // namespace ramet::tests

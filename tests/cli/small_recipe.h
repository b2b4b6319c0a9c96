#pragma once

#include <string>

namespace ramet::tests {

/// A recipe of a BERT that trains in a moment: `model` and `train` are further lines of these tables.
inline std::string small_recipe(const std::string& name, const std::string& model, const std::string& train,
                                int checkpoint_every) {
  return "name = \"" + name + R"("
[model]
kind = "bert"
hidden = 32
)" + model +
         R"([data]
sequence_length = 16
[train]
seed = 3
accumulation = 4
)" + train +
         R"([train.schedule]
learning_rate = 1e-3
warmup_steps = 2
[train.evaluation]
batches = 2
[train.checkpoint]
every = )" +
         std::to_string(checkpoint_every) + "\n";
}

/// Lines of [model] of two layers.
inline const std::string kTwoLayers =
    "preset = \"mini\"\nlayers = 2\nheads = 4\nvocabulary_size = 96\nmax_positions = 16\n";

}  // namespace ramet::tests

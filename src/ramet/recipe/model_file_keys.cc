#include "ramet/recipe/keys.h"

namespace ramet::recipe {

std::vector<RecipeKey> model_file_keys() {
  using Kind = RecipeKey::Kind;
  return {
      {.name = "model.file",
       .after = "model.init_from",
       .doc = "file of a model that a program saved (docs/model-files.md), which is trained instead of a preset. Its "
              "inputs say how many samples a micro-batch has. model.kind is \"file\" then, and data.kind \"arrays\"",
       .field = RAMET_FIELD(model.file),
       .kind = Kind::kPath,
       .decides = false,
       .otherwise = "none"},
      {.name = "data.train",
       .after = "data.kind",
       .doc = "arrays to train on: .npz, .safetensors, .npy (one array, named as the file) or a folder of .npy files. "
              "Names are those of the model's inputs, the first dimension are samples",
       .field = RAMET_FIELD(data.train),
       .kind = Kind::kPath,
       .decides = false,
       .otherwise = "none: the model can be planned, simulated and evaluated"},
      {.name = "data.held_out",
       .doc = "arrays to evaluate on, likewise",
       .field = RAMET_FIELD(data.held_out),
       .kind = Kind::kPath,
       .decides = false,
       .otherwise = "none"},
      {.name = "data.held_out_share",
       .doc =
           "share of the samples of data.train that is held out for evaluation instead, the same whatever train.seed",
       .field = RAMET_FIELD(data.held_out_share),
       .low = 0,
       .high = 0.9},
  };
}

}  // namespace ramet::recipe

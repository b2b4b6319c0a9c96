#include "ramet/recipe/keys.h"

namespace ramet::recipe {

std::vector<RecipeKey> array_keys() {
  using Kind = RecipeKey::Kind;
  return {
      {.name = "data.train",
       .after = "data.kind",
       .doc = "arrays to train on: .npz, .safetensors, .npy (one array, named as the file) or a folder of .npy files. "
              "Names are those of the model's inputs, the first dimension are samples; of images: images (bytes, "
              "[N,H,W], [N,H,W,C] or [N,C,H,W]) and labels (whole numbers [N]) or masks (bytes [N,H,W], 255 where a "
              "pixel does not count)",
       .field = RAMET_FIELD(data.train),
       .kind = Kind::kPath,
       .decides = false,
       .otherwise = "none: the model can be planned, simulated and evaluated",
       .of_arrays = true},
      {.name = "data.held_out",
       .doc = "arrays to evaluate on, likewise",
       .field = RAMET_FIELD(data.held_out),
       .kind = Kind::kPath,
       .decides = false,
       .otherwise = "none",
       .of_arrays = true},
      {.name = "data.held_out_share",
       .doc =
           "share of the samples of data.train that is held out for evaluation instead, the same whatever train.seed",
       .field = RAMET_FIELD(data.held_out_share),
       .low = 0,
       .high = 0.9,
       .of_arrays = true},
  };
}

}  // namespace ramet::recipe

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
  };
}

}  // namespace ramet::recipe

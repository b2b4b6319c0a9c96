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
      {.name = "model.bind",
       .doc = "of an ONNX file: extents of named dimensions, and values of integer inputs, as "
              "\"batch=16,sequence=128\"",
       .field = RAMET_FIELD(model.bind),
       .otherwise = "none"},
      {.name = "model.loss",
       .doc = "of an ONNX file: the output to minimise, or cross_entropy:LOGITS:LABELS with a new input of classes",
       .field = RAMET_FIELD(model.loss),
       .otherwise = "the only output that is one number"},
      {.name = "model.trained",
       .doc = "of an ONNX file: patterns of the initializers that are weights, separated by commas, * for any text",
       .field = RAMET_FIELD(model.trained),
       .otherwise = "all that look like weights (docs/onnx.md)"},
      {.name = "model.frozen",
       .doc = "of an ONNX file: patterns of initializers that are no weights",
       .field = RAMET_FIELD(model.frozen),
       .otherwise = "none"},
  };
}

}  // namespace ramet::recipe

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/front/importer.h"
#include "ramet/front/torch_json.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(torch_program, std::string_view input) {
  TracedModule module;
  module.training = read_torch_program(input, "fuzz.json");
  constexpr int64_t kMostElements = 4096;
  for (const TracedInput& each : module.training->inputs) {
    if (each.kind == TracedInput::Kind::kUser) continue;
    const auto type = module.training->types.find(each.value);
    if (type != module.training->types.end() && type->second.elements() <= kMostElements)
      module.tensors.push_back({.name = each.target, .data = TensorData(HostTensor(type->second))});
  }
  import_module(std::move(module));
}

RAMET_FUZZ_SEEDS(torch_program) {
  const std::string samples = RAMET_SOURCE_DIR "/tests/samples/front/";
  return {.inputs = {read_file(samples + "mlp_training.json"), read_file(samples + "operators.json")},
          .words = {"\"as_tensor\": ",
                    "\"as_int\": ",
                    "\"as_ints\": ",
                    "\"as_none\": ",
                    "\"as_float\": ",
                    "\"as_bool\": ",
                    "\"as_tensors\": ",
                    "\"as_expr\": ",
                    "\"as_scalar_type\"",
                    "\"sizes\": [",
                    "\"dtype\": 7",
                    "\"dtype\": 5",
                    "\"dtype\": 12",
                    "9223372036854775807",
                    "-1",
                    "1e999",
                    "null",
                    "[[[[[[[[",
                    "\"name\": \"x\"",
                    "torch.ops.aten.cat.default",
                    "torch.ops.aten.view.default"}};
}

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/front/pt2.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(pt2, std::string_view input) { import_module(parse_pt2(input, "fuzz.pt2")); }

RAMET_FUZZ_SEEDS(pt2) {
  return {.inputs = {read_file(RAMET_SOURCE_DIR "/tests/samples/front/mlp.pt2")},
          .words = {"PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "models/model.json", "weight_0", "as_int", "byteorder"}};
}

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/weights/torch_zip.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(torch_zip, std::string_view input) {
  const auto file = open_torch_zip(fuzz::as_file(input));
  for (const StoredTensor& tensor : file->tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    file->read(tensor, values);
  }
}

RAMET_FUZZ_SEEDS(torch_zip) {
  const std::string samples = RAMET_SOURCE_DIR "/tests/samples/torch/";
  return {.inputs = {read_file(samples + "table.bin"), read_file(samples + "nested.pt"),
                     read_file(samples + "malicious.bin")},
          .words = {"PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "data.pkl", "data/0", "byteorder"}};
}

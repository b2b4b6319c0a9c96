#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/weights/safetensors.h"

using namespace ramet::tests;

namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> 8 * i);
  return file + header + std::string(data_bytes, 'x');
}

}  // namespace

RAMET_FUZZ_TARGET(safetensors, std::string_view input) {
  const auto path = fuzz::as_file(input);
  const SafetensorsReader reader(path);
  uint64_t sum = 0;
  for (const auto& tensor : reader.tensors()) {
    if (reader.find(tensor.name) == nullptr || static_cast<uint64_t>(tensor.type.bytes()) != tensor.end - tensor.begin)
      internal_error("safetensors", "a tensor that was accepted is not as it says");
    for (const std::byte byte : reader.bytes(tensor)) sum += static_cast<uint64_t>(byte);
  }
  if (sum == ~0ull) internal_error("safetensors", "so many bytes cannot be");
}

RAMET_FUZZ_SEEDS(safetensors) {
  return {
      .inputs = {file_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
                 file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})",
                         16),
                 file_of("{}", 0)},
      .words = {"\"dtype\":\"F32\"", "\"shape\":[0]", "\"data_offsets\":[0,0]", "\"__metadata__\":{}", "F16", "F64",
                "BOOL", "F8_E4M3", "[", "]", "{", "}", ",", "18446744073709551615", "\\u0000", "\\ud800", "\"a\":"}};
}

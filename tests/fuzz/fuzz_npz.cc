#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/data/arrays.h"

using namespace ramet::tests;

namespace {

template <typename T>
void put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(static_cast<uint64_t>(value) >> 8 * i);
}

/// An archive of one stored entry.
std::string archive(const std::string& name, const std::string& data) {
  std::string zip;
  put<uint32_t>(zip, 0x04034b50);
  zip += std::string("\x14\0\0\0\0\0\0\0\0\0", 10);
  put<uint32_t>(zip, 0), put<uint32_t>(zip, static_cast<uint32_t>(data.size())), put<uint32_t>(zip, static_cast<uint32_t>(data.size()));
  put<uint16_t>(zip, static_cast<uint16_t>(name.size())), put<uint16_t>(zip, 0);
  zip += name + data;
  const size_t directory = zip.size();
  put<uint32_t>(zip, 0x02014b50);
  zip += std::string("\x14\0\x14\0\0\0\0\0\0\0\0\0", 12);
  put<uint32_t>(zip, 0), put<uint32_t>(zip, static_cast<uint32_t>(data.size())), put<uint32_t>(zip, static_cast<uint32_t>(data.size()));
  put<uint16_t>(zip, static_cast<uint16_t>(name.size()));
  zip += std::string(16, '\0') + name;
  const size_t end = zip.size();
  put<uint32_t>(zip, 0x06054b50), put<uint32_t>(zip, 0), put<uint16_t>(zip, 1), put<uint16_t>(zip, 1);
  put<uint32_t>(zip, static_cast<uint32_t>(end - directory)), put<uint32_t>(zip, static_cast<uint32_t>(directory)), put<uint16_t>(zip, 0);
  return zip;
}

const std::string kArray = std::string("\x93NUMPY\x01\0\x3b\0", 10) +
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }" + std::string(24, 'x');

}  // namespace

RAMET_FUZZ_TARGET(npz, std::string_view input) {
  const auto path = fuzz::as_file(input);
  uint64_t sum = 0;
  for (const ArrayColumn& column : open_npz(path)) {
    const int64_t bytes = column.shape.elements() * stored_size(column.stored);
    for (int64_t i = 0; i < bytes; ++i) sum += static_cast<uint64_t>(column.data[i]);
  }
  if (sum == ~0ull) internal_error("npz", "so many bytes cannot be");
}

RAMET_FUZZ_SEEDS(npz) {
  return {.inputs = {archive("x.npy", kArray), archive("", kArray)},
          .words = {"PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", std::string("\xff\xff\xff\xff"),
                    std::string("\x01\0\x08\0", 4), std::string("\x08\0", 2), "x.npy"}};
}

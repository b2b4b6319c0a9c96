#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/data/arrays.h"

using namespace ramet::tests;

namespace {

std::string npy_of(const std::string& header, size_t data_bytes) {
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(header.size());
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(data_bytes, 'x');
}

}  // namespace

RAMET_FUZZ_TARGET(npy, std::string_view input) {
  ArrayColumn column = parse_npy(input, "input");
  column.name = "x";
  if (column.shape.elements() * stored_size(column.stored) > std::ssize(input))
    internal_error("npy", "an array that was accepted is longer than its file");
  if (column.shape.rank() == 0 || column.shape[0] == 0) return;
  make_array_source({column}, {})->make(column.shape[0] - 1, 1);
}

RAMET_FUZZ_SEEDS(npy) {
  return {.inputs = {npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", 24),
                     npy_of("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5),
                     npy_of("{'descr': '<i8', 'fortran_order': True, 'shape': (), }\n", 8)},
          .words = {"'descr'", "'<f8'", "'|b1'", "'<i2'", "'fortran_order'", "'shape'", "True", "False", "(", ")", ",",
                    "{", "}", ": ", "9223372036854775807", "[('a', '<f4')]", "\x93NUMPY\x02", "0,"}};
}

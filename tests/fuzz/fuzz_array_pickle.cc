#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/weights/array_pickle.h"

using namespace ramet::tests;
using namespace std::string_literals;

namespace {

std::string sample(const std::string& name) {
  return ramet::read_file(std::string(RAMET_SOURCE_DIR) + "/tests/samples/graphs/ind.tiny." + name);
}

}  // namespace

RAMET_FUZZ_TARGET(array_pickle, std::string_view input) {
  try {
    const weights::PickledRows rows = weights::read_sparse_pickle(input, "x");
    for (const int64_t column : rows.columns)
      if (column < 0 || column >= rows.columns_count) internal_error("array_pickle", "a column outside the matrix");
    if (rows.pointers.back() != std::ssize(rows.columns)) internal_error("array_pickle", "rows that do not cover");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kFailure) throw;
  }
  try {
    const weights::PickledArray array = weights::read_array_pickle(input, "y");
    for (int64_t i = 0; i < array.elements(); ++i) static_cast<void>(array.real(i)), static_cast<void>(array.whole(i));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kFailure) throw;
  }
  weights::read_lists_pickle(input, "graph");
}

RAMET_FUZZ_SEEDS(array_pickle) {
  return {.inputs = {sample("allx"), sample("y"), sample("graph")},
          .words = {"q\x00"s,
                    "h\x00"s,
                    "K\x02",
                    "\x85",
                    "\x86",
                    "\x87",
                    "(",
                    "t",
                    "u",
                    "R",
                    "\x81",
                    "b",
                    ".",
                    "]",
                    "}",
                    ")",
                    "cos\nsystem\n",
                    "cnumpy\ndtype\n",
                    "U\x02"
                    "f8",
                    "U\x01>",
                    "J\xff\xff\xff\x7f",
                    "cscipy.sparse.csr\ncsr_matrix\n",
                    "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"}};
}

#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"
#include "support/npy_file.h"

using namespace ramet::tests;

namespace {

constexpr const char* kFiles[] = {"z", "pos", "ptr", "y", "index"};

}  // namespace

RAMET_FUZZ_TARGET(qm9, std::string_view input) {
  const std::filesystem::path folder = fuzz::empty_folder("qm9");
  const auto parts = fuzz::parts_of(input, std::size(kFiles));
  for (size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty()) write_file_atomic(folder / (std::string(kFiles[i]) + ".npy"), std::string(parts[i]));
  fuzz::check_tables(graphs::read_qm9(folder));
}

RAMET_FUZZ_SEEDS(qm9) {
  return {.inputs = {fuzz::join_parts({npy_of<uint8_t>("|u1", "(3,)", {8, 1, 1}),
                                       npy_of<float>("<f4", "(3, 3)", {0, 0, 0, 1, 0, 0, 0, 1, 0}),
                                       npy_of<int64_t>("<i8", "(3,)", {0, 2, 3}),
                                       npy_of<double>("<f8", "(2, 2)", {0.5, -1, 2, 3}),
                                       npy_of<int32_t>("<i4", "(2,)", {7, 9})}),
                     fuzz::join_parts({npy_of<uint8_t>("|u1", "(1,)", {2}), npy_of<float>("<f4", "(1, 3)", {0, 0, 0}),
                                       npy_of<double>("<f8", "(2,)", {0, 1}), npy_of<double>("<f8", "(1, 1)", {1})})},
          .words = {"\x1e", "'<f8'", "'<i4'", "'|u1'", "(3,)", "(2, 2)", "(0,)", "(9223372036854775807,)"}};
}

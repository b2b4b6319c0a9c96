#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(graph_npz, std::string_view input) { fuzz::check_tables(graphs::read_npz(fuzz::as_file(input))); }

RAMET_FUZZ_SEEDS(graph_npz) {
  const std::string folder = std::string(RAMET_SOURCE_DIR) + "/tests/samples/graphs/";
  return {.inputs = {read_file(folder + "objects.npz"), read_file(folder + "parts.npz")},
          .words = {"adj_matrix", "attr_data", "labels", "PK\x01\x02", "PK\x05\x06"}};
}

#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(planetoid, std::string_view input) {
  const auto parts = fuzz::parts_of(input, 7);
  fuzz::check_tables(
      graphs::parse_planetoid({parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6]}, "input"));
}

RAMET_FUZZ_SEEDS(planetoid) {
  std::vector<std::string> parts;
  for (const char* name : {"tx", "allx", "y", "ty", "ally", "graph", "test.index"})
    parts.push_back(read_file(std::string(RAMET_SOURCE_DIR) + "/tests/samples/graphs/ind.tiny." + name));
  return {.inputs = {fuzz::join_parts(parts)},
          .words = {"\x1e", "4\n", "2147483646\n", "K\x05", "]", "}", "csr_matrix"}};
}

#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(sdf, std::string_view input) { fuzz::check_tables(graphs::parse_sdf(input, "input")); }

RAMET_FUZZ_SEEDS(sdf) {
  return {.inputs = {read_file(std::string(RAMET_SOURCE_DIR) + "/tests/samples/graphs/two.sdf")},
          .words = {"M  END\n", "$$$$\n", "M  CHG  1   1  -1\n", ">  <y>\n", "V3000", "999", "  0", " -1"}};
}

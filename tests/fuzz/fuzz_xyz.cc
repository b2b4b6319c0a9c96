#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(xyz, std::string_view input) { fuzz::check_tables(graphs::parse_xyz(input, "input")); }

RAMET_FUZZ_SEEDS(xyz) {
  return {.inputs = {"2\nwater without one\nO 0 0 0\nH 0.96 0 1e-3\n1\n\nHe 0 0 0\n"},
          .words = {"\n", " ", "-1", "99999999", "nan", "1e400", "Xx", "Og"}};
}

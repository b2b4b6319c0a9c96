#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(graph_set, std::string_view input) {
  const std::filesystem::path path = fuzz::as_file(input);
  fuzz::check_tables(GraphSet::open(path).tables());
}

RAMET_FUZZ_SEEDS(graph_set) {
  const std::filesystem::path folder = fuzz::empty_folder("graph_set");
  GraphSet(graphs::parse_tu({"1, 2\n2, 1\n3, 3\n", "1\n1\n2\n", "1\n-1\n", "", "0\n1\n0\n", "", "", ""}, "x"), "x")
      .save(folder / "x.safetensors");
  return {.inputs = {read_file(folder / "x.safetensors")},
          .words = {"\"edges\"", "\"nodes\"", "\"fields\"", "\"per\"", "node", "graph", "\"missing\": true", "-1", "[",
                    "]"}};
}

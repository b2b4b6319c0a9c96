#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(triples, std::string_view input) {
  const auto parts = fuzz::parts_of(input, 2);
  fuzz::check_tables(graphs::parse_triples({{"train", parts[0], "train.txt"}, {"test", parts[1], "test.txt"}}));
}

RAMET_FUZZ_SEEDS(triples) {
  return {.inputs = {"a\tr\tb\nb\ts\ta\r\n\x1e"
                     "a\tr\tc\n"},
          .words = {"\t", "\n", "\r\n", "\x1e", "a"}};
}

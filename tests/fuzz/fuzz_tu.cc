#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(tu, std::string_view input) {
  const auto parts = fuzz::parts_of(input, 9);
  GraphTables tables =
      graphs::parse_tu({parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7]}, "input");
  if (!parts[8].empty()) graphs::add_folds(tables, parts[8], "folds");
  fuzz::check_tables(std::move(tables));
}

RAMET_FUZZ_SEEDS(tu) {
  return {.inputs = {fuzz::join_parts({"1, 2\n2, 1\n3, 3\n", "1\n1\n3\n", "1\n-1\n1\n", "", "0\n1\n0\n",
                                       "0.5, 1\n2, 3\n4, 5\n", "1\n1\n2\n", "",
                                       "[{\"test\": [0], \"model_selection\": [{\"train\": [1], "
                                       "\"validation\": [2]}]}]"})},
          .words = {"\x1e", ", ", "\r\n", "-1", "2147483647", "nan", "1e999", "\"test\"", "[", "{"}};
}

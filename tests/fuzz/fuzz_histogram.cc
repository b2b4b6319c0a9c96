#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/text/packing.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(histogram, std::string_view input) {
  const LengthHistogram histogram = parse_histogram(input, "input");
  if (histogram.row() > 2000) return;  // what follows takes time with the row
  for (const PackingAlgorithm algorithm :
       {PackingAlgorithm::kSpfhp, PackingAlgorithm::kLpfhp, PackingAlgorithm::kNnlshp}) {
    if (algorithm == PackingAlgorithm::kNnlshp && histogram.row() > 40) continue;
    for (const int64_t depth : {1, 3, 0}) {
      if (depth == 0 && algorithm == PackingAlgorithm::kNnlshp) continue;
      const Packing packing = pack_histogram(histogram, algorithm, depth);
      if (packing.sequences() != histogram.sequences() || packing.tokens() != histogram.tokens())
        internal_error("histogram", "a sequence was lost or came twice");
      if (depth > 0 && packing.deepest() > depth) internal_error("histogram", "a pack is too deep");
      for (const PackKind& kind : packing.kinds) {
        int64_t tokens = 0;
        for (const int32_t length : kind.lengths) tokens += length;
        if (tokens > histogram.row()) internal_error("histogram", "a pack is too long");
      }
    }
  }
}

RAMET_FUZZ_SEEDS(histogram) {
  return {.inputs = {"length\tcount\n1\t3\n2\t0\n5\t40\n16\t7\n", "1 1099511627776\n30 5\n", "3\t2\r\n\r\n7\t1", "x\n"},
          .words = {"length\tcount\n", "\t", "\n", "1048576", "1099511627776", "0", "-1", "1e3"}};
}

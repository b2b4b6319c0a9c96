#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/graphs/transform.h"

using namespace ramet::tests;

/// Parts of a graph of five nodes, a line each.
RAMET_FUZZ_TARGET(partition, std::string_view input) {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 1;
  tables.nodes[0].ptr = {0, 5};
  tables.edges[0].ptr = {0, 2};
  tables.edges[0].source = {0, 4};
  tables.edges[0].target = {1, 2};
  graphs::read_partition(tables, "edge", input, "input");
  const graphs::FieldTable* const part = tables.find("node.part");
  if (!part) internal_error("partition", "a file was accepted, and gave no parts");
  for (int64_t node = 0; node < 5; ++node)
    if (const double number = field_number(part->field, part->bytes, node); number < 0 || number >= 5)
      internal_error("partition", "a part that cannot be was accepted");
  fuzz::check_tables(std::move(tables));
}

RAMET_FUZZ_SEEDS(partition) {
  return {.inputs = {"0\n1\n0\n2\n4\n", "0\r\n\r\n1\r\n1\r\n1\r\n0"},
          .words = {"\n", "\r\n", "-1", "5", "4", "2147483648", " ", "+", "0x1"}};
}

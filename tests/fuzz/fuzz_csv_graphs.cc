#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/base/file.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(csv_graphs, std::string_view input) {
  const auto parts = fuzz::parts_of(input, 3);
  fuzz::check_tables(graphs::parse_csv_graphs({parts[0], parts[1], parts[2]}, "input"));
}

RAMET_FUZZ_SEEDS(csv_graphs) {
  return {
      .inputs = {fuzz::join_parts({"graph,source,target,w\n1,a,b,0.5\n1,b,a,\n2,c,c,1\n",
                                   "graph,node,kind,size\n1,a,\"x, y\",1\n1,b,z,2\n2,c,z,3\n", "graph,y\n1,0\n2,1\n"}),
                 "source,target\n0,1\n"},
      .words = {"\x1e", ",", "\"", "\"\"", "\r\n", "source", "target", "graph", "node", "\n"}};
}

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// How many of something graphs have.
struct Sizes {
  int64_t total = 0, least = 0, most = 0;
  int64_t most_graph = 0;  ///< the first graph with the most
  double mean = 0;
};
struct EdgeSummary {
  std::string key;
  Sizes sizes;
  int64_t self_loops = 0;
  int64_t duplicates = 0;  ///< edges behind the first of one source and one target
  bool symmetric = false;  ///< whether every edge has its reverse; false between nodes of two types
  int64_t most_in = 0;     ///< the most edges that end in one node
};
struct NodeSummary {
  std::string type;
  Sizes sizes;
  int64_t isolated = 0;  ///< nodes without any edge
};
struct GraphSummary {
  int64_t graphs = 0;
  int64_t empty = 0;  ///< graphs without nodes
  std::vector<NodeSummary> nodes;
  std::vector<EdgeSummary> edges;
};
/// Reads all edges once.
GraphSummary summarise(const GraphSet& set);
/// Sizes by a table of beginnings.
Sizes sizes_of(std::span<const int64_t> ptr);
/// "f32[1433]": type and shape of a value.
std::string type_text(const Field& field);

}  // namespace ramet::graphs

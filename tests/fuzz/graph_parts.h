#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/graphs/graph_set.h"

/// Helpers of the targets that read graphs.
namespace ramet::tests::fuzz {

/// The pieces of an input between bytes 0x1e; empty ones where there are fewer than `count`.
inline std::vector<std::string_view> parts_of(std::string_view input, size_t count) {
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = std::min(input.find('\x1e'), input.size());
    parts.push_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return parts;
}

inline std::string join_parts(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() && &part == &parts[0] ? "" : "\x1e") + part;
  return joined;
}

/// Tables that a reader accepted make a set, or are refused with an Error; an accepted set's edges lie in their graphs.
inline void check_tables(GraphTables tables) {
  const GraphSet set(std::move(tables), "input");
  for (size_t type = 0; type < set.edge_types().size(); ++type) {
    const auto nodes = set.node_ptr(set.node_type(set.edge_types()[type].source));
    for (size_t g = 0; g < static_cast<size_t>(set.graphs()); ++g)
      for (auto e = static_cast<size_t>(set.edge_ptr(type)[g]); e < static_cast<size_t>(set.edge_ptr(type)[g + 1]); ++e)
        if (set.sources(type)[e] < 0 || set.sources(type)[e] >= nodes[g + 1] - nodes[g])
          internal_error("graphs", "an edge outside its graph was accepted");
  }
}

}  // namespace ramet::tests::fuzz

#include "ramet/graphs/summary.h"

#include <algorithm>

namespace ramet::graphs {
namespace {

/// Whether edge source -> target is among the edges of a graph, which are sorted by target and source.
bool has_edge(std::span<const int32_t> sources, std::span<const int32_t> targets, int32_t source, int32_t target) {
  const auto [begin, end] = std::equal_range(targets.begin(), targets.end(), target);
  return std::binary_search(sources.begin() + (begin - targets.begin()), sources.begin() + (end - targets.begin()),
                            source);
}

EdgeSummary summarise_edges(const GraphSet& set, size_t type, std::vector<std::vector<bool>>& touched) {
  const EdgeType& edge = set.edge_types()[type];
  EdgeSummary summary{.key = edge.key(), .sizes = sizes_of(set.edge_ptr(type))};
  const size_t from = set.node_type(edge.source), to = set.node_type(edge.target);
  summary.symmetric = from == to;
  for (size_t g = 0; g < static_cast<size_t>(set.graphs()); ++g) {
    const auto begin = static_cast<size_t>(set.edge_ptr(type)[g]),
               count = static_cast<size_t>(set.edge_ptr(type)[g + 1]) - begin;
    const auto sources = set.sources(type).subspan(begin, count), targets = set.targets(type).subspan(begin, count);
    int64_t in = 0;
    for (size_t e = 0; e < count; ++e) {
      const bool same_target = e > 0 && targets[e] == targets[e - 1];
      in = same_target ? in + 1 : 1;
      summary.most_in = std::max(summary.most_in, in);
      if (same_target && sources[e] == sources[e - 1]) ++summary.duplicates;
      if (from == to && sources[e] == targets[e]) ++summary.self_loops;
      if (summary.symmetric) summary.symmetric = has_edge(sources, targets, targets[e], sources[e]);
      touched[from][static_cast<size_t>(set.node_ptr(from)[g] + sources[e])] = true;
      touched[to][static_cast<size_t>(set.node_ptr(to)[g] + targets[e])] = true;
    }
  }
  return summary;
}

}  // namespace

Sizes sizes_of(std::span<const int64_t> ptr) {
  Sizes sizes{.total = ptr.back(), .least = INT64_MAX};
  for (size_t g = 0; g + 1 < ptr.size(); ++g) {
    const int64_t count = ptr[g + 1] - ptr[g];
    sizes.least = std::min(sizes.least, count);
    if (count > sizes.most) sizes.most = count, sizes.most_graph = static_cast<int64_t>(g);
  }
  sizes.mean = static_cast<double>(sizes.total) / static_cast<double>(ptr.size() - 1);
  return sizes;
}

GraphSummary summarise(const GraphSet& set) {
  GraphSummary summary{.graphs = set.graphs(), .empty = 0, .nodes = {}, .edges = {}};
  std::vector<std::vector<bool>> touched;
  for (size_t type = 0; type < set.node_types().size(); ++type)
    touched.emplace_back(static_cast<size_t>(set.node_ptr(type).back()));
  for (size_t type = 0; type < set.edge_types().size(); ++type)
    summary.edges.push_back(summarise_edges(set, type, touched));
  for (size_t type = 0; type < set.node_types().size(); ++type)
    summary.nodes.push_back({set.node_types()[type], sizes_of(set.node_ptr(type)),
                             std::count(touched[type].begin(), touched[type].end(), false)});
  for (size_t g = 0; g < static_cast<size_t>(set.graphs()); ++g) {
    bool any = false;
    for (size_t type = 0; type < set.node_types().size(); ++type)
      any = any || set.node_ptr(type)[g + 1] > set.node_ptr(type)[g];
    if (!any) ++summary.empty;
  }
  return summary;
}

std::string type_text(const Field& field) {
  return std::string(name_of(field.dtype)) + (field.shape.rank() == 0 ? "" : field.shape.text());
}

}  // namespace ramet::graphs

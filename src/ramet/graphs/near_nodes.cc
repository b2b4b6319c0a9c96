#include "ramet/graphs/near_nodes.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ramet::graphs {
namespace {

/// Calls `act(graph, first node, nodes)` for each graph of a pack.
template <typename Act>
void for_graphs_of(const PackContents& pack, const Act& act) {
  for (size_t g = 0; g + 1 < pack.graph_ptr.size(); ++g)
    act(static_cast<int64_t>(g), pack.graph_ptr[g], pack.graph_ptr[g + 1] - pack.graph_ptr[g]);
}

}  // namespace

int64_t most_nodes(const GraphSet& set) {
  int64_t most = 1;
  const auto ptr = set.node_ptr(0);
  for (size_t g = 0; g < static_cast<size_t>(set.graphs()); ++g) most = std::max(most, ptr[g + 1] - ptr[g]);
  return most;
}

void fill_places(const PackContents& pack, int64_t most, std::span<int32_t> place, std::span<int32_t> node_at,
                 std::span<int32_t> taken) {
  for (const auto& list : {place, node_at, taken}) std::fill(list.begin(), list.end(), 0);
  for_graphs_of(pack, [&](int64_t graph, int32_t first, int32_t nodes) {
    for (int32_t i = 0; i < nodes; ++i) {
      const auto at = static_cast<size_t>(graph * most + i);
      place[static_cast<size_t>(first + i)] = static_cast<int32_t>(at);
      node_at[at] = first + i;
      taken[at] = 1;
    }
  });
}

void fill_hops(const PackContents& pack, int64_t most, int64_t limit, std::span<int32_t> hops) {
  std::fill(hops.begin(), hops.end(), 0);
  // Edges ascend by target, so those that end in a node are a run.
  std::vector<size_t> begin(pack.nodes.size() + 1);
  for (const int32_t target : pack.target) ++begin[static_cast<size_t>(target) + 1];
  for (size_t i = 0; i + 1 < begin.size(); ++i) begin[i + 1] += begin[i];
  std::vector<int32_t> front;
  for_graphs_of(pack, [&](int64_t graph, int32_t first, int32_t nodes) {
    for (int32_t query = 0; query < nodes; ++query) {
      int32_t* const row = hops.data() + (graph * most + query) * most;
      front.assign(1, query);
      row[query] = 1;
      for (size_t at = 0; at < front.size(); ++at) {
        const int32_t node = front[at], next = row[node] + 1;
        if (next > limit + 1) break;
        for (size_t e = begin[static_cast<size_t>(first + node)]; e < begin[static_cast<size_t>(first + node) + 1];
             ++e) {
          const int32_t source = pack.source[e] - first;
          if (row[source] == 0) row[source] = next, front.push_back(source);
        }
      }
      for (int32_t key = 0; key < nodes; ++key)
        if (row[key] == 0) row[key] = static_cast<int32_t>(limit + 2);
    }
  });
}

void fill_distances(const GraphSet& set, size_t field, const PackContents& pack, int64_t most,
                    std::span<float> distances) {
  std::fill(distances.begin(), distances.end(), -1.0f);
  const Field& of = set.fields()[field];
  const int64_t width = of.shape.elements();
  const auto number = [&](int32_t node, int64_t k) {
    return field_number(of, set.bytes(field), pack.nodes[static_cast<size_t>(node)] * width + k);
  };
  for_graphs_of(pack, [&](int64_t graph, int32_t first, int32_t nodes) {
    for (int32_t i = 0; i < nodes; ++i)
      for (int32_t j = 0; j < nodes; ++j) {
        double square = 0;
        for (int64_t k = 0; k < width; ++k) {
          const double apart = number(first + i, k) - number(first + j, k);
          square += apart * apart;
        }
        if (!std::isnan(square))
          distances[static_cast<size_t>((graph * most + i) * most + j)] = static_cast<float>(std::sqrt(square));
      }
  });
}

}  // namespace ramet::graphs

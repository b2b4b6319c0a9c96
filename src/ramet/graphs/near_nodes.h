#pragma once

#include <cstdint>
#include <span>

#include "ramet/graphs/graph_set.h"
#include "ramet/graphs/packs.h"

namespace ramet::graphs {

// How far the nodes of each graph of a pack are apart. Graphs stand in places of equal size, so that an attention reads
// each as a square: node i of graph g has place g M + i, with M the most nodes of a graph.

/// The most nodes of a graph of a set.
int64_t most_nodes(const GraphSet& set);

/// The place of each node (0 behind the last one), the node of each place (0 where there is none), and 1 where there is
/// one: [nodes], [graphs M] and [graphs M].
void fill_places(const PackContents& pack, int64_t most, std::span<int32_t> place, std::span<int32_t> node_at,
                 std::span<int32_t> taken);

/// For query i and key j of a graph 1 + the fewest edges on a way from j to i, as messages go; `limit` + 2 where there
/// are more than `limit`, or no way; 0 where there is no node: [graphs, M, M].
void fill_hops(const PackContents& pack, int64_t most, int64_t limit, std::span<int32_t> hops);

/// Distances of the positions, a field of nodes; -1 where there is no node, or no position (NaN): [graphs, M, M].
void fill_distances(const GraphSet& set, size_t field, const PackContents& pack, int64_t most,
                    std::span<float> distances);

}  // namespace ramet::graphs

#pragma once

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Clusters of the graph that a model reads in parts: the extent of dimension 0 of the data inputs whose axis is
/// "clusters"; 0 where there are none.
int64_t clusters_of(const Graph& graph);

/// Defines the order of sums over the clusters of a graph (ops/halo.h): each cluster's own sum first, then a balanced
/// tree over the clusters. Layouts may then deal clusters to devices in any way. Sums and products that sum over the
/// clusters become a sum for each cluster and one `reduce_sum` with as many chunks as there are clusters. Ops that sum
/// over clusters in another way stay as they are; a layout gathers their operands. The pass follows the clusters from
/// the data inputs through the ops' sharding rules, and changes nothing in a graph without clusters. Running it twice
/// changes nothing. Must run before `set_chunks`, which keeps the chunks that it set.
Graph set_cluster_sums(const Graph& graph);

}  // namespace ramet::transform

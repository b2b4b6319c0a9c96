#pragma once

#include <cstdint>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/layout/layout.h"

namespace ramet::layout {

/// The clusters of a graph in the order of the layout's g devices, as many for each: Layout::deal says how.
///  - "order": runs of clusters in order;
///  - "near": each device takes the least cluster that is left, then the clusters that read most rows of those that it
///    has, and of which they read most; of equal ones the least;
///  - "random:SEED": drawn without regard to the graph;
///  - "3+0+...": the numbers themselves.
/// Throws Error, naming the key, where the numbers are not each cluster once or g does not divide them.
std::vector<int64_t> deal_clusters(const Graph& graph, const Layout& layout);

}  // namespace ramet::layout

#pragma once

#include "ramet/base/house.h"

#include "ramet/ir/graph.h"

namespace ramet::front {

/// A graph with fused ops in place of groups of nodes that compute the same: GELU in both forms, RMS norm and layer
/// norm over the last dimension with their gains and biases. The patterns are those of traced programs
/// (front/patterns.h), which see the graph's nodes as calls. A group is replaced only where nothing else reads its
/// inner values.
Graph fuse_graph(const Graph& graph);

/// The same, and batch norms with fixed statistics behind convolutions become factors of the filters and terms of the
/// biases. For programs that are not differentiated.
Graph fuse_for_prediction(const Graph& graph);

}  // namespace ramet::front

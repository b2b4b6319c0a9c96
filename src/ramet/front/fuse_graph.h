#pragma once

#include "ramet/base/house.h"

#include "ramet/front/graph_calls.h"

namespace ramet::front {

/// A graph with fused ops in place of groups of nodes that compute the same. The patterns are those of traced programs
/// (front/patterns.h), which see the graph's nodes as calls: attention, heads of keys that are repeated, rotary
/// positions, GELU, and norms over the last dimension. A group is replaced only where nothing else reads its inner
/// values. Another softmax behind which a select chooses gets a gradient of 0 where all of a row is hidden.
/// `constants`: values of states that no training changes, so that tables of rotary positions are recognised.
Graph fuse_graph(const Graph& graph, const GraphConstants& constants = {});

/// The same, and batch norms with fixed statistics behind convolutions become factors of the filters and terms of the
/// biases. For programs that are not differentiated.
Graph fuse_for_prediction(const Graph& graph, const GraphConstants& constants = {});

}  // namespace ramet::front

#pragma once

#include "ramet/ir/graph.h"
#include "ramet/transform/merge_maps.h"

namespace ramet::transform {

/// Makes one `edge_map` (ops/edge_map.h) of maps over edges, of what reads rows for them (`segment_expand`, `take` of
/// rows) and of the sums that they end in (`segment_sum`, `put` that adds rows to zeros), so that messages of edges x
/// features never exist. What the forward pass computed for edges is computed again in the backward pass where the rows
/// that it is made of take fewer bytes than it does. Edges of few features stay as they are. No bit changes. Runs
/// behind `merge_maps`, for backends that gain by it.
Graph fold_messages(const Graph& graph, const MergeLimits& limits = {});

}  // namespace ramet::transform

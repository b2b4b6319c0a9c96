#pragma once

#include "ramet/ir/graph.h"

namespace ramet {

/// The same graph computing in `compute` (bf16 or f16) where the ops' precision policies (OpDef::precision) allow:
/// casts are put on the floating inputs of matrix products and attention, f32 stays in losses, statistics and weights
/// (whose casts `hoist` then does once an update). Results of the graph keep their types. With f32 the graph comes back
/// as it was.
Graph lower_precision(const Graph& graph, DType compute);

}  // namespace ramet

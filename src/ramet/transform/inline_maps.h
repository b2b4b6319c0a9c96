#pragma once

#include "ramet/ir/graph.h"
#include "ramet/transform/merge_maps.h"

namespace ramet::transform {

/// Values that a map or an element-wise node makes with few operations from one tensor of their own size (and smaller
/// ones, such as biases) are no longer written where only such nodes read them: each reader makes the value again from
/// that tensor, which it reads instead. So a batch norm keeps the product in front of it, not what it makes of it for
/// its gradient. No reader reads more tensors of that size than before. Changes no bit: the same operations in f32.
/// Behind merge_maps, for backends that gain by it; nodes that draw random bits stay as they are.
Graph inline_maps(const Graph& graph, const MergeLimits& limits = {});

}  // namespace ramet::transform

#pragma once

#include "ramet/ir/graph.h"

namespace ramet::transform {

struct MergeLimits {
  int inputs = 12;  ///< of one map: bounds the streams that a kernel reads at once
  int steps = 40;   ///< of one map
};

/// Merges maps, element-wise nodes, sums over rows and broadcasts (ops/map_role.h) into fewer maps, so that values
/// which only these nodes read never exist as tensors: a batch norm's sums are made by the loops that make their terms.
/// Unlike `fuse`, it changes no bit: a value of 16 bits is rounded inside of a map too. So it runs behind all passes
/// that decide bits or layouts, for backends that gain by it. Nodes that draw random bits stay as they are. No map
/// reaches over two parts, or over two passes of a step. An output that nobody reads is dropped, with what it alone
/// needs: a map that is computed again for the backward pass has one output in use.
Graph merge_maps(const Graph& graph, const MergeLimits& limits = {});

}  // namespace ramet::transform

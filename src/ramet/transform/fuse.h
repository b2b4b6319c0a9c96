#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

struct FuseLimits {
  int inputs = 8;  ///< of one map: bounds the streams that a kernel reads at once
  int steps = 24;  ///< of one map: bounds the block values that must stay in the first-level cache
};

/// Joins chains of element-wise nodes over one iteration space into `map` nodes (ops/map_program.h): a producer joins
/// its consumers' program; a value that other nodes read too becomes an output of the map, when all of these nodes run
/// after the map. Inside a map, values stay f32; they are rounded at the map's outputs only. So fusing decides bits,
/// and it always runs, before any pass that knows of layouts.
Graph fuse(const Graph& graph, const FuseLimits& limits = {});
StepGraph fuse(StepGraph step);

}  // namespace ramet::transform

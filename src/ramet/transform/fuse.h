#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

struct FuseLimits {
  int inputs = 8;  ///< of one map: bounds the streams that a kernel reads at once
  int steps = 24;  ///< of one map: bounds the block values that must stay in the first-level cache
};

/// Joins chains of element-wise nodes over one iteration space into `map` nodes (DESIGN, fusion without a code
/// generator): a producer joins its consumers' program; a value that others read too becomes an output of the map, when
/// they all run after it. Inside a map values stay f32 and are rounded at its outputs only, so fusing belongs to what
/// the recipe means: it runs always, before anything knows of layouts.
Graph fuse(const Graph& graph, const FuseLimits& limits = {});
StepGraph fuse(StepGraph step);

}  // namespace ramet::transform

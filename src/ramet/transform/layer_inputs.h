#pragma once

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Whether a node is a little work to do again: by its kind, or because it makes much of little (a convolution of one
/// channel into many).
bool is_cheap(const Graph& graph, NodeId id);

/// Gives cheap nodes at the end of a layer to the layer that reads what they make, where they make it from one tensor
/// that is no larger and that the backward pass reads anyway: the norm behind a layer's last sum, the activation behind
/// its convolution. That tensor is then what waits between the layers, and a layer that is computed again neither keeps
/// both nor computes it again. For recompute(), of steps whose layers are not cut apart: no node changes but in its
/// part.
Graph with_late_inputs(const Graph& micro);

}  // namespace ramet::transform

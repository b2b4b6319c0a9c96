#pragma once

#include <string_view>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Whether the model says what the dimensions of some data input mean.
bool declares_axes(const Graph& graph);

/// For each value, the dimension that runs along an axis of the data ("positions"), or -1: from the data inputs that
/// have it on, as the ops' sharding rules carry dimensions. A dimension that joins several axes runs along none, until
/// it is taken apart again.
std::vector<int> dims_along(const Graph& graph, std::string_view axis);

}  // namespace ramet::transform

#pragma once

#include <string_view>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Whether the model says for any data input what its dimensions mean.
bool declares_axes(const Graph& graph);

/// For each value, the dimension that runs along an axis of the data ("positions"), or -1. The search starts at the
/// data inputs that have the axis and follows dimensions through the ops' sharding rules. A dimension that joins
/// several axes runs along none of them, until a reshape separates them again.
std::vector<int> dims_along(const Graph& graph, std::string_view axis);

}  // namespace ramet::transform

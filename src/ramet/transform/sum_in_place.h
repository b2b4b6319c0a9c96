#pragma once

#include <functional>
#include <string>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Nodes whose result is only added to a sum add to it themselves, so that a weight's gradient never exists beside its
/// accumulator: those of ops with the attribute `accumulate`, which makes a further, last input of output 0's type be added
/// to output 0, with the bits of a node `add` behind it (what such a node does not touch may stay as it is). Sums are
/// states that start at zero, which `is_sum` knows by name, and their next values. No bit changes.
Graph sum_in_place(const Graph& graph, const std::function<bool(const std::string& state)>& is_sum);

}  // namespace ramet::transform

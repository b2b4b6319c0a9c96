#pragma once

#include <functional>
#include <string>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Lets nodes whose result is only added to a sum add to that sum themselves, so that a weight's gradient never exists
/// beside its accumulator. This concerns ops with the attribute `accumulate`: with it, the op takes one more, last
/// input of output 0's type and adds it to output 0, with the bits that a node `add` behind the op would give. Elements
/// that such a node does not touch may stay as they are. A sum is a state that starts at zero (`is_sum` tells by its
/// name), or the next value of one. No bit changes.
Graph sum_in_place(const Graph& graph, const std::function<bool(const std::string& state)>& is_sum);

}  // namespace ramet::transform

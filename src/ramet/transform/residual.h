#pragma once

#include <map>
#include <set>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// A sum x + f(x) in a graph.
struct Residual {
  size_t branch = 1;       ///< which input of the sum is f(x)
  int sum = 0;             ///< number of the running sum x + f(x) + g(x + f(x)) + ... that it is a part of
  int64_t index = 0;       ///< place in the running sum, from 0
  std::set<NodeId> nodes;  ///< that compute f(x) from x
};

/// The residuals of a graph, by the node of the sum (an op whose scaling rule has `sum`). A running sum ends at any
/// node other than a change of form or dropout, as a norm.
std::map<NodeId, Residual> find_residuals(const Graph& graph);

}  // namespace ramet::transform

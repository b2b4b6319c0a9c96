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
  std::set<NodeId> nodes;  ///< that make f(x) of x
};

/// The residuals of a graph, by the node of the sum (an op whose scaling rule says that it is one). A running sum ends
/// where something else than a change of form or dropout is done to it, as a norm.
std::map<NodeId, Residual> find_residuals(const Graph& graph);

}  // namespace ramet::transform

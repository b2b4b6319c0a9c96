#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Logical axes that a graph implies for states.
struct InferredAxes {
  std::map<std::string, std::vector<LogicalAxis>> states{};  ///< by name; states without axes are left out
  TensorAxes shards{};                                       ///< of names that default_tensor_axes() does not have
  /// By axis: into how many parts its dimensions fall at most, where that is less than their extent: {"heads", 12}.
  std::map<std::string, int64_t> units{};
};

/// Finds along which dimensions of its states layouts can cut a forward graph among tensor shards.
///
/// The search follows a dimension of a weight through the ops' sharding rules, in both directions. All dimensions that
/// it meets are cut together: they are a *chain*. A chain of t1 begins and ends at products with weights and passes
/// through no op that needs the dimension whole: x W1 (columns), element by element or by heads, and y W2 (rows) as in
/// Shoeybi et al. 2019 (arXiv 1909.08053). Biases, norms of channels and tables of biases belong to the chain that they
/// meet. Fused weights are cut in blocks. The rows of tables of words, and the products that make their scores, are
/// chains of their own. Where chains cut one node in two ways, those are taken that cover most of the weights. Of the
/// other dimensions, those that join several products ("embed") are cut over t2.
///
/// The names are "heads" where an op divides the dimension further, "channels" of filters, "vocab" of tables, "mlp" of
/// others. No names of nodes or states are read.
InferredAxes infer_axes(const Graph& forward);

}  // namespace ramet::transform

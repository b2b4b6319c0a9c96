#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/ir/graph.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Runs a graph node by node with `backend`'s kernels, each value in memory of its own until its last use: for tests
/// and constant folding, not for speed. `feeds` holds one tensor for each graph input, by name; throws Error on a
/// missing one or one of another type. Returns the graph's outputs in order.
std::vector<HostTensor> interpret(const Graph& graph, const Backend& backend,
                                  const std::map<std::string, HostTensor>& feeds, int threads = 1);

/// Runs one node alone. `kernel` names one of the backend's kernels for the op; empty: the one it chooses.
std::vector<HostTensor> interpret_node(const NodeSignature& node, const Backend& backend,
                                       const std::vector<HostTensor>& inputs, int threads = 1,
                                       const std::string& kernel = "");

}  // namespace ramet::kernel

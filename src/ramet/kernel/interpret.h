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

/// The graph's function in exact arithmetic, as far as double is: floating values are f64 between the reference
/// kernels, and roundings to other types are left out. For finite differences. `feeds` holds f64 in place of floating
/// types. `exact` becomes false where a node has no reference kernel; that node runs with its own types.
std::vector<HostTensor> interpret_in_double(const Graph& graph, const std::map<std::string, HostTensor>& feeds,
                                            bool& exact);

}  // namespace ramet::kernel

#pragma once

#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::program {

/// A static order of a graph's nodes and what it was found by.
struct Schedule {
  std::vector<NodeId> order;  ///< every node once, views too
  int64_t peak_bytes = 0;     ///< most transient bytes alive at one node, by the scheduler's own count
  std::string method;         ///< "graph", "early", "late sources", "greedy"
};

/// The order of a small portfolio with the lowest peak; the graph's own order wins ties.
///  - graph: as the nodes stand
///  - early: as they stand, but what frees at least what it takes goes as soon as it can, updates of weights among it,
///  so that
///    gradients die young
///  - late sources: early, and what needs only states or scalars goes right before its first use
///  - greedy: always the ready node that frees most
/// A node that becomes a state's next value goes after all nodes that read the old one, so that it can be written in
/// its place.
Schedule schedule(const Graph& graph);

/// Most transient bytes alive at one node under an order. Views share their operand's bytes, next values of states
/// live in the state.
int64_t peak_of(const Graph& graph, const std::vector<NodeId>& order);

}  // namespace ramet::program

#pragma once

#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::program {

/// A static order of a graph's nodes, and the method that found it.
struct NodeOrder {
  std::vector<NodeId> order;  ///< every node once, views too
  int64_t peak_bytes = 0;     ///< most transient bytes live at one node, by the search's own count
  std::string method;         ///< "graph", "early", "late sources", "greedy"
};

/// The order with the lowest peak out of a small portfolio; the graph's own order wins ties.
///  - graph: the order of the graph
///  - early: the order of the graph, but a node that frees at least as many bytes as it takes runs as soon as it can.
///    Updates of weights are among these nodes, so gradients die young.
///  - late sources: early, and a node that needs only states or scalars runs right before its first use
///  - greedy: always the ready node that frees most
/// A node that computes a state's next value runs after all nodes that read the old value, so that it can be written
/// in its place.
NodeOrder find_order(const Graph& graph);

/// Most transient bytes live at one node under an order. Views share their operand's bytes, next values of states
/// live in the state.
int64_t peak_of(const Graph& graph, const std::vector<NodeId>& order);

}  // namespace ramet::program

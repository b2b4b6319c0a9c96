#pragma once

#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::program {

/// What finding an order must know of a graph, in flat arrays. A *root* is a value that is no view.
class OrderAnalysis {
 public:
  explicit OrderAnalysis(const Graph& graph) : graph(graph), nodes(graph.nodes().size()) {
    find_roots();
    find_edges();
  }

  /// Bytes that a root takes of the transient memory.
  int64_t bytes(ValueId root) const { return size_[static_cast<size_t>(root)]; }
  ValueId root(ValueId value) const { return root_[static_cast<size_t>(value)]; }
  bool is_view(NodeId id) const { return graph.node(id).op->is_view; }

  const Graph& graph;
  const size_t nodes;
  std::vector<std::vector<ValueId>> reads;      ///< distinct roots that a node reads
  std::vector<std::vector<NodeId>> successors;  ///< nodes that must follow
  std::vector<int32_t> predecessors;            ///< how many distinct edges lead to a node
  std::vector<std::vector<NodeId>> readers;     ///< nodes that read a root
  std::vector<bool> kept;                       ///< roots that live to the end (results, states' next values)
  std::vector<bool> external;                   ///< roots that are states: their bytes are always there

 private:
  void find_roots();
  void find_edges();
  void add_edge(NodeId from, NodeId to);

  std::vector<ValueId> root_;
  std::vector<int64_t> size_;
};

}  // namespace ramet::program

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/types.h"

namespace ramet::v0 {

/// Nodes and edges of graphs, without their features. Graph g has nodes [node_ptr[g], node_ptr[g + 1]) and edges
/// [edge_ptr[g], edge_ptr[g + 1]); node numbers of edges count from 0 in each graph.
struct GraphLists {
  std::vector<int64_t> node_ptr, edge_ptr;  ///< [graphs + 1]
  std::vector<int32_t> source, target;      ///< of each edge
  std::vector<int64_t> part{};              ///< of each node: its cluster, for "clusters:COUNT"; empty: none
};

/// Room for graphs, nodes and edges.
struct GraphRoom {
  int64_t graphs = 0, nodes = 0, edges = 0;
};

struct GraphPackOptions {
  /// How packs are made, as data.graphs.batch of a recipe says (docs/graphs.md): "count:32", "pad:32",
  /// "stream:256:608:32", "histogram:256:16:608", "neighbors:512:10,10", "clusters:4", "walks:1000:2".
  std::string batch = "count:1";
  std::vector<int64_t> members{};  ///< graphs, or nodes to begin at, that take part; empty: all
  GraphRoom room{};                ///< to make, and never to exceed; 0: what the packs need
  int64_t epochs = 0;              ///< of the run: the room is exact for them. 0: any number of epochs
  bool trim = false;               ///< whether what does not fit is left out; otherwise it is an Error
  bool shuffle = true;             ///< whether every epoch has a new order
  uint64_t seed = 0;
};

/// What one pack holds. Nodes and edges are rows of the arrays that the caller has of all nodes and edges.
struct GraphPack {
  std::vector<int64_t> graphs;          ///< numbers of the graphs
  std::vector<int32_t> graph_ptr;       ///< nodes of each of them, as GraphLists::node_ptr
  std::vector<int64_t> nodes, edges;    ///< rows
  std::vector<int32_t> source, target;  ///< of each edge: places in `nodes`; edges ascend by target
  int64_t seeds = -1;                   ///< the first `seeds` nodes are those that were sampled from; -1: all
  int64_t trimmed = 0;                  ///< edges that the room left out
};

/// Packs of graphs, or of parts of one graph: an endless sequence, epoch after epoch. Pack i is a pure function of the
/// lists, the options and i; all functions may be called from many threads at once. Cheap to copy.
class RAMET_API GraphPacks {
 public:
  /// Throws Error for lists that contradict each other, for what does not fit the room, and for options that such a
  /// batch does not take.
  GraphPacks(const GraphLists& lists, const GraphPackOptions& options);

  GraphPack pack(int64_t index) const;
  /// How many packs an epoch has.
  int64_t packs(int64_t epoch) const;
  /// Number of the first pack of an epoch.
  int64_t first(int64_t epoch) const;
  /// Room that every pack fits.
  GraphRoom room() const;
  /// Graphs that are in no pack, because they do not fit.
  int64_t skipped() const;

 private:
  struct RAMET_PRIVATE Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace ramet::v0

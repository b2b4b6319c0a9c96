#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/graphs/packs.h"

namespace ramet::graphs {

/// One graph cut in K clusters, with all edges. A cluster owns its nodes, which keep their order, and the edges that
/// end in them, in the global edge order. All clusters have room for the nodes and edges of the largest, so cluster k,
/// row i has the number k * rows + i.
///
/// An edge names the row that it comes from: an own row below `rows`, a *far* row of the cluster from there on. The far
/// rows of a cluster are rows of other clusters, each once, in order of their numbers. The same edges are also listed
/// by the row that they come from (`out`): by the cluster that owns that row, with far rows of its own, where edges of
/// one row keep the global edge order.
struct GraphCut {
  /// The edges of the clusters by one of their ends.
  struct List {
    int64_t edges = 0;  ///< room of a cluster
    HostTensor far;     ///< i32 [K, H]: numbers of the far rows; -1: none
    HostTensor other;   ///< i32 [K, edges]: of each edge its number k * edges + e in the other list
    std::vector<std::vector<int32_t>> index, ptr;  ///< of each cluster: rows at the other end; [rows + 1]
  };
  int64_t clusters = 0, rows = 0;
  std::vector<std::vector<int64_t>> nodes;  ///< of each cluster
  std::vector<std::vector<int64_t>> edges;  ///< that end in each cluster
  List in, out;
  int64_t far_rows = 0;   ///< of all clusters: rows that are needed elsewhere, once a cluster that needs them
  int64_t cut_edges = 0;  ///< between two clusters

  int64_t host_bytes() const;  ///< of these tables
};

/// Cuts the graph of a set by a field of nodes, whole numbers from 0. Throws Error for a set of more than one graph,
/// for another kind of field, and for a cluster without nodes.
std::shared_ptr<const GraphCut> cut_graph(const GraphSet& set, const std::string& field = "node.part");

/// The clusters as packs: pack i is cluster i modulo K, so that K packs, one after another, are the graph.
std::shared_ptr<const Packs> make_cut_packs(std::shared_ptr<const GraphSet> set,
                                            const std::string& field = "node.part");

}  // namespace ramet::graphs

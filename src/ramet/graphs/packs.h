#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// Room of a batch for graphs, nodes and edges.
struct GraphBudget {
  int64_t graphs = 0, nodes = 0, edges = 0;
  friend bool operator==(const GraphBudget&, const GraphBudget&) = default;
};
/// Whether sizes fit a room, whose bounds of 0 are none.
bool within(const GraphBudget& sizes, const GraphBudget& room);
/// "2 graphs, 20 nodes and 30 edges"; those that are 0 are left out. "" for none.
std::string bounds_text(const GraphBudget& budget);

/// What one batch holds: nodes and edges of a homogeneous set, with numbers of their own.
struct PackContents {
  std::vector<int64_t> graphs;          ///< numbers of graphs; of a sampled part of a graph that one
  std::vector<int32_t> graph_ptr{0};    ///< nodes of each
  std::vector<int64_t> nodes, edges;    ///< rows of the set's fields
  std::vector<int32_t> source, target;  ///< numbers in `nodes`; sorted by target
  int64_t seeds = -1;                   ///< the first `seeds` nodes are those that a loss counts; -1: all
  int64_t trimmed = 0;                  ///< edges that the budget left out
};

/// How many of the first `packs` packs each node and each edge of the graph is in. Estimates of the chance that a pack
/// has them (Zeng et al., arXiv 1907.04931, section 3.2): C_v / packs of node v, C_e / packs of edge e.
struct SampleCounts {
  int64_t packs = 0;
  std::vector<int32_t> nodes{}, edges{};

  /// 1 over the chance of a node: the loss of a pack is the sum of its nodes' losses times this, over all nodes that
  /// there are, and its mean over packs is the loss of the graph (equation 2). A node in none of the packs counts as
  /// one in a single pack, an edge likewise.
  double of_node(int64_t node) const {
    return static_cast<double>(packs) / std::max(1, nodes[static_cast<size_t>(node)]);
  }
  /// 1 over the chance of an edge in packs that have its target: a node's sum over its edges in a pack, each times
  /// this, has the sum over all of its edges as mean (equation 3).
  double of_edge(int64_t edge, int64_t target) const {
    return static_cast<double>(std::max(1, nodes[static_cast<size_t>(target)])) /
           std::max(1, edges[static_cast<size_t>(edge)]);
  }
  int64_t host_bytes() const { return (std::ssize(nodes) + std::ssize(edges)) * 4; }
};

struct GraphCut;

/// How batches are put together: an endless sequence of packs. Pack i is a pure function of the options and i. All
/// functions may be called from many threads at once.
class Packs {
 public:
  virtual ~Packs() = default;
  virtual PackContents contents(int64_t index) const = 0;
  /// Sizes of pack `index`, without its contents.
  virtual GraphBudget sizes(int64_t index) const;
  virtual int64_t epoch_of(int64_t index) const = 0;
  virtual int64_t epoch_packs(int64_t epoch) const = 0;
  /// Room that every pack needs at most.
  virtual GraphBudget budget() const = 0;
  /// All that decides the packs, beside the set.
  virtual std::string identity() const = 0;
  /// Of packs that are the clusters of one graph, with all of its edges (graph_cut.h); null for others.
  virtual std::shared_ptr<const GraphCut> cut() const { return nullptr; }
  /// Of random walks with a correction; null for others.
  virtual std::shared_ptr<const SampleCounts> counts() const { return nullptr; }
  /// Memory of their tables, beside the set's.
  virtual int64_t host_bytes() const = 0;
  /// Graphs that are in no pack, because they do not fit.
  virtual int64_t skipped() const { return 0; }
};

enum class GraphPacking {
  kCount,     ///< `count` graphs in each pack, the rest of an epoch in its last pack; room for the exact maximum
  kPadToMax,  ///< the same with room for `count` times the largest graph
  kStream,    ///< graphs in order until the budget is full; the last pack of an epoch goes on with the next epoch
  kHistogram  ///< longest pack first on the histogram of sizes: as many packs in every epoch
};
/// What happens to a graph that is larger than the budget, or to a sample of one.
enum class Oversize {
  kRefuse,  ///< an Error before the run
  kTrim     ///< the graph is left out; of a sample, the last edges are left out. Both are counted
};

struct GraphPackOptions {
  GraphPacking packing = GraphPacking::kCount;
  int64_t count = 1;     ///< graphs of a pack, for kCount and kPadToMax
  GraphBudget budget{};  ///< kStream and kHistogram need nodes. 0: what the packs need
  int64_t epochs = 0;    ///< of the run: the room is the exact maximum over them. 0: a bound for any number of epochs
  Oversize oversize = Oversize::kRefuse;
  std::vector<int64_t> graphs{};  ///< that take part; empty: all
  bool shuffle = true;            ///< a new order in every epoch
  uint64_t seed = 0;
};
/// Packs of whole graphs. Throws Error for sizes below 1, for a graph that does not fit, and for a set of several
/// types.
std::shared_ptr<const Packs> make_graph_packs(std::shared_ptr<const GraphSet> set, GraphPackOptions options);

struct NeighborPackOptions {
  std::vector<int64_t> fanout = {10, 10};  ///< in-edges of a node in each hop; -1: all
  int64_t seeds = 512;                     ///< nodes of a pack that a loss counts
  std::vector<int64_t> nodes{};            ///< that are seeds; empty: all
  GraphBudget budget{};                    ///< 0: the maximum over `epochs` epochs (at least one), plus a tenth
  int64_t epochs = 0;
  Oversize oversize = Oversize::kRefuse;
  bool shuffle = true;
  uint64_t seed = 0;
};
/// Samples of the neighbours of nodes of one graph (Hamilton et al., arXiv 1706.02216). A node that has more in-edges
/// than the fan-out keeps a uniform choice of them, drawn by (seed, pack, hop, node) alone. Nodes are numbered by first
/// appearance: seeds, then hop by hop.
std::shared_ptr<const Packs> make_neighbor_packs(std::shared_ptr<const GraphSet> set, NeighborPackOptions options);

struct ClusterPackOptions {
  std::string field = "node.part";  ///< the cluster of each node
  int64_t per_pack = 1;             ///< clusters of a pack
  GraphBudget budget{};             ///< 0: what the packs need
  int64_t epochs = 0;
  bool shuffle = true;
  uint64_t seed = 0;
};
/// Clusters of one graph, with all edges among their nodes (Chiang et al., arXiv 1905.07953).
std::shared_ptr<const Packs> make_cluster_packs(std::shared_ptr<const GraphSet> set, ClusterPackOptions options);

struct WalkPackOptions {
  int64_t roots = 1000, length = 2;  ///< random walks of a pack, and steps of a walk
  int64_t packs = 0;                 ///< of an epoch; 0: nodes over roots
  int64_t counted = 0;               ///< packs that SampleCounts are made of; 0: there is no correction
  GraphBudget budget{};              ///< 0: nodes that the walks can visit at most, and the edges of the fullest pack
  int64_t epochs = 0;
  Oversize oversize = Oversize::kRefuse;
  uint64_t seed = 0;
};
/// The subgraph of the nodes that random walks against the edges visit (GraphSAINT's sampler, Zeng et al., arXiv
/// 1907.04931). `counted` packs are sampled at once for its correction of sums and losses.
std::shared_ptr<const Packs> make_walk_packs(std::shared_ptr<const GraphSet> set, WalkPackOptions options);

/// What a plan says of packs: their room, what of it is used, and which pack and graph set it.
struct PackReport {
  GraphBudget budget;
  int64_t packs = 0;                      ///< of the first epoch
  double node_share = 0, edge_share = 0;  ///< of the room of the first epoch's packs that holds nodes and edges
  int64_t most_nodes_pack = 0, most_edges_pack = 0;  ///< fullest packs of the first epoch
  int64_t most_nodes = 0, most_edges = 0;
  int64_t most_nodes_graph = 0;  ///< the largest graph of that pack
  int64_t skipped = 0;           ///< graphs in no pack
  int64_t trimmed = 0;           ///< edges of the first epoch that the budget left out
  std::string text() const;
};
PackReport report_of(const Packs& packs, const GraphSet& set);

}  // namespace ramet::graphs

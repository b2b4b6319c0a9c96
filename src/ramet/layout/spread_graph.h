#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/layout/reshard.h"

namespace ramet::layout {

/// How states lie, by name.
using StateSpreads = std::map<std::string, Spread>;

/// A graph for one device, and how its values lie on the mesh.
struct SpreadResult {
  Graph graph;
  /// Nodes of the source graph whose contraction is to be cut although the node does more than the bare sum. The caller
  /// must take them apart (OpDef::apart) and spread the graph again.
  std::set<NodeId> to_take_apart;
  /// How those results lie that are cut over tensor shards; other results are whole on every device.
  std::map<std::string, Sharding> results;
  std::map<std::string, Sharding> feeds;  ///< the same of data inputs
};

/// Rewrites a graph for one device of the mesh (SPMD). The sharding rules of the ops alone decide how each value is
/// cut, starting from the cuts of the states; collectives go between nodes whose cuts differ. Nothing is cut over
/// stages here.
///  - Where operands cut one factor in different ways, the cut of a state wins, else that of the first operand; the
///    other operands are gathered.
///  - A node is cut as its readers cut its result, if all of them cut it alike because of the states that they read,
///    and if no sum crosses the cut. Its uncut inputs are sliced locally, so no device computes rows that it would
///    discard.
///  - A cut of a factor that is summed leaves partial sums, which are reduced at once. Only exact sums
///    (OpDef::regroups) wait, so that many of them share one collective.
///  - Flat states (RTS) are met element by element: sums over replicas are scattered to them, other operands are cut.
/// `states` has the spread of every state that the graph reads. The spreads of other states that the graph writes are
/// found here and added to it.
class SpreadGraph {
 public:
  /// `sequence`: sequence parallelism. Sums of activations are scattered over t1 along the positions of sequences: the
  /// axis "positions" of the data inputs or, where these declare no axes, dimension 1 of values of three or more
  /// dimensions.
  /// `deal`: the clusters of a graph in the order of the devices of t1, each of which has equally many; data inputs
  /// with the axis "clusters" are cut so. Empty: t1 has shards.
  SpreadGraph(const Graph& graph, const Mesh& mesh, StateSpreads& states, bool sequence = false,
              std::vector<int64_t> deal = {});
  SpreadResult run();

 private:
  struct Place {
    ValueId id = kNoValue;
    Spread spread;
  };
  /// The cut of one factor of a rule.
  struct FactorCut {
    MeshAxis axis = MeshAxis::kTensor1;
    int64_t parts = 1, blocks = 1, stride = 1;
    bool dealt = false;
    bool operator==(const FactorCut&) const = default;
  };
  using FactorCuts = std::map<int, FactorCut>;

  void find_wishes();
  std::vector<Cut> wish_for(NodeId reader, size_t input) const;
  void add_inputs();
  void add_outputs();
  void visit(NodeId id);
  bool treats_elements_alike(NodeId id, ValueId flat) const;
  void leave_flat(ValueId source);
  void visit_flat(NodeId id, const Place& flat);
  void visit_exact_sum(NodeId id);
  std::optional<Cut> cut_of_clusters(const TensorType& type) const;
  bool fetch_rows(NodeId id);
  FactorCuts choose_cuts(NodeId id, const NodeSignature& node, const ShardingRule& rule);
  bool fits(const ShardingRule& rule, const FactorCuts& cuts, int factor, const FactorCut& cut) const;
  bool may_cut(NodeId id, const NodeSignature& node, const ShardingRule& rule, int factor, const FactorCut& cut);
  bool find_factor(const ShardingRule& rule, const ShardingRule::Dim& dim, const Cut& cut, int& factor,
                   FactorCut& found) const;
  std::vector<Cut> cuts_of(const ShardingRule& rule, const ShardingRule::Operand& operand,
                           const FactorCuts& cuts) const;
  void add_cut_node(NodeId id, const NodeSignature& node, const ShardingRule& rule, const FactorCuts& cuts);
  ValueId fetch(ValueId source, const Spread& spread);
  void settle(ValueId source);
  Spread settled(ValueId source) const;
  void find_positions();
  Place& place(ValueId source) { return places_[static_cast<size_t>(source)]; }
  const Place& place(ValueId source) const { return places_[static_cast<size_t>(source)]; }
  bool is_state(ValueId source) const;

  const Graph& source_;
  const Mesh& mesh_;
  StateSpreads& states_;
  bool sequence_;
  const std::vector<int64_t> deal_;
  bool dealt_ = false;          ///< the deal is none of equal runs of the tree over clusters
  std::vector<int> positions_;  // of each value: its dimension of positions, or -1
  SpreadResult result_;
  Resharder resharder_;
  std::vector<Place> places_;
  std::vector<std::vector<Cut>> wishes_;  // of each value: how all of its readers would cut it; none where they differ
  std::map<ValueId, std::pair<int64_t, int64_t>> flat_sums_;  // where sums of partial states go: parts and stride
};

}  // namespace ramet::layout

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/layout/reshard.h"

namespace ramet::layout {

/// How states lie, by name.
using StateSpreads = std::map<std::string, Spread>;

/// What a graph became on one device, and how its values lie.
struct SpreadResult {
  Graph graph;
  /// Nodes of the graph given whose contraction is to be cut while more than a bare sum hangs on it: they must be taken
  /// apart (OpDef::apart), and the graph be spread again.
  std::set<NodeId> to_take_apart;
  /// How tensors lie that are results and cut over tensor shards; other results are whole on every device.
  std::map<std::string, Sharding> results;
};

/// Rewrites a graph for one device of the mesh (SPMD): every value is cut as the states that it meets ask for, by the
/// sharding rules of its ops alone, and collectives stand where cuts do not meet. Nothing is cut over stages here.
///  - a factor that several operands cut in different ways goes with the states first, then with the first operand; the
///    others are gathered
///  - a node whose result all readers would cut alike, as the states that they meet are cut, is cut so itself where no
///  sum crosses it:
///    what lies whole before it is sliced without an exchange, and none computes what it would then drop
///  - a cut of a factor that is summed leaves partial sums, which are reduced at once; only exact sums
///  (OpDef::regroups) wait, so
///    that many meet in one collective
///  - flat states (RTS) are met element by element: sums over replicas are scattered to them, other operands cut
/// `states` has the spread of every state that the graph reads; those of outputs that are not in it are found here and
/// added.
class SpreadGraph {
 public:
  /// `sequence`: sums of activations are scattered along the positions of sequences over t1 (sequence parallelism): the
  /// axis "positions" of the data inputs, or, where these declare no axes, dimension 1 of what has three or more.
  SpreadGraph(const Graph& graph, const Mesh& mesh, StateSpreads& states, bool sequence = false);
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
  std::vector<int> positions_;  // of each value: its dimension of positions, or -1
  SpreadResult result_;
  Resharder resharder_;
  std::vector<Place> places_;
  std::vector<std::vector<Cut>> wishes_;  // of each value: how all of its readers would cut it; none where they differ
  std::map<ValueId, std::pair<int64_t, int64_t>> flat_sums_;  // where sums of partial states go: parts and stride
};

}  // namespace ramet::layout

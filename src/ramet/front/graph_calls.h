#pragma once

#include "ramet/base/house.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ramet/front/known_values.h"
#include "ramet/front/program.h"
#include "ramet/ir/graph.h"

namespace ramet::front {

/// States of a graph whose values no training changes, by name.
using GraphConstants = std::map<std::string, TensorData, std::less<>>;

/// A graph as a traced program, in which patterns are sought (front/patterns.h): value 7 is the tensor "v7", and node i
/// is call i. An op that no pattern has is a call of the operator "ramet.OP".
class GraphCalls {
 public:
  GraphCalls(const Graph& graph, const GraphConstants& constants);

  TracedProgram program();
  /// The elements of a tensor that no input decides; null for others.
  const TensorData* known(const std::string& name) { return known_.find(value_of(name)); }

  static std::string name_of(ValueId id) { return "v" + std::to_string(id); }
  static bool is_of_graph(const std::string& name) { return name.front() == 'v'; }
  static ValueId value_of(const std::string& name) { return static_cast<ValueId>(std::stol(name.substr(1))); }

 private:
  TracedCall call(NodeId id);
  bool give_arithmetic(TracedCall& made, const Node& node);
  bool give_product(TracedCall& made, const Node& node) const;
  bool give_moves(TracedCall& made, const Node& node) const;
  bool give_slice(TracedCall& made, const Node& node) const;
  void give_select(TracedCall& made, const Node& node);
  void give_reciprocal(TracedCall& made, const Node& node);
  std::optional<double> number(ValueId id, const TensorType& result, ValueId other);
  TracedArgument operand(const Node& node, size_t index, size_t other);
  const Node* mean_of(const Node& node);

  const Graph& graph_;
  KnownValues known_;
  std::set<ValueId> constants_{};
  std::vector<std::vector<NodeId>> uses_;
  std::set<NodeId> means_{};  ///< nodes that belong to the call behind them
};

}  // namespace ramet::front

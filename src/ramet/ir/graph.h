#pragma once

#include <deque>
#include <string>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/ir/op.h"

namespace ramet::ir {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

/// Where the bytes of a graph input come from.
enum class InputRole : uint8_t {
  kData,     ///< fed by the host for each micro-batch (token ids, labels)
  kScalar,   ///< fed by the host, tiny: "counter" i64[2] = {step, micro-batch index in the step}, learning rate
  kState,    ///< a state of the StepGraph with the input's name (weights, optimizer state, accumulators, derived)
  kBoundary  ///< a value of the input's name that another piece of a partitioned step makes (layout/device_graphs.h)
};
/// "data", "scalar", "state", "boundary"
std::string_view name_of(InputRole role);

/// Where a graph output goes.
enum class OutputRole : uint8_t {
  kResult,   ///< read by the host (loss, metrics)
  kState,    ///< becomes the state with the output's name
  kBoundary  ///< goes to the pieces of a partitioned step that read this name
};
/// "result", "state", "boundary"
std::string_view name_of(OutputRole role);

struct Value {
  TensorType type;
  std::string name;           ///< for people; may be empty; unique only for inputs
  NodeId producer = kNoNode;  ///< kNoNode for graph inputs
  int output_index = 0;       ///< which output of the producer
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs, outputs;
  Attributes attributes;
  std::string name;  ///< path of scopes, as in "layer0/attention/query"
};

struct GraphInput {
  ValueId value;
  InputRole role;
};

struct GraphOutput {
  std::string name;
  ValueId value;
  OutputRole role;
};

/// A tensor program in SSA form with static shapes. Nodes stand in an order in which every value is produced
/// before it is used; that order is the default execution order.
class Graph {
 public:
  explicit Graph(std::string name = "graph") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  ValueId add_input(const std::string& name, TensorType type, InputRole role);
  /// Appends a node; its output types come from the op's type rule, which throws on inputs that do not fit.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attributes = {}, std::string name = "");
  void add_output(const std::string& name, ValueId value, OutputRole role = OutputRole::kResult);
  void set_value_name(ValueId value, std::string name) { values_[static_cast<size_t>(value)].name = std::move(name); }

  const std::deque<Value>& values() const { return values_; }
  const std::deque<Node>& nodes() const { return nodes_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }

  /// Value of the input named `name`, or kNoValue.
  ValueId find_input(std::string_view name) const;
  const GraphOutput* find_output(std::string_view name) const;
  NodeSignature signature(NodeId id) const;
  /// For each value, the nodes that read it, in order, once each.
  std::vector<std::vector<NodeId>> uses() const;
  /// Hash of the printed text: equal graphs have equal hashes.
  Hash hash() const;

 private:
  std::string name_;
  // Deques, so that a reference to a value or a node stays good while the graph grows.
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
};

/// Checks every rule of a graph: ids in range, SSA order, types equal to what the type rules say, attributes
/// known and of the right kind, names of inputs and outputs unique. Throws Error naming `after` (a pass), the
/// node and the rule.
void verify(const Graph& graph, const std::string& after);

/// A copy of the nodes of one graph into another, value by value; the work-horse of passes that rebuild.
/// Usage: map the inputs, then `copy` nodes in order, mapping or replacing as the pass wants.
class GraphCopier {
 public:
  GraphCopier(const Graph& from, Graph& to) : from_(from), to_(to), map_(from.values().size(), kNoValue) {}
  void map(ValueId from, ValueId to) { map_[static_cast<size_t>(from)] = to; }
  ValueId operator[](ValueId from) const { return map_[static_cast<size_t>(from)]; }
  /// Copies all inputs (same names, types, roles) and maps them.
  void copy_inputs();
  /// Copies a node with its inputs mapped; maps its outputs. Value names are kept.
  NodeId copy_node(NodeId id);
  void copy_outputs();

 private:
  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> map_;
};

}  // namespace ramet::ir

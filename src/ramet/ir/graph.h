#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/ir/name_index.h"
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

/// A part of a model: what pipelines, phases and recomputation may cut at. Part `index` of a stack is what most people
/// call a layer; a model has one stack or several, as an encoder and a decoder.
struct Part {
  std::string stack;    ///< tells stacks apart; else for people
  int32_t index = kNo;  ///< kNo: outside of all stacks

  static constexpr int32_t kNo = -1;
  static constexpr int32_t kMost = 65536;  ///< parts of a stack
  bool known() const { return index != kNo; }
  friend bool operator==(const Part&, const Part&) = default;
};
/// "encoder 3"; "" outside of all stacks.
std::string text_of(const Part& part);

/// When in a step a node runs.
enum class NodePass : uint8_t {
  kForward,
  kBackward,    ///< gradients
  kRecompute,   ///< repeats forward nodes for the backward pass
  kAccumulate,  ///< adds gradients to their sums
  kUpdate       ///< once a step, after the last micro-batch
};
inline constexpr int kNodePassCount = 5;
/// "forward", "backward", "recompute", "accumulate", "update"
std::string_view name_of(NodePass pass);

/// Facts about a node beside its computation. Passes that rebuild graphs carry them. The name and the origin are for
/// people: no bit, no cut and no search depends on them.
struct NodeInfo {
  std::string name;  ///< path of scopes, as in "layer0/attention/query"
  Part part{};
  NodePass pass = NodePass::kForward;
  /// Number that differentiation gives to forward nodes and that survives passes; nodes that a pass puts in place of
  /// one have its number too. 0: none.
  int32_t serial = 0;
  int32_t forward_of = 0;  ///< serial of the forward node that this one is a gradient or a repetition of; 0: of none
  std::string gradient{};  ///< name of the weight whose whole gradient, summed over the step, input 0 is
  std::string origin{};    ///< where the model says so: "model/bert.cc:46", or the node of an imported file

  NodeInfo() = default;
  NodeInfo(std::string node_name) : name(std::move(node_name)) {}
  NodeInfo(const char* node_name) : name(node_name) {}
  /// The same of another name.
  NodeInfo named(std::string other) const {
    NodeInfo info = *this;
    info.name = std::move(other);
    return info;
  }
  /// Of a node that is a gradient or a repetition of this one.
  NodeInfo derived(NodePass derived_pass, std::string derived_name) const {
    NodeInfo info = named(std::move(derived_name));
    info.pass = derived_pass;
    if (serial != 0) info.forward_of = serial;
    info.serial = 0;
    return info;
  }
  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

struct Node : NodeInfo {
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs, outputs;
  Attributes attributes;

  const NodeInfo& info() const { return *this; }
};

struct GraphInput {
  ValueId value;
  InputRole role;
  /// Meaning of each dimension of a data input, or nothing where the model does not say: "batch" (samples), "positions"
  /// (of a sequence), another name for other items of samples, "" for features.
  std::vector<std::string> axes{};
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

  /// `axes`: one a dimension, or none.
  ValueId add_input(const std::string& name, TensorType type, InputRole role, std::vector<std::string> axes = {});
  /// Adds an input with the name, type, role and axes of an input of another graph.
  ValueId add_input(const Graph& from, const GraphInput& input);
  /// Appends a node; its output types come from the op's type rule, which throws on inputs that do not fit.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attributes = {}, NodeInfo info = {});
  void add_output(const std::string& name, ValueId value, OutputRole role = OutputRole::kResult);
  void set_info(NodeId node, NodeInfo info) {
    static_cast<NodeInfo&>(nodes_[static_cast<size_t>(node)]) = std::move(info);
  }
  /// Names the output of a node. The name of an input never changes.
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
  /// "add 'layer0' (f32[2], f32[2])", and where the model says so when that is known: for messages.
  std::string text_of(NodeId id) const;
  /// Hash of all that a graph means: graphs that differ in names of nodes and values, or in origins, have equal hashes.
  Hash hash() const;

 private:
  std::string name_;
  // Deques, so that a reference to a value or a node stays good while the graph grows.
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
  NameIndex input_names_, output_names_;
};

/// Checks every rule of a graph: ids are in range, nodes are in SSA order, types equal those of the type rules,
/// attributes are known and of the right kind, names of inputs and outputs are unique. Throws Error naming `after` (a
/// pass), the node and the rule.
void verify(const Graph& graph, const std::string& after);

/// A copy of the nodes of one graph into another, value by value; the work-horse of passes that rebuild.
/// Usage: map the inputs, then `copy` nodes in order, mapping or replacing as the pass wants.
class GraphCopier {
 public:
  GraphCopier(const Graph& from, Graph& to) : from_(from), to_(to), map_(from.values().size(), kNoValue) {}
  void map(ValueId from, ValueId to) { map_[static_cast<size_t>(from)] = to; }
  ValueId operator[](ValueId from) const { return map_[static_cast<size_t>(from)]; }
  /// Copies all inputs (same names, types, roles, axes) and maps them.
  void copy_inputs();
  void copy_input(const GraphInput& input) { map(input.value, to_.add_input(from_, input)); }
  /// Copies a node with its inputs mapped; maps its outputs. Value names are kept.
  NodeId copy_node(NodeId id);
  /// The same with other attributes, and with inputs of the new graph.
  NodeId copy_node(NodeId id, std::vector<ValueId> inputs, Attributes attributes);
  void copy_outputs();
  /// The copy of node `from` also takes the place of node `serial`: nodes that were derived from `serial` count as
  /// derived from the copy.
  void stand_in(int32_t serial, int32_t from);
  /// The facts about a node, for the new graph.
  NodeInfo info(NodeId id) const;

 private:
  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> map_;
  std::map<int32_t, int32_t> stand_ins_;
};

}  // namespace ramet::ir

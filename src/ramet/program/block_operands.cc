#include "ramet/program/block_operands.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ramet/ir/part_of.h"
#include "ramet/program/keep_panels.h"
#include "ramet/transform/hoist.h"

namespace ramet::program {
namespace {

class OperandBlocker {
 public:
  OperandBlocker(Stage& stage, const KernelLibrary& library, const std::set<std::string>& without)
      : stage_(stage), library_(library), without_(without) {
    for (const LocalState& state : stage.states) {
      kinds_[state.tensor.name] = state.tensor.kind;
      weights_[state.tensor.name] = state.tensor.weight();
    }
    for (size_t i = 0; i < stage.pieces.size(); ++i) {
      const Piece& piece = stage.pieces[i];
      if (piece.kind != PieceKind::kPrepare) continue;
      prepare_.emplace(piece.part, i);
      for (const GraphOutput& output : piece.graph.outputs())
        if (output.role == OutputRole::kState) derived_[output.name] = {i, output.value};
    }
  }

  void run() {
    const size_t pieces = stage_.pieces.size();  // blocked copies add more
    for (size_t i = 0; i < pieces; ++i) {
      if (stage_.pieces[i].kind == PieceKind::kPrepare) continue;
      part_ = stage_.pieces[i].part;
      const Graph graph = std::move(stage_.pieces[i].graph);  // the list may grow meanwhile
      Graph blocked = run(graph);
      stage_.pieces[i].graph = std::move(blocked);
    }
  }

 private:
  Graph run(const Graph& graph) {
    Graph blocked(graph.name());
    GraphCopier copier(graph, blocked);
    copier.copy_inputs();
    casts_ = casts_in_front_of_blocks(graph);
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
      if (!casts_[static_cast<size_t>(id)] && !block_node(graph, id, blocked, copier)) copier.copy_node(id);
    copier.copy_outputs();
    return blocked;
  }

  /// Of each node whether it is a cast of one of the weights of `without_` of which each reader makes a blocked copy
  /// for itself: then the copy is made of the weight, and no tensor of the other type is written in between.
  std::vector<bool> casts_in_front_of_blocks(const Graph& graph) const {
    std::vector<bool> casts(graph.nodes().size(), false);
    std::set<ValueId> results;
    for (const GraphOutput& output : graph.outputs()) results.insert(output.value);
    const auto uses = graph.uses();
    for (size_t id = 0; id < casts.size(); ++id) {
      const Node& node = graph.nodes()[id];
      if (node.op->map_op != "cast" || !is_from_weights(graph.value(node.inputs[0]))) continue;
      const std::vector<NodeId>& readers = uses[static_cast<size_t>(node.outputs[0])];
      casts[id] = !readers.empty() && !results.count(node.outputs[0]) &&
                  without_.count(weights_.at(graph.value(node.inputs[0]).name)) &&
                  std::ranges::all_of(readers, [&](NodeId reader) { return blocks(graph, reader, node.outputs[0]); });
    }
    return casts;
  }

  /// Whether the node's kernel reads the value in a blocked layout wherever it reads it.
  bool blocks(const Graph& graph, NodeId id, ValueId value) const {
    const Node& node = graph.node(id);
    if (node.op->exchange != Exchange::kNone) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == value && (i >= 26 || !blocking(graph, id, i))) return false;
    return true;
  }

  /// The layout that a node "block" makes for the node's kernel.
  std::optional<BlockedLayout> blocking(const Graph& graph, NodeId id, size_t input) const {
    auto layout = library_.blocking(graph.signature(id), static_cast<int>(input));
    if (layout && panel_tokens(*layout)) layout.reset();
    return layout;
  }

  /// Whether the value is a state that changes only with the weights.
  bool is_from_weights(const Value& value) const {
    if (value.producer != kNoNode) return false;
    const auto kind = kinds_.find(value.name);
    return kind != kinds_.end() && (kind->second == StateKind::kWeight || kind->second == StateKind::kDerived);
  }

  bool block_node(const Graph& graph, NodeId id, Graph& blocked, GraphCopier& copier) {
    const Node& node = graph.node(id);
    if (node.op->exchange != Exchange::kNone) return false;
    Attributes attributes = node.attributes;
    std::vector<ValueId> inputs;
    bool changed = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = graph.value(node.inputs[i]);
      inputs.push_back(casts_in_front(value) ? kNoValue : copier[node.inputs[i]]);
      const std::string letter(1, static_cast<char>('a' + i));
      const bool cast = casts_in_front(value);
      if (i >= 26 || (!cast && !is_from_weights(value)) || attributes.has(letter + "_blocked")) continue;
      if (!cast && without_.count(weights_[value.name])) continue;
      const auto layout = blocking(graph, id, i);
      if (!layout) continue;
      if (cast) {
        const Node& made = graph.node(value.producer);
        const NodeId block =
            blocked.add_node(block_op_, {copier[made.inputs[0]]}, block_attributes(*layout, value), made);
        inputs.back() = blocked.node(block).outputs[0];
      } else {
        inputs.back() = blocked_input(value, *layout, blocked);
      }
      attributes.set(letter + "_blocked", layout->format);
      attributes.set(letter + "_shape", value.type.shape.dims());
      attributes.set(letter + "_dtype", value.type.dtype);
      changed = true;
    }
    if (!changed) return false;
    const NodeId copy = blocked.add_node(*node.op, std::move(inputs), std::move(attributes), node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      copier.map(node.outputs[i], blocked.node(copy).outputs[i]);
      blocked.set_value_name(blocked.node(copy).outputs[i], graph.value(node.outputs[i]).name);
    }
    return true;
  }

  bool casts_in_front(const Value& value) const {
    return value.producer != kNoNode && casts_[static_cast<size_t>(value.producer)];
  }

  static Attributes block_attributes(const BlockedLayout& layout, const Value& value) {
    return {{"format", layout.format}, {"bytes", layout.bytes}, {"dtype", value.type.dtype}};
  }

  /// The graph's input with the blocking of a state.
  ValueId blocked_input(const Value& value, const BlockedLayout& layout, Graph& blocked) {
    const std::string state = blocked_state(value, layout);
    const ValueId input = blocked.find_input(state);
    return input != kNoValue ? input : blocked.add_input(state, {DType::kU8, Shape{layout.bytes}}, InputRole::kState);
  }

  /// The derived state with the blocking of a state, made on first demand.
  std::string blocked_state(const Value& value, const BlockedLayout& layout) {
    const auto key = std::make_tuple(value.name, layout.format, layout.bytes);
    if (const auto known = blocked_states_.find(key); known != blocked_states_.end()) return known->second;
    std::string name = "blocked." + value.name;
    for (int i = 1; kinds_.count(name); ++i) name = "blocked." + std::to_string(i) + "." + value.name;
    const auto made = derived_.find(value.name);
    Graph& derive = stage_.pieces[made != derived_.end() ? made->second.first : prepare_piece()].graph;
    ValueId source;
    if (made != derived_.end())
      source = made->second.second;
    else if (source = derive.find_input(value.name); source == kNoValue)
      source = derive.add_input(value.name, value.type, InputRole::kState);
    const NodeId node = derive.add_node(block_op_, {source}, block_attributes(layout, value), "block/" + value.name);
    derive.add_output(name, derive.node(node).outputs[0], OutputRole::kState);
    kinds_[name] = StateKind::kDerived;
    Sharding sharding;
    sharding.logical = derive.type(derive.node(node).outputs[0]);
    StateTensor tensor{name, sharding.logical, StateKind::kDerived, {}, ""};
    tensor.of = weights_[name] = weights_[value.name];
    tensor.role = "blocked";
    stage_.states.push_back({std::move(tensor), sharding, HomeMemory::kDevice});
    return blocked_states_[key] = name;
  }

  /// The piece that derives states for the part at hand.
  size_t prepare_piece() {
    const auto [piece, fresh] = prepare_.emplace(part_, stage_.pieces.size());
    if (fresh)
      stage_.pieces.push_back({Graph(stage_.mesh.devices() == 1 ? "derive" : "prepare" + std::to_string(part_)),
                               PieceKind::kPrepare, part_});
    return piece->second;
  }

  Stage& stage_;
  const KernelLibrary& library_;
  const std::set<std::string>& without_;
  const OpDef& block_op_ = OpRegistry::instance().get("block");
  int part_ = 0;
  std::vector<bool> casts_;  // of the graph at hand: see casts_in_front_of_blocks
  std::map<std::string, StateKind> kinds_;
  std::map<std::string, std::string> weights_;                 // of each state
  std::map<int, size_t> prepare_;                              // pieces by part
  std::map<std::string, std::pair<size_t, ValueId>> derived_;  // pieces and their values by the state that they become
  std::map<std::tuple<std::string, std::string, int64_t>, std::string> blocked_states_;
};

/// Without the inputs that no node and no output reads.
Graph without_unused_states(const Graph& graph) {
  std::vector<bool> used(graph.values().size(), false);
  for (const Node& node : graph.nodes())
    for (ValueId input : node.inputs) used[static_cast<size_t>(input)] = true;
  for (const GraphOutput& output : graph.outputs()) used[static_cast<size_t>(output.value)] = true;
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  for (const GraphInput& input : graph.inputs()) {
    if (input.role == InputRole::kState && !used[static_cast<size_t>(input.value)]) continue;
    copier.copy_input(input);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
  return result;
}

void drop_unread_derived_states(Stage& stage) {
  std::set<std::string> read, kept;
  for (Piece& piece : stage.pieces) {
    if (piece.kind != PieceKind::kPrepare) piece.graph = without_unused_states(piece.graph);
    // A derived state that is read to derive others is kept.
    for (const GraphInput& input : piece.graph.inputs())
      if (input.role == InputRole::kState) read.insert(piece.graph.value(input.value).name);
  }
  std::erase_if(stage.states, [&](const LocalState& state) {
    if (state.tensor.kind == StateKind::kDerived && !read.count(state.tensor.name)) return true;
    kept.insert(state.tensor.name);
    return false;
  });
  for (Piece& piece : stage.pieces) {
    if (piece.kind != PieceKind::kPrepare) continue;
    for (const GraphOutput& output : piece.graph.outputs())
      if (output.role != OutputRole::kState) kept.insert(output.name);
    piece.graph = part_of(piece.graph, kept);
  }
  std::erase_if(stage.pieces, [](const Piece& piece) {
    return piece.kind == PieceKind::kPrepare && piece.graph.nodes().empty() && piece.graph.outputs().empty();
  });
}

/// The derived states that the piece makes, without an exchange, of nothing but `weights` in device memory.
std::set<std::string> remakable(const Piece& piece, const Stage& stage, const std::set<std::string>& weights) {
  std::set<std::string> near;
  for (const LocalState& state : stage.states)
    if (state.tensor.kind == StateKind::kWeight && state.home == HomeMemory::kDevice &&
        weights.count(state.tensor.weight()))
      near.insert(state.tensor.name);
  std::vector<bool> made(piece.graph.values().size(), false);
  for (const GraphInput& input : piece.graph.inputs())
    made[static_cast<size_t>(input.value)] = near.count(piece.graph.value(input.value).name) != 0;
  for (const Node& node : piece.graph.nodes()) {
    const bool here = node.op->exchange == Exchange::kNone &&
                      std::all_of(node.inputs.begin(), node.inputs.end(),
                                  [&](ValueId input) { return made[static_cast<size_t>(input)]; });
    for (ValueId output : node.outputs) made[static_cast<size_t>(output)] = here;
  }
  std::set<std::string> states;
  for (const GraphOutput& output : piece.graph.outputs())
    if (output.role == OutputRole::kState && made[static_cast<size_t>(output.value)]) states.insert(output.name);
  return states;
}

}  // namespace

void block_operands(Stage& stage, const KernelLibrary& library, const std::set<std::string>& without) {
  OperandBlocker(stage, library, without).run();
  drop_unread_derived_states(stage);
}

void remake_derived(Stage& stage, const std::set<std::string>& weights) {
  if (weights.empty()) return;
  for (const Piece& prepare : stage.pieces) {
    if (prepare.kind != PieceKind::kPrepare) continue;
    const std::set<std::string> states = remakable(prepare, stage, weights);
    if (states.empty()) continue;
    for (Piece& piece : stage.pieces)
      if (piece.kind != PieceKind::kPrepare) piece.graph = transform::unhoist(piece.graph, prepare.graph, states);
  }
  drop_unread_derived_states(stage);
}

}  // namespace ramet::program

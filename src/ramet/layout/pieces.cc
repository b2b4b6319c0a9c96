#include "ramet/layout/pieces.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"

namespace ramet::layout {
namespace {

/// A (kind, part) in the order in which a micro-batch meets them.
struct PieceKey {
  PieceKind kind;
  int part;
  bool operator<(const PieceKey& other) const { return std::tie(kind, part) < std::tie(other.kind, other.part); }
  bool operator==(const PieceKey&) const = default;
};

class Cutting {
 public:
  Cutting(const PieceCutter& options, const Graph& graph, const PartMap& map, DeviceGraphs& into)
      : options_(options), graph_(graph), map_(map), into_(into), uses_(graph.uses()) {}

  void run() {
    name_pieces();
    if (options_.split_backward) split_backward();
    find_crossings();
    if (!options_.stays.empty()) backward_layer_ = backward_layers(graph_, *options_.layers, map_.backward);
    std::set<PieceKey> keys(key_.begin(), key_.end());
    for (size_t part = 0; part < options_.stage_of_part.size(); ++part) {
      const int c = static_cast<int>(part);
      if (options_.kind) {
        keys.insert({*options_.kind, c});
        continue;
      }
      keys.insert({PieceKind::kForward, c});
      keys.insert({PieceKind::kBackward, c});
      if (options_.split_backward) keys.insert({PieceKind::kWeightGradient, c});
    }
    for (const PieceKey& key : keys) build(key);
    add_boundaries();
  }

 private:
  bool anywhere(size_t n) const { return map_.anywhere[n]; }

  void name_pieces() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n)
      key_.push_back({options_.kind      ? *options_.kind
                      : map_.backward[n] ? PieceKind::kBackward
                                         : PieceKind::kForward,
                      map_.part[n]});
  }

  /// Backward nodes that no other part's piece needs wait until later.
  void split_backward() {
    std::vector<bool> needed(graph_.nodes().size(), false);
    for (size_t n = graph_.nodes().size(); n-- > 0;) {
      if (key_[n].kind != PieceKind::kBackward || anywhere(n)) continue;
      for (ValueId output : graph_.node(static_cast<NodeId>(n)).outputs)
        for (NodeId user : uses_[static_cast<size_t>(output)]) {
          const size_t u = static_cast<size_t>(user);
          needed[n] = needed[n] || needed[u] || key_[u].part != key_[n].part;
        }
    }
    for (size_t n = 0; n < key_.size(); ++n)
      if (key_[n].kind == PieceKind::kBackward && !needed[n]) key_[n].kind = PieceKind::kWeightGradient;
  }

  void find_crossings() {
    crossing_.assign(graph_.values().size(), "");
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (anywhere(n)) continue;
      for (ValueId output : graph_.node(static_cast<NodeId>(n)).outputs)
        for (NodeId user : uses_[static_cast<size_t>(output)]) {
          const size_t u = static_cast<size_t>(user);
          if (anywhere(u) || key_[u] == key_[n]) continue;
          if (crossing_[static_cast<size_t>(output)].empty())
            crossing_[static_cast<size_t>(output)] =
                options_.prefix + std::to_string(output) + "." + graph_.node(static_cast<NodeId>(n)).name;
          readers_[output].insert(key_[u]);
        }
    }
  }

  /// The value inside the piece, brought in on first use.
  ValueId bring(ValueId source, Graph& graph, std::map<ValueId, ValueId>& known) {
    if (const auto found = known.find(source); found != known.end()) return found->second;
    const Value& value = graph_.value(source);
    if (value.producer == kNoNode) {
      const auto input = std::find_if(graph_.inputs().begin(), graph_.inputs().end(),
                                      [&](const GraphInput& each) { return each.value == source; });
      return known[source] = graph.add_input(graph_, *input);
    }
    const size_t n = static_cast<size_t>(value.producer);
    if (anywhere(n)) {
      copy(n, graph, known);
      return known.at(source);
    }
    return known[source] = graph.add_input(crossing_[static_cast<size_t>(source)], value.type, InputRole::kBoundary);
  }

  void copy(size_t n, Graph& graph, std::map<ValueId, ValueId>& known) {
    const Node& node = graph_.node(static_cast<NodeId>(n));
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(bring(input, graph, known));
    const NodeId made = graph.add_node(*node.op, std::move(inputs), node.attributes, node);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      known[node.outputs[o]] = graph.node(made).outputs[o];
      graph.set_value_name(graph.node(made).outputs[o], graph_.value(node.outputs[o]).name);
    }
  }

  /// The piece that gives an output of the graph: its maker's; for an input the first that reads it, or that of the
  /// state's home; else part 0's.
  PieceKey giver(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (producer != kNoNode && !anywhere(static_cast<size_t>(producer))) return key_[static_cast<size_t>(producer)];
    std::optional<PieceKey> first;
    for (NodeId user : uses_[static_cast<size_t>(value)])
      if (const auto u = static_cast<size_t>(user); !anywhere(u) && (!first || key_[u] < *first)) first = key_[u];
    if (first) return *first;
    const auto home = options_.homes.find(graph_.value(value).name);
    return {options_.kind.value_or(PieceKind::kForward), home == options_.homes.end() ? 0 : home->second};
  }

  void build(const PieceKey& key) {
    const std::string name = key.kind == PieceKind::kProgram ? graph_.name() + " " : std::string(name_of(key.kind));
    Piece piece{.graph = Graph(name + std::to_string(key.part)),
                .kind = key.kind,
                .part = key.part,
                .program = options_.program,
                .place = options_.program < 0 ? 0 : key.part};
    std::map<ValueId, ValueId> known;
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (anywhere(n) || !(key_[n] == key)) continue;
      copy(n, piece.graph, known);
      for (ValueId output : graph_.node(static_cast<NodeId>(n)).outputs)
        if (const std::string& name = crossing_[static_cast<size_t>(output)]; !name.empty())
          piece.graph.add_output(name, known.at(output), OutputRole::kBoundary);
    }
    for (const GraphOutput& output : graph_.outputs())
      if (giver(output.value) == key) {
        piece.graph.add_output(output.name, bring(output.value, piece.graph, known), output.role);
        if (const auto part = options_.results.find(output.name);
            part != options_.results.end() && output.role == OutputRole::kResult)
          piece.results.insert(*part);
      }
    for (const GraphInput& input : piece.graph.inputs())
      if (const auto part = options_.feeds.find(piece.graph.value(input.value).name);
          part != options_.feeds.end() && input.role == InputRole::kData)
        piece.feeds.insert(*part);
    into_.stages[static_cast<size_t>(stage_of(key))].pieces.push_back(std::move(piece));
  }

  int stage_of(const PieceKey& key) const { return options_.stage_of_part[static_cast<size_t>(key.part)]; }

  bool same_phase(const PieceKey& a, const PieceKey& b) const {
    const int parts = options_.parts_per_phase;
    return parts == 0 || a.part / parts == b.part / parts;
  }

  bool stays(ValueId value) const {
    if (backward_layer_.empty()) return false;
    for (NodeId user : uses_[static_cast<size_t>(value)])
      if (const int layer = backward_layer_[static_cast<size_t>(user)]; layer >= 0)
        return options_.stays[static_cast<size_t>(layer)];
    return false;
  }

  void add_boundaries() {
    for (const auto& [value, readers] : readers_) {
      const PieceKey& writer = key_[static_cast<size_t>(graph_.value(value).producer)];
      Boundary boundary{
          crossing_[static_cast<size_t>(value)], graph_.type(value), stage_of(writer), {}, HomeMemory::kDevice};
      std::set<int> stages;
      bool waits = false;
      for (const PieceKey& reader : readers) {
        stages.insert(stage_of(reader));
        waits = waits || writer.kind != reader.kind || writer.kind == PieceKind::kUpdate || !same_phase(writer, reader);
      }
      boundary.readers.assign(stages.begin(), stages.end());
      if (waits && options_.stream && !stays(value)) boundary.home = HomeMemory::kStreaming;
      into_.boundaries.push_back(std::move(boundary));
    }
  }

  const PieceCutter& options_;
  const Graph& graph_;
  const PartMap& map_;
  DeviceGraphs& into_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<PieceKey> key_;
  std::vector<std::string> crossing_;  // name of each value that crosses; "" for others
  std::map<ValueId, std::set<PieceKey>> readers_;
  std::vector<int> backward_layer_;  // of each node, where some layers' activations stay
};

}  // namespace

void PieceCutter::cut(const Graph& graph, const PartMap& map, DeviceGraphs& into) const {
  Cutting(*this, graph, map, into).run();
}

}  // namespace ramet::layout

#include "ramet/transform/fold_messages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ramet/ops/edge_role.h"
#include "ramet/ops/map_program.h"
#include "ramet/ops/map_types.h"
#include "ramet/transform/append_map.h"

namespace ramet::transform {
namespace {

constexpr int kNone = -1;
/// Least features of an edge. Tensors of fewer, such as scores of heads, are small, and loops over whole tensors are
/// faster than over their rows.
constexpr int64_t kLeastWidth = 16;

/// How a node moves between rows and edges.
struct EdgeMove {
  bool sums = false;         ///< from edges to rows; else each edge reads a row
  ValueId rows = kNoValue;   ///< of a reader: its operand
  ValueId edges = kNoValue;  ///< of a sum: its operand
  ValueId table = kNoValue;  ///< pointers or indices
  bool pointers = false;
  bool mean = false;  ///< of a sum
  int lead = 0;       ///< dimensions that number edges: 1 or 2
};

std::optional<EdgeMove> edge_move(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::optional<EdgeRole> role = edge_role(graph.signature(id));
  if (!role || !node.gradient.empty()) return {};
  const auto operand = [&](int input) { return input < 0 ? kNoValue : node.inputs[static_cast<size_t>(input)]; };
  if (role->added_to >= 0) {
    const NodeId maker = graph.value(operand(role->added_to)).producer;
    if (maker == kNoNode || !makes_zeros(graph.signature(maker))) return {};
  }
  return EdgeMove{role->sums, operand(role->rows), operand(role->edges), operand(role->table), role->pointers,
                  role->mean, role->lead};
}

/// Nodes that will be one `edge_map`.
struct Fold {
  Shape space;
  int lead = 0;
  std::set<NodeId> members;  ///< maps and sums, which exist nowhere else then
  std::set<NodeId> repeats;  ///< maps whose values are computed here once more
  NodeId place = kNoNode;    ///< in front of this node
};

/// The program of a fold, and its operands.
struct FoldProgram {
  MapProgram program;
  std::vector<std::pair<ValueId, bool>> tables;  ///< and whether they are pointers
  std::vector<std::pair<ValueId, int>> inputs;   ///< and their table, or kNone
  std::vector<ValueId> outputs;
  std::vector<int64_t> sums, rows, means;  ///< of outputs
  std::vector<DType> dtypes;
};

class Folder {
 public:
  Folder(const Graph& graph, const MergeLimits& limits)
      : graph_(graph),
        limits_(limits),
        uses_(graph.uses()),
        is_output_(graph.values().size(), false),
        fold_of_(graph.nodes().size(), kNone),
        used_at_(graph.nodes().size(), graph.nodes().size()),
        dead_(graph.nodes().size(), false) {
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
    for (NodeId id = 0; id < nodes(); ++id) moves_.push_back(edge_move(graph, id));
  }

  Graph run() {
    for (NodeId id = nodes() - 1; id >= 0; --id)
      if (fold_of_[static_cast<size_t>(id)] == kNone) begin(id);
    if (folds_.empty()) return graph_;
    find_dead();
    return rebuild();
  }

 private:
  NodeId nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }
  const std::optional<EdgeMove>& move(NodeId id) const { return moves_[static_cast<size_t>(id)]; }
  bool reads(NodeId id) const { return id != kNoNode && move(id) && !move(id)->sums; }
  bool sums(NodeId id) const { return move(id) && move(id)->sums; }
  NodeId producer(ValueId value) const { return graph_.value(value).producer; }
  const std::vector<NodeId>& users(ValueId value) const { return uses_[static_cast<size_t>(value)]; }

  // --- which nodes fold ---

  /// Where a node will run.
  NodeId place(NodeId id) const {
    const int fold = fold_of_[static_cast<size_t>(id)];
    return fold == kNone ? id : folds_[static_cast<size_t>(fold)].place;
  }

  /// Where a node first needs its operands: at its place, or where a fold computes it too.
  NodeId needs_at(NodeId id) const { return std::min(place(id), used_at_[static_cast<size_t>(id)]); }

  /// Begins with a sum, or with a map that reads rows.
  void begin(NodeId id) {
    Fold fold;
    if (sums(id)) {
      fold.space = graph_.type(move(id)->edges).shape;
      fold.lead = move(id)->lead;
    } else {
      const auto& inputs = graph_.node(id).inputs;
      const auto row = std::ranges::find_if(inputs, [&](ValueId value) { return reads(producer(value)); });
      if (row == inputs.end()) return;
      fold.space = graph_.type(graph_.node(id).outputs[0]).shape;
      fold.lead = move(producer(*row))->lead;
      if (!is_map(id, fold)) return;
    }
    if (fold.space.rank() < fold.lead || width_of(fold) < kLeastWidth) return;
    fold.members = {id};
    if (!settle(fold)) return;
    grow(fold);
    repeat(fold);
    if (!gains(fold)) return;
    for (const NodeId member : fold.members) fold_of_[static_cast<size_t>(member)] = static_cast<int>(folds_.size());
    for (const NodeId used : computed_in(fold)) {
      NodeId& at = used_at_[static_cast<size_t>(used)];
      at = std::min(at, fold.place);
    }
    folds_.push_back(std::move(fold));
  }

  /// Nodes that a fold computes but does not take away: readers of rows, and what it repeats.
  std::set<NodeId> computed_in(const Fold& fold) const {
    std::set<NodeId> found = fold.repeats;
    for (const auto* nodes : {&fold.members, &fold.repeats})
      for (const NodeId id : *nodes)
        for (const ValueId value : graph_.node(id).inputs)
          if (const NodeId maker = producer(value); reads(maker) && move(maker)->lead == fold.lead) found.insert(maker);
    return found;
  }

  static int64_t width_of(const Fold& fold) {
    int64_t width = 1;
    for (int axis = fold.lead; axis < fold.space.rank(); ++axis) width *= fold.space[axis];
    return width;
  }

  /// Whether a node is a map over the fold's edges.
  bool is_map(NodeId id, const Fold& fold) const {
    return graph_.node(id).gradient.empty() && maps_edges(graph_.signature(id), fold.space, fold.lead);
  }

  NodePass pass(const Fold& fold) const { return graph_.node(*fold.members.begin()).pass; }

  bool goes_with(NodeId id, const Fold& fold) const {
    const Node &node = graph_.node(id), &first = graph_.node(*fold.members.begin());
    return fold_of_[static_cast<size_t>(id)] == kNone && node.pass == first.pass && node.part == first.part;
  }

  /// Takes in maps that the fold reads, and further sums of its values.
  void grow(Fold& fold) {
    for (bool grows = true; grows;) {
      grows = false;
      for (const NodeId id : around(fold)) {
        Fold larger = fold;
        larger.members.insert(id);
        if (!settle(larger) || !is_small(larger)) continue;
        fold = std::move(larger);
        grows = true;
        break;
      }
    }
  }

  /// Nodes that may be taken in.
  std::vector<NodeId> around(const Fold& fold) const {
    std::set<NodeId> found;
    for (const NodeId member : fold.members) {
      for (const ValueId value : graph_.node(member).inputs)
        if (const NodeId id = producer(value);
            id != kNoNode && !fold.members.contains(id) && goes_with(id, fold) && !move(id) && is_map(id, fold))
          found.insert(id);
      if (sums(member)) continue;
      for (const ValueId value : graph_.node(member).outputs)
        for (const NodeId id : users(value))
          if (!fold.members.contains(id) && goes_with(id, fold) && sums(id) && move(id)->edges == value &&
              move(id)->lead == fold.lead && graph_.type(value).shape == fold.space)
            found.insert(id);
    }
    return {found.begin(), found.end()};
  }

  /// Finds the fold's place: in front of all that read its values, and behind all that it reads. False: there is none.
  bool settle(Fold& fold) const {
    NodeId first = nodes(), last = kNoNode;
    for (const NodeId member : fold.members)
      for (const ValueId value : graph_.node(member).outputs)
        for (const NodeId user : users(value))
          if (!fold.members.contains(user)) first = std::min(first, needs_at(user));
    for (const ValueId value : inputs_of(fold))
      if (const NodeId id = producer(value); id != kNoNode) last = std::max(last, place(id));
    fold.place = first;
    return last < first;
  }

  /// Whether a value is computed inside of the fold.
  bool is_inside(const Fold& fold, ValueId value) const {
    const NodeId id = producer(value);
    return fold.members.contains(id) || fold.repeats.contains(id);
  }

  /// Values that the fold needs from others, rows and tables among them.
  std::set<ValueId> inputs_of(const Fold& fold) const {
    std::set<ValueId> found;
    const auto add = [&](ValueId value) {
      if (is_inside(fold, value)) return;
      const NodeId id = producer(value);
      if (reads(id) && move(id)->lead == fold.lead) {
        found.insert(move(id)->rows);
        found.insert(move(id)->table);
      } else {
        found.insert(value);
      }
    };
    for (const auto* nodes : {&fold.members, &fold.repeats})
      for (const NodeId id : *nodes) {
        if (sums(id)) {
          add(move(id)->edges);
          found.insert(move(id)->table);
        } else {
          for (const ValueId value : graph_.node(id).inputs) add(value);
        }
      }
    return found;
  }

  /// Computes here what another pass computed for edges, where that leaves fewer bytes from there to here.
  void repeat(Fold& fold) {
    Fold larger = fold;
    for (bool grows = true; grows;) {
      grows = false;
      for (const ValueId value : inputs_of(larger)) {
        const NodeId id = producer(value);
        if (id == kNoNode || graph_.type(value).shape != fold.space || move(id) || graph_.node(id).pass == pass(fold) ||
            !is_map(id, fold))
          continue;
        larger.repeats.insert(id);
        grows = true;
        break;
      }
    }
    if (larger.repeats.empty() || !settle(larger) || !is_small(larger)) return;
    if (kept_bytes(larger) < kept_bytes(fold)) fold = std::move(larger);
  }

  /// Bytes that wait for the fold alone: inputs that nobody else needs as tensors in its pass or behind it. What may
  /// fold yet may compute them for itself, too.
  int64_t kept_bytes(const Fold& fold) const {
    const auto needs = [&](NodeId user, ValueId value) {
      if (fold.members.contains(user)) return false;
      if (const int other = fold_of_[static_cast<size_t>(user)]; other != kNone)
        return !is_inside(folds_[static_cast<size_t>(other)], value);
      return !move(user) && !is_map(user, fold) && (graph_.node(user).pass == pass(fold) || user >= fold.place);
    };
    int64_t bytes = 0;
    for (const ValueId value : inputs_of(fold))
      if (producer(value) != kNoNode && !is_output_[static_cast<size_t>(value)] &&
          std::ranges::none_of(users(value), [&](NodeId user) { return needs(user, value); }))
        bytes += graph_.type(value).bytes();
    return bytes;
  }

  bool is_small(const Fold& fold) const {
    const FoldProgram made = program_of(fold);
    return std::ssize(made.inputs) <= limits_.inputs && std::ssize(made.program.steps) <= limits_.steps;
  }

  /// Whether tensors of edges x features go away: rows that were read for it, or messages that were summed.
  bool gains(const Fold& fold) const {
    const FoldProgram made = program_of(fold);
    const auto read = std::ranges::count_if(made.inputs, [](const auto& input) { return input.second != kNone; });
    const bool maps = std::ranges::any_of(fold.members, [&](NodeId id) { return !sums(id); });
    const bool ends = std::ranges::any_of(fold.members, [&](NodeId id) { return sums(id); });
    return ends ? maps || read > 0 : read > 1;
  }

  // --- what becomes of them ---

  /// Whether somebody reads a value that a fold makes as a tensor. Known once all folds are.
  bool is_read(ValueId value) const {
    if (is_output_[static_cast<size_t>(value)] || wanted_.contains(value)) return true;
    return std::ranges::any_of(users(value), [&](NodeId user) {
      return fold_of_[static_cast<size_t>(user)] == kNone && !dead_[static_cast<size_t>(user)];
    });
  }

  /// Writes the program of a fold.
  class Writer {
   public:
    Writer(const Folder& folder, const Fold& fold) : folder_(folder), graph_(folder.graph_), fold_(fold) {
      // All inputs are known before the first step.
      std::set<NodeId> maps = fold.repeats;
      for (const NodeId id : fold.members)
        if (!folder.sums(id)) maps.insert(id);
      for (const NodeId id : maps)
        for (const ValueId value : graph_.node(id).inputs) find_input(value);
      for (const NodeId id : fold.members)
        if (folder.sums(id)) find_input(folder.move(id)->edges);
      for (const NodeId id : maps) append(id);
      for (const NodeId id : fold.members) give(id);
    }

    FoldProgram take() { return std::move(made_); }

   private:
    int table(ValueId value, bool pointers) {
      const std::pair<ValueId, bool> table{value, pointers};
      const auto at = std::ranges::find(made_.tables, table);
      const auto number = static_cast<int>(at - made_.tables.begin());
      if (at == made_.tables.end()) made_.tables.push_back(table);
      return number;
    }

    void find_input(ValueId value) {
      if (folder_.is_inside(fold_, value) || number_.contains(value)) return;
      std::pair<ValueId, int> input{value, kNone};
      const NodeId id = graph_.value(value).producer;
      if (folder_.reads(id) && folder_.move(id)->lead == fold_.lead) {
        const EdgeMove& move = *folder_.move(id);
        input = {move.rows, table(move.table, move.pointers)};
      }
      const auto at = std::ranges::find(made_.inputs, input);
      number_[value] = static_cast<int>(at - made_.inputs.begin());
      if (at == made_.inputs.end()) made_.inputs.push_back(input), ++made_.program.inputs;
    }

    /// Appends a node's own program. Nodes come in order, so its operands are there.
    void append(NodeId id) {
      const Node& node = graph_.node(id);
      const MapProgram own = map_program_of(graph_.signature(id));
      std::vector<int> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(number_.at(input));
      const std::vector<int> values = append_steps(made_.program, own, std::move(inputs));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        number_[node.outputs[i]] = append_rounding(made_.program, values[static_cast<size_t>(own.outputs[i].value)],
                                                   graph_.type(node.outputs[i]).dtype);
    }

    void give(NodeId id) {
      for (const ValueId value : graph_.node(id).outputs) {
        if (!folder_.is_read(value)) continue;
        const TensorType& type = graph_.type(value);
        made_.outputs.push_back(value);
        made_.dtypes.push_back(type.dtype);
        if (!folder_.sums(id)) {
          made_.program.outputs.push_back({number_.at(value)});
          made_.sums.push_back(kNone), made_.rows.push_back(0), made_.means.push_back(0);
          continue;
        }
        const EdgeMove& move = *folder_.move(id);
        made_.program.outputs.push_back({number_.at(move.edges)});
        made_.sums.push_back(table(move.table, move.pointers));
        made_.rows.push_back(type.shape.dim(move.lead - 1));
        made_.means.push_back(move.mean);
      }
    }

    const Folder& folder_;
    const Graph& graph_;
    const Fold& fold_;
    FoldProgram made_;
    std::map<ValueId, int> number_;
  };

  FoldProgram program_of(const Fold& fold) const { return Writer(*this, fold).take(); }

  /// Nodes that nobody needs any more. What had no reader before stays as it was.
  void find_dead() {
    for (const Fold& fold : folds_) {
      const std::set<ValueId> inputs = inputs_of(fold);
      wanted_.insert(inputs.begin(), inputs.end());
    }
    std::set<ValueId> needed = wanted_;
    for (NodeId id = nodes() - 1; id >= 0; --id) {
      if (fold_of_[static_cast<size_t>(id)] != kNone) continue;
      const Node& node = graph_.node(id);
      const bool dead = std::ranges::any_of(node.outputs, [&](ValueId value) { return !users(value).empty(); }) &&
                        std::ranges::none_of(node.outputs, [&](ValueId value) {
                          return needed.contains(value) || is_output_[static_cast<size_t>(value)];
                        });
      dead_[static_cast<size_t>(id)] = dead;
      if (!dead) needed.insert(node.inputs.begin(), node.inputs.end());
    }
  }

  void emit(const Fold& fold, GraphCopier& copier, Graph& result) const {
    const FoldProgram made = program_of(fold);
    if (made.outputs.empty()) return;
    std::vector<ValueId> inputs;
    std::vector<int64_t> pointers, reads;
    for (const auto& [value, is_pointers] : made.tables)
      inputs.push_back(copier[value]), pointers.push_back(is_pointers);
    for (const auto& [value, table] : made.inputs) inputs.push_back(copier[value]), reads.push_back(table);
    Attributes attributes{{"program", made.program.text()},
                          {"shape", fold.space.dims()},
                          {"dtypes", dtypes_text(made.dtypes)},
                          {"lead", fold.lead},
                          {"pointers", pointers},
                          {"reads", reads},
                          {"sums", made.sums},
                          {"rows", made.rows}};
    if (std::ranges::any_of(made.means, [](int64_t mean) { return mean != 0; })) attributes.set("means", made.means);
    NodeInfo info = copier.info(*fold.members.rbegin());
    info.serial = serial_of(fold);
    const NodeId node = result.add_node(OpRegistry::instance().get("edge_map"), inputs, attributes, std::move(info));
    for (size_t i = 0; i < made.outputs.size(); ++i) copier.map(made.outputs[i], result.node(node).outputs[i]);
  }

  /// The last number that a node of the fold has.
  int32_t serial_of(const Fold& fold) const {
    for (auto id = fold.members.rbegin(); id != fold.members.rend(); ++id)
      if (graph_.node(*id).serial != 0) return graph_.node(*id).serial;
    return 0;
  }

  void stand_in(NodeId id, const Fold& fold, GraphCopier& copier) const {
    if (const int32_t serial = graph_.node(id).serial, other = serial_of(fold); serial != 0 && other != 0)
      copier.stand_in(serial, other);
  }

  Graph rebuild() const {
    std::map<NodeId, std::vector<const Fold*>> at;
    // Of folds with one place those that were found later are read by those that were found earlier.
    for (auto fold = folds_.rbegin(); fold != folds_.rend(); ++fold) at[fold->place].push_back(&*fold);
    Graph result(graph_.name());
    GraphCopier copier(graph_, result);
    copier.copy_inputs();
    for (const Fold& fold : folds_) {
      for (const NodeId id : fold.members) stand_in(id, fold, copier);
      for (const NodeId id : computed_in(fold))
        if (dead_[static_cast<size_t>(id)] && !fold.repeats.contains(id)) stand_in(id, fold, copier);
    }
    for (NodeId id = 0; id <= nodes(); ++id) {
      for (const Fold* fold : at[id]) emit(*fold, copier, result);
      if (id < nodes() && fold_of_[static_cast<size_t>(id)] == kNone && !dead_[static_cast<size_t>(id)])
        copier.copy_node(id);
    }
    copier.copy_outputs();
    return result;
  }

  const Graph& graph_;
  const MergeLimits limits_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_output_;
  std::vector<std::optional<EdgeMove>> moves_;
  std::vector<int> fold_of_;     ///< of nodes that are members, kNone of others
  std::vector<NodeId> used_at_;  ///< the first place of a fold that computes a node beside its own place
  std::vector<bool> dead_;
  std::set<ValueId> wanted_;  ///< operands of folds
  std::vector<Fold> folds_;
};

}  // namespace

Graph fold_messages(const Graph& graph, const MergeLimits& limits) { return Folder(graph, limits).run(); }

}  // namespace ramet::transform

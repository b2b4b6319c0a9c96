#include "ramet/transform/pick_early.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ramet/ops/build.h"

namespace ramet::transform {
namespace {

/// Rows that one node picks: `leading` dimensions of `whole` are rows, which the node sees as one dimension.
struct Picking {
  NodeId picker = kNoNode;
  ValueId whole = kNoValue;
  int leading = 1;
  std::set<NodeId> moved;     ///< nodes that compute picked rows alone
  std::set<NodeId> replaced;  ///< the picker, and views between `whole` and it
};

/// Whether the factors of the leading dimensions of `operand` are those of `rows`, and no other dimension has them.
enum class Holds { kRows, kNone, kOther };
Holds holds_rows(const ShardingRule::Operand& operand, const ShardingRule::Operand& output, int leading) {
  std::set<int> rows;
  for (int axis = 0; axis < leading; ++axis) rows.insert(output[static_cast<size_t>(axis)][0]);
  const auto has_row = [&](const ShardingRule::Dim& dim) {
    return std::any_of(dim.begin(), dim.end(), [&](int factor) { return rows.count(factor) > 0; });
  };
  const auto begin = operand.begin();
  if (std::none_of(begin, operand.end(), has_row)) return Holds::kNone;
  if (std::ssize(operand) < leading || !std::equal(begin, begin + leading, output.begin())) return Holds::kOther;
  return std::none_of(begin + leading, operand.end(), has_row) ? Holds::kRows : Holds::kOther;
}

class Picker {
 public:
  explicit Picker(const Graph& graph) : graph_(graph), uses_(graph.uses()), is_output_(graph.values().size(), false) {
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
  }

  /// The graph with the first picking that pays moved, or nothing.
  std::optional<Graph> run() {
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (!graph_.node(id).op->picks_rows) continue;
      if (const auto picking = find(id)) return rebuild(*picking);
    }
    return {};
  }

 private:
  bool read_only_by(ValueId value, const std::set<NodeId>& nodes) const {
    const auto& users = uses_[static_cast<size_t>(value)];
    return !is_output_[static_cast<size_t>(value)] &&
           std::all_of(users.begin(), users.end(), [&](NodeId user) { return nodes.count(user) > 0; });
  }

  std::optional<Picking> find(NodeId id) const {
    const Node& picker = graph_.node(id);
    Picking picking{.picker = id, .whole = picker.inputs[0], .leading = 1, .moved = {}, .replaced = {id}};
    const Shape table = graph_.type(picking.whole).shape;
    for (NodeId maker = graph_.value(picking.whole).producer;
         maker != kNoNode && graph_.node(maker).op->is_view && read_only_by(picking.whole, picking.replaced);
         maker = graph_.value(picking.whole).producer) {
      picking.replaced.insert(maker);
      picking.whole = graph_.node(maker).inputs[0];
    }
    const Shape& whole = graph_.type(picking.whole).shape;
    picking.leading = whole.rank() - table.rank() + 1;
    if (picking.leading < 1) return {};
    for (int axis = 1; axis < table.rank(); ++axis)
      if (table[axis] != whole[axis + picking.leading - 1]) return {};
    if (2 * graph_.type(picker.inputs[1]).elements() > table[0]) return {};
    find_moved(picking);
    const bool pays = std::any_of(picking.moved.begin(), picking.moved.end(),
                                  [&](NodeId node) { return static_cast<bool>(graph_.node(node).op->products); });
    return pays && !needs_moved(picker.inputs[1], picking) ? std::optional(picking) : std::nullopt;
  }

  void find_moved(Picking& picking) const {
    std::set<ValueId> picked = {picking.whole};
    std::set<NodeId> readers = picking.replaced;
    for (NodeId id = picking.picker; id-- > 0;) {
      const Node& node = graph_.node(id);
      const bool wanted =
          std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId value) { return picked.count(value) > 0; });
      if (!wanted || picking.replaced.count(id) || !moves(id, picking, readers)) continue;
      picking.moved.insert(id), readers.insert(id);
      const ShardingRule rule = node.op->sharding(graph_.signature(id));
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (holds_rows(rule.inputs[i], rule.outputs[0], picking.leading) == Holds::kRows) picked.insert(node.inputs[i]);
    }
  }

  bool moves(NodeId id, const Picking& picking, const std::set<NodeId>& readers) const {
    const Node& node = graph_.node(id);
    const NodeSignature signature = graph_.signature(id);
    const OpDef& op = *node.op;
    if (!op.sharding || op.is_view || op.exchange != Exchange::kNone || depends_on_positions(signature)) return false;
    for (const ValueId output : node.outputs)
      if (!read_only_by(output, readers)) return false;
    const ShardingRule rule = op.sharding(signature);
    const ShardingRule::Operand& output = rule.outputs[0];
    if (std::ssize(output) < picking.leading) return false;
    for (int axis = 0; axis < picking.leading; ++axis) {
      const ShardingRule::Dim& dim = output[static_cast<size_t>(axis)];
      if (dim.size() != 1) return false;
      const ShardingRule::Factor& factor = rule.factors[static_cast<size_t>(dim[0])];
      if (factor.whole || factor.reduce != ShardingRule::Reduce::kNone) return false;
    }
    for (const auto* operands : {&rule.inputs, &rule.outputs})
      for (const ShardingRule::Operand& operand : *operands)
        if (holds_rows(operand, output, picking.leading) == Holds::kOther) return false;
    return true;
  }

  /// Whether a value is computed from what moves.
  bool needs_moved(ValueId value, const Picking& picking) const {
    const NodeId maker = graph_.value(value).producer;
    if (maker == kNoNode) return false;
    if (picking.moved.count(maker)) return true;
    const auto& inputs = graph_.node(maker).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) { return needs_moved(input, picking); });
  }

  Graph rebuild(const Picking& picking) const;

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_output_;
};

/// Writes the graph in which the nodes of a picking have moved.
class Rebuild {
 public:
  Rebuild(const Graph& graph, const Picking& picking, Graph& result)
      : graph_(graph), picking_(picking), build_(result), copier_(graph, result) {}

  void run() {
    copier_.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (picking_.moved.count(id))
        move(id);
      else if (id == picking_.picker)
        finish();
      else if (!picking_.replaced.count(id))
        copy(id);
    }
    copier_.copy_outputs();
  }

 private:
  void copy(NodeId id) {
    if (copier_[graph_.node(id).outputs[0]] == kNoValue) copier_.copy_node(id);
  }

  /// A value of the new graph; the nodes that make it are copied to here where they stood later.
  Tensor early(ValueId value) {
    if (copier_[value] == kNoValue) {
      const NodeId maker = graph_.value(value).producer;
      for (const ValueId input : graph_.node(maker).inputs) early(input);
      const NodeId made = copier_.copy_node(maker);
      NodeInfo info = build_.graph().node(made).info();
      info.part = part_;
      build_.graph().set_info(made, std::move(info));
    }
    return build_.tensor(copier_[value]);
  }

  /// [rows..., H...] without all rows but the picked ones: [1, ..., picked, H...].
  Tensor picked(ValueId value) {
    if (const auto known = picked_.find(value); known != picked_.end()) return known->second;
    const Node& picker = graph_.node(picking_.picker);
    const Tensor indices = early(picker.inputs[1]), whole = build_.tensor(copier_[value]);
    std::vector<int64_t> flat = whole.shape().dims();
    flat.erase(flat.begin(), flat.begin() + picking_.leading - 1);
    flat[0] = graph_.type(picker.inputs[0]).shape[0];
    std::vector<int64_t> few = whole.shape().dims();
    std::fill(few.begin(), few.begin() + picking_.leading, 1);
    few[static_cast<size_t>(picking_.leading - 1)] = indices.type().elements();
    const Tensor row_indices = ops::reshape(indices, Shape({indices.type().elements()}));
    const Tensor rows = build_.op(picker.op->name, {ops::reshape(whole, Shape(flat)), row_indices}, picker.attributes);
    return picked_.emplace(value, ops::reshape(rows, Shape(few))).first->second;
  }

  void move(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeSignature signature = graph_.signature(id);
    ShardingRule rule = node.op->sharding(signature);
    part_ = node.part;
    InfoScope scope(build_, copier_.info(id));
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool rows = holds_rows(rule.inputs[i], rule.outputs[0], picking_.leading) == Holds::kRows;
      inputs.push_back(rows ? picked(node.inputs[i]).id : copier_[node.inputs[i]]);
    }
    for (int axis = 0; axis < picking_.leading; ++axis)
      rule.factors[static_cast<size_t>(rule.outputs[0][static_cast<size_t>(axis)][0])].size =
          axis + 1 < picking_.leading ? 1 : graph_.type(graph_.node(picking_.picker).inputs[1]).elements();
    const std::vector<int64_t> parts(rule.factors.size(), 1);
    const Attributes attributes = node.op->localize ? node.op->localize(signature, parts, rule) : node.attributes;
    const NodeId made = build_.graph().add_node(*node.op, std::move(inputs), attributes, copier_.info(id));
    for (size_t i = 0; i < node.outputs.size(); ++i)
      picked_.emplace(node.outputs[i], build_.tensor(build_.graph().node(made).outputs[i]));
  }

  void finish() {
    const ValueId output = graph_.node(picking_.picker).outputs[0];
    InfoScope scope(build_, copier_.info(picking_.picker));
    copier_.map(output, ops::reshape(picked(picking_.whole), graph_.type(output).shape).id);
  }

  const Graph& graph_;
  const Picking& picking_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::map<ValueId, Tensor> picked_;
  Part part_{};
};

Graph Picker::rebuild(const Picking& picking) const {
  Graph result(graph_.name());
  Rebuild(graph_, picking, result).run();
  return result;
}

}  // namespace

Graph pick_early(const Graph& graph) {
  Graph current = graph;
  while (auto next = Picker(current).run()) current = std::move(*next);
  return current;
}

StepGraph pick_early(StepGraph step) {
  for (StepProgram& program : step.programs)
    if (program.when.kind == When::Kind::kRequest && program.reads_data() && !program.writes_states())
      program.graph = pick_early(program.graph);
  return step;
}

}  // namespace ramet::transform

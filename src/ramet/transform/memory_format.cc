#include "ramet/transform/memory_format.h"

#include <algorithm>
#include <numeric>

#include "ramet/ops/channel_order.h"

namespace ramet::transform {
namespace {

using Dims = std::vector<int64_t>;

size_t at(int64_t index) { return static_cast<size_t>(index); }

Dims permuted(const Dims& dims, const Dims& order) {
  Dims result;
  for (int64_t axis : order) result.push_back(dims[at(axis)]);
  return result;
}

bool reads_first(const Node& node) {
  return !node.op->channels.empty() && !node.attributes.get_bool_or("channels_last", false);
}

/// Gives each value one of two forms, or both, as its readers need them.
class Formatter {
 public:
  explicit Formatter(const Graph& graph)
      : graph_(graph), result_(graph.name()), copier_(graph, result_), forms_(graph.values().size()) {}

  Graph run() {
    copier_.copy_inputs();
    for (const GraphInput& input : graph_.inputs()) form(input.value).first = copier_[input.value];
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      node_ = id;
      if (!with_channels() && !follow_view() && !follow_map() && !follow_rule()) copy();
    }
    for (const GraphOutput& output : graph_.outputs()) {
      node_ = graph_.value(output.value).producer;
      copier_.map(output.value, first(output.value));
    }
    copier_.copy_outputs();
    return std::move(result_);
  }

 private:
  /// The value in the new graph in either order, and whether it was made with its channels last.
  struct Form {
    ValueId first = kNoValue, last = kNoValue;
    bool made_last = false;
  };
  Form& form(ValueId value) { return forms_[at(value)]; }
  const Node& node() const { return graph_.node(node_); }
  int rank(ValueId value) const { return graph_.type(value).shape.rank(); }
  bool made_last(ValueId value) { return form(value).made_last; }

  ValueId add(const char* op, ValueId input, Attributes attributes) {
    const NodeInfo info = copier_.info(node_);
    NodeInfo made = info.named(info.name + "/" + op);
    made.serial = 0;
    const NodeId id = result_.add_node(OpRegistry::instance().get(op), {input}, std::move(attributes), made);
    return result_.node(id).outputs[0];
  }
  ValueId first(ValueId value) {
    Form& f = form(value);
    if (f.first == kNoValue)
      f.first = add("transpose", f.last, {{"permutation", ops::channels_first_order(rank(value))}});
    return f.first;
  }
  ValueId last(ValueId value) {
    Form& f = form(value);
    if (f.last == kNoValue)
      f.last = add("transpose", f.first, {{"permutation", ops::channels_last_order(rank(value))}});
    return f.last;
  }

  /// Copies the node at hand; `are_last` says of each output whether it comes with channels last.
  void add_copy(std::vector<ValueId> inputs, Attributes attributes, const std::vector<bool>& are_last) {
    copier_.copy_node(node_, std::move(inputs), std::move(attributes));
    for (size_t i = 0; i < node().outputs.size(); ++i) {
      Form& f = form(node().outputs[i]);
      (are_last[i] ? f.last : f.first) = copier_[node().outputs[i]];
      f.made_last = are_last[i];
    }
  }
  void copy() {
    std::vector<ValueId> inputs;
    for (ValueId input : node().inputs) inputs.push_back(first(input));
    add_copy(std::move(inputs), node().attributes, std::vector<bool>(node().outputs.size(), false));
  }

  /// Ops with channels: products always, others after what came with channels last.
  bool with_channels() {
    if (!reads_first(node())) return false;
    const ChannelOperands& operands = node().op->channels;
    const auto reads = [&](int input) { return made_last(node().inputs[at(input)]); };
    if (!node().op->products && std::none_of(operands.inputs.begin(), operands.inputs.end(), reads)) return false;
    const auto has = [](const std::vector<int>& list, size_t index) {
      return std::find(list.begin(), list.end(), static_cast<int>(index)) != list.end();
    };
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node().inputs.size(); ++i)
      inputs.push_back(has(operands.inputs, i) ? last(node().inputs[i]) : first(node().inputs[i]));
    std::vector<bool> are_last;
    for (size_t i = 0; i < node().outputs.size(); ++i) are_last.push_back(has(operands.outputs, i));
    Attributes attributes = node().attributes;
    attributes.set("channels_last", true);
    add_copy(std::move(inputs), std::move(attributes), are_last);
    return true;
  }

  bool any_made_last() {
    return std::any_of(node().inputs.begin(), node().inputs.end(), [&](ValueId input) { return made_last(input); });
  }

  /// A view that changes the dimensions of space alone: [N, C, H, W] as [N, C, H W].
  bool follow_view() {
    if (!node().op->is_view || !any_made_last() || !node().attributes.has("shape")) return false;
    const Dims &from = graph_.type(node().inputs[0]).shape.dims(), &to = graph_.type(node().outputs[0]).shape.dims();
    if (to.size() < 3 || from[0] != to[0] || from[1] != to[1]) return false;
    Attributes attributes = node().attributes;
    attributes.set("shape", permuted(to, ops::channels_last_order(static_cast<int>(to.size()))));
    add_copy({last(node().inputs[0])}, std::move(attributes), {true});
    return true;
  }

  /// An operand of an element-wise node that broadcasts to `space` dimensions, for results with channels last.
  ValueId broadcast_operand(ValueId value, int space) {
    if (rank(value) == space) return last(value);
    Dims dims = graph_.type(value).shape.dims();
    dims.insert(dims.begin(), at(space - rank(value)), 1);
    const Dims order = ops::channels_last_order(space);
    Dims moved;  // dimensions that are more than 1, in their new order
    for (int64_t axis : order)
      if (dims[at(axis)] != 1) moved.push_back(axis);
    if (std::is_sorted(moved.begin(), moved.end()))
      return add("reshape", first(value), {{"shape", permuted(dims, order)}});
    return add("transpose", add("reshape", first(value), {{"shape", dims}}), {{"permutation", order}});
  }

  /// Whether an operand's dimensions are those of the result, aligned at the end, or broadcast along them.
  static bool broadcasts(const ShardingRule& rule, size_t input) {
    const ShardingRule::Operand &in = rule.inputs[input], &out = rule.outputs[0];
    if (in.size() > out.size()) return false;
    for (size_t i = 0; i < in.size(); ++i)
      if (!in[i].empty() && in[i] != out[out.size() - in.size() + i]) return false;
    return true;
  }

  bool follow_map() {
    if (node().op->map_op.empty() || !any_made_last()) return false;
    const int space = rank(node().outputs[0]);
    const ShardingRule rule = node().op->sharding(graph_.signature(node_));
    std::vector<ValueId> inputs;
    for (ValueId input : node().inputs)
      if (made_last(input) && rank(input) != space) return false;
    for (size_t i = 0; i < node().inputs.size(); ++i) {
      const ValueId input = node().inputs[i];
      const bool alike = graph_.type(input).elements() == 1 && rank(input) <= space && !made_last(input);
      inputs.push_back(alike || !broadcasts(rule, i) ? first(input) : broadcast_operand(input, space));
    }
    add_copy(std::move(inputs), node().attributes, std::vector<bool>(node().outputs.size(), true));
    return true;
  }

  bool follow_rule() {
    const auto& rule = node().op->permuted;
    if (!rule || !any_made_last()) return false;
    const int space = rank(node().inputs[0]);
    for (ValueId input : node().inputs)
      if (rank(input) != space) return false;
    const auto made = rule(graph_.signature(node_), ops::channels_last_order(space));
    if (!made) return false;
    std::vector<ValueId> inputs;
    for (ValueId input : node().inputs) inputs.push_back(last(input));
    add_copy(std::move(inputs), made->attributes, std::vector<bool>(node().outputs.size(), made->outputs_too));
    return true;
  }

  const Graph& graph_;
  Graph result_;
  GraphCopier copier_;
  std::vector<Form> forms_;
  NodeId node_ = kNoNode;
};

}  // namespace

bool has_channels_first(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return reads_first(node) && node.op->products; });
}

Graph set_memory_format(const Graph& graph) { return has_channels_first(graph) ? Formatter(graph).run() : graph; }

}  // namespace ramet::transform

#include "ramet/transform/layer_inputs.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ramet/transform/recompute.h"

namespace ramet::transform {

bool is_cheap(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op->cheap || !node.op->map_op.empty() || node.op->is_view) return true;
  if (!node.op->cost) return false;
  const Cost cost = node.op->cost(graph.signature(id));
  const Cost moved{.flops = 0, .bytes_read = cost.bytes_read, .bytes_written = cost.bytes_written};
  return cost.bytes_written > cost.bytes_read && Rates().seconds(cost) <= Rates().seconds(moved);
}

namespace {

class InputMover {
 public:
  explicit InputMover(const Graph& graph) : result_(graph), uses_(graph.uses()) {
    find_fed();
    is_output_.assign(graph.values().size(), false);
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
  }

  /// The last nodes first, so that whole chains move.
  Graph run() {
    for (NodeId id = static_cast<NodeId>(result_.nodes().size()) - 1; id >= 0; --id) {
      const Node& node = result_.node(id);
      if (node.pass != NodePass::kForward || !node.part.known() || !is_cheap(result_, id)) continue;
      const std::optional<Part> reader = only_reader(node);
      if (!reader || !comes_from_one(node)) continue;
      NodeInfo info = node.info();
      info.part = *reader;
      result_.set_info(id, std::move(info));
    }
    return std::move(result_);
  }

 private:
  /// Which values depend on data.
  void find_fed() {
    fed_.assign(result_.values().size(), false);
    for (const GraphInput& input : result_.inputs())
      fed_[static_cast<size_t>(input.value)] = input.role == InputRole::kData || input.role == InputRole::kBoundary;
    for (const Node& node : result_.nodes())
      for (ValueId output : node.outputs)
        fed_[static_cast<size_t>(output)] =
            std::ranges::any_of(node.inputs, [&](ValueId input) { return fed_[static_cast<size_t>(input)]; });
  }

  /// The other layer whose forward pass alone reads what a node makes.
  std::optional<Part> only_reader(const Node& node) const {
    std::optional<Part> found;
    for (ValueId output : node.outputs) {
      if (is_output_[static_cast<size_t>(output)]) return std::nullopt;
      for (NodeId user : uses_[static_cast<size_t>(output)]) {
        if (result_.node(user).pass != NodePass::kForward) continue;
        const Part& part = result_.node(user).part;
        if (!part.known() || part == node.part || (found && !(part == *found))) return std::nullopt;
        found = part;
      }
    }
    return found;
  }

  /// Whether a node makes its results from one tensor of its own layer, which waits for the backward pass anyway and is
  /// no larger than they.
  bool comes_from_one(const Node& node) const {
    int64_t made = 0;
    for (ValueId output : node.outputs) made += result_.type(output).bytes();
    ValueId from = kNoValue;
    for (ValueId input : node.inputs) {
      if (!fed_[static_cast<size_t>(input)] || input == from) continue;
      if (from != kNoValue) return false;
      from = input;
    }
    if (from == kNoValue || result_.type(from).bytes() > made) return false;
    const NodeId producer = result_.value(from).producer;
    if (producer == kNoNode || !(result_.node(producer).part == node.part)) return false;
    return node.op->is_view || std::ranges::any_of(uses_[static_cast<size_t>(from)], [&](NodeId user) {
             return result_.node(user).pass == NodePass::kBackward;
           });
  }

  Graph result_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> fed_, is_output_;
};

}  // namespace

Graph with_late_inputs(const Graph& micro) { return InputMover(micro).run(); }

}  // namespace ramet::transform

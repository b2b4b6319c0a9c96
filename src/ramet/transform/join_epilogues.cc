#include "ramet/transform/join_epilogues.h"

#include <algorithm>
#include <vector>

#include "ramet/ops/epilogue.h"

namespace ramet::transform {
namespace {

bool may_have_epilogue(const Node& node) {
  return node.outputs.size() == 1 && std::any_of(node.op->attributes.begin(), node.op->attributes.end(),
                                                 [](const AttributeSpec& spec) { return spec.name == "epilogue"; });
}

class Joiner {
 public:
  Joiner(const Graph& graph, const TakesEpilogue& takes)
      : graph_(graph), takes_(takes), joined_(graph.nodes().size()), left_out_(graph.nodes().size(), false) {}

  Graph run() {
    find_pairs();
    Graph result(graph_.name());
    GraphCopier copier(graph_, result);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (left_out_[static_cast<size_t>(id)]) continue;
      if (joined_[static_cast<size_t>(id)].before == kNoNode)
        copier.copy_node(id);
      else
        add_joined(id, result, copier);
    }
    copier.copy_outputs();
    return result;
  }

 private:
  /// What takes the place of an element-wise node: the node before it, with an epilogue.
  struct Joined {
    NodeId before = kNoNode;
    std::vector<ValueId> inputs{};  // of this graph
    Attributes attributes{};
  };

  /// The last node before an element-wise node takes it, so that all other operands are there by then.
  void find_pairs() {
    const std::vector<std::vector<NodeId>> uses = graph_.uses();
    std::vector<bool> is_output(graph_.values().size(), false);
    for (const GraphOutput& output : graph_.outputs()) is_output[static_cast<size_t>(output.value)] = true;
    for (NodeId id = static_cast<NodeId>(graph_.nodes().size()) - 1; id >= 0; --id) {
      const Node& node = graph_.node(id);
      if (!may_have_epilogue(node)) continue;
      const ValueId value = node.outputs[0];
      const std::vector<NodeId>& users = uses[static_cast<size_t>(value)];
      if (!is_output[static_cast<size_t>(value)] && users.size() == 1) try_join(id, users[0]);
    }
  }

  void try_join(NodeId id, NodeId behind) {
    const Node &node = graph_.node(id), &map = graph_.node(behind);
    Joined& joined = joined_[static_cast<size_t>(behind)];
    const ValueId value = node.outputs[0];
    if (joined.before != kNoNode || map.part != node.part || map.pass != node.pass ||
        std::count(map.inputs.begin(), map.inputs.end(), value) != 1)
      return;
    const auto input = static_cast<int>(std::find(map.inputs.begin(), map.inputs.end(), value) - map.inputs.begin());
    const NodeSignature bare = graph_.signature(id), behind_it = graph_.signature(behind);
    auto attributes = ops::epilogue_attributes(bare, behind_it, input);
    if (!attributes) return;
    NodeSignature signature = bare;
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < map.inputs.size(); ++i) {
      if (static_cast<int>(i) == input) continue;
      inputs.push_back(map.inputs[i]);
      signature.inputs.push_back(behind_it.inputs[i]);
    }
    signature.attributes = *attributes;
    signature.outputs = behind_it.outputs;
    if (!takes_(bare, signature)) return;
    joined = {id, std::move(inputs), std::move(*attributes)};
    left_out_[static_cast<size_t>(id)] = true;
  }

  void add_joined(NodeId behind, Graph& result, GraphCopier& copier) const {
    const Joined& joined = joined_[static_cast<size_t>(behind)];
    const Node &node = graph_.node(joined.before), &map = graph_.node(behind);
    if (map.serial != 0 && node.serial != 0) copier.stand_in(map.serial, node.serial);
    std::vector<ValueId> inputs;
    for (ValueId input : joined.inputs) inputs.push_back(copier[input]);
    const NodeId made = result.add_node(*node.op, std::move(inputs), joined.attributes, copier.info(joined.before));
    copier.map(map.outputs[0], result.node(made).outputs[0]);
    result.set_value_name(result.node(made).outputs[0], graph_.value(map.outputs[0]).name);
  }

  const Graph& graph_;
  const TakesEpilogue& takes_;
  std::vector<Joined> joined_;  // of each node
  std::vector<bool> left_out_;  // nodes that have become part of another
};

}  // namespace

Graph join_epilogues(const Graph& graph, const TakesEpilogue& takes) { return Joiner(graph, takes).run(); }

}  // namespace ramet::transform

#include "ramet/transform/sum_in_place.h"

#include <algorithm>
#include <vector>

namespace ramet::transform {
namespace {

bool can_accumulate(const Node& node) {
  return node.outputs.size() == 1 && !node.attributes.has("accumulate") &&
         std::any_of(node.op->attributes.begin(), node.op->attributes.end(),
                     [](const AttributeSpec& spec) { return spec.name == "accumulate"; });
}

class InPlace {
 public:
  InPlace(const Graph& graph, const std::function<bool(const std::string&)>& is_sum)
      : graph_(graph), uses_(graph.uses()), is_output_(graph.values().size(), false), sum_of_(graph.nodes().size()) {
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
    for (const GraphOutput& output : graph.outputs())
      if (output.role == OutputRole::kState && is_sum(output.name)) find_term(output);
  }

  Graph run() {
    Graph result(graph_.name());
    GraphCopier copier(graph_, result);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const Node& node = graph_.node(id);
      if (copier[node.outputs[0]] != kNoValue) continue;  // its term has added to the sum
      const Sum& sum = sum_of_[static_cast<size_t>(id)];
      if (sum.before == kNoValue) {
        copier.copy_node(id);
        continue;
      }
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(copier[input]);
      inputs.push_back(copier[sum.before]);
      Attributes attributes = node.attributes;
      attributes.set("accumulate", true);
      const NodeId made = result.add_node(*node.op, std::move(inputs), std::move(attributes), copier.info(id));
      copier.map(sum.after, result.node(made).outputs[0]);
    }
    copier.copy_outputs();
    return result;
  }

 private:
  /// The sum that a node's result is added to: its old and its new value.
  struct Sum {
    ValueId before = kNoValue, after = kNoValue;
  };

  /// Notes the node that makes the term of `output` = its state + the term.
  void find_term(const GraphOutput& output) {
    const NodeId adder = graph_.value(output.value).producer;
    if (adder == kNoNode) return;
    const Node& add = graph_.node(adder);
    if (add.op->map_op != "add" || add.inputs.size() != 2) return;
    const ValueId before = graph_.find_input(output.name);
    for (size_t i = 0; i < 2; ++i) {
      const ValueId term = add.inputs[1 - i];
      const NodeId maker = graph_.value(term).producer;
      if (add.inputs[i] != before || maker == kNoNode || is_output_[static_cast<size_t>(term)]) continue;
      if (!can_accumulate(graph_.node(maker)) || uses_[static_cast<size_t>(term)].size() != 1 ||
          graph_.type(term) != graph_.type(before))
        continue;
      sum_of_[static_cast<size_t>(maker)] = {before, add.outputs[0]};
      return;
    }
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_output_;
  std::vector<Sum> sum_of_;  // of each node
};

}  // namespace

Graph sum_in_place(const Graph& graph, const std::function<bool(const std::string&)>& is_sum) {
  return InPlace(graph, is_sum).run();
}

}  // namespace ramet::transform

#include "ramet/transform/simplify.h"

#include <algorithm>
#include <unordered_map>

#include "ramet/base/error.h"
#include "ramet/ir/builder.h"

namespace ramet::transform {
namespace {

constexpr int kMaxRounds = 8;

std::vector<bool> find_live(const Graph& graph) {
  std::vector<bool> live(graph.values().size(), false);
  for (const auto& output : graph.outputs()) live[static_cast<size_t>(output.value)] = true;
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return live[static_cast<size_t>(id)]; });
    if (!needed) continue;
    for (ValueId input : node.inputs) live[static_cast<size_t>(input)] = true;
  }
  return live;
}

/// One sweep in order: drops the dead, replaces by identities, shares equal nodes.
class Sweep {
 public:
  Sweep(const Graph& graph, Graph& result) : graph_(graph), result_(result), build_(result), copier_(graph, result) {}

  bool run() {
    const std::vector<bool> live = find_live(graph_);
    for (const auto& input : graph_.inputs()) {
      if (input.role == InputRole::kState && !live[static_cast<size_t>(input.value)]) {
        changed_ = true;
        continue;
      }
      copier_.copy_input(input);
    }
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const Node& node = graph_.node(id);
      if (std::none_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return live[static_cast<size_t>(v)]; }))
        changed_ = true;
      else if (!replace(id) && !share(id))
        record(id);
    }
    copier_.copy_outputs();
    return changed_;
  }

 private:
  bool replace(NodeId id) {
    const Node& node = graph_.node(id);
    if (!node.op->simplify || node.outputs.size() != 1) return false;
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) inputs.push_back(build_.tensor(copier_[input]));
    const NodeSignature signature = graph_.signature(id);
    InfoScope scope(build_, copier_.info(id));
    SimplifyContext context{build_, signature, inputs};
    const Tensor same = node.op->simplify(context);
    if (!same.valid()) return false;
    if (same.type() != graph_.type(node.outputs[0]))
      internal_error("simplify", "identity of " + signature.text() + " changes the type");
    copier_.map(node.outputs[0], same.id);
    if (const NodeId maker = result_.value(same.id).producer; maker != kNoNode)
      copier_.stand_in(node.serial, result_.node(maker).serial);
    return changed_ = true;
  }

  std::string key_of(const Node& node) const {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(copier_[input]);
    if (node.op->commutative) std::sort(inputs.begin(), inputs.end());
    std::string key = node.op->name;
    for (ValueId input : inputs) key += ' ' + std::to_string(input);
    for (const auto& [name, attribute] : node.attributes) key += ' ' + name + '=' + short_text_of(attribute);
    return key;
  }

  bool share(NodeId id) {
    const Node& node = graph_.node(id);
    std::string key = key_of(node);
    const auto known = nodes_.find(key);
    if (known == nodes_.end()) {
      pending_key_ = std::move(key);
      return false;
    }
    const Node& same = result_.node(known->second);
    for (size_t i = 0; i < node.outputs.size(); ++i) copier_.map(node.outputs[i], same.outputs[i]);
    copier_.stand_in(node.serial, same.serial);
    return changed_ = true;
  }

  void record(NodeId id) { nodes_.emplace(std::move(pending_key_), copier_.copy_node(id)); }

  const Graph& graph_;
  Graph& result_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::unordered_map<std::string, NodeId> nodes_;
  std::string pending_key_;
  bool changed_ = false;
};

}  // namespace

Graph simplify(const Graph& graph) {
  Graph current = graph;
  for (int round = 0; round < kMaxRounds; ++round) {
    Graph next(graph.name());
    if (!Sweep(current, next).run()) break;
    current = std::move(next);
  }
  return current;
}

StepGraph simplify(StepGraph step) {
  for (Graph* graph : step.graphs()) *graph = simplify(*graph);
  return step;
}

}  // namespace ramet::transform

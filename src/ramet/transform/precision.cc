#include "ramet/transform/precision.h"

#include <algorithm>
#include <map>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"

namespace ramet {
namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, DType compute, Graph& result)
      : graph_(graph), compute_(compute), build_(result), copier_(graph, result) {}

  void run() {
    copier_.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) lower(id);
    for (const auto& output : graph_.outputs()) {
      const ValueId value = in_type(copier_[output.value], graph_.type(output.value).dtype);
      build_.graph().add_output(output.name, value, output.role);
    }
  }

 private:
  DType dtype(ValueId lowered) const { return const_cast<GraphBuilder&>(build_).graph().type(lowered).dtype; }

  ValueId in_type(ValueId value, DType wanted) {
    if (dtype(value) == wanted || !is_floating(dtype(value))) return value;
    const auto [place, added] = casts_.emplace(std::pair(value, wanted), kNoValue);
    if (added) place->second = cast(build_.tensor(value), wanted).id;
    return place->second;
  }

  /// The type in which the node's floating inputs meet, by its policy; f32 inputs stay when nothing is low.
  DType meeting_type(const Node& node) const {
    if (node.op->precision == OpDef::Precision::kLow) return compute_;
    if (node.op->precision == OpDef::Precision::kFull) return DType::kF32;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!stays_full(node, i) && dtype(copier_[node.inputs[i]]) == compute_) return compute_;
    return DType::kF32;
  }

  static bool stays_full(const Node& node, size_t input) {
    return std::find(node.op->full_inputs.begin(), node.op->full_inputs.end(), static_cast<int>(input)) !=
           node.op->full_inputs.end();
  }

  void lower(NodeId id) {
    const Node& node = graph_.node(id);
    Scope scope(build_, node.name);
    const DType meeting = meeting_type(node);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = copier_[node.inputs[i]];
      // Only f32 and the compute type take part; a model's own choice of another type is respected.
      const bool free = dtype(input) == DType::kF32 || dtype(input) == compute_;
      inputs.push_back(free && !stays_full(node, i) ? in_type(input, meeting) : input);
    }
    Graph& result = build_.graph();
    const NodeId lowered = result.add_node(*node.op, inputs, node.attributes, node.name);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      copier_.map(node.outputs[i], result.node(lowered).outputs[i]);
      const std::string& name = graph_.value(node.outputs[i]).name;
      if (!name.empty()) result.set_value_name(result.node(lowered).outputs[i], name);
    }
  }

  const Graph& graph_;
  const DType compute_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

Graph lower_precision(const Graph& graph, DType compute) {
  if (compute == DType::kF32) return graph;
  if (compute != DType::kBF16 && compute != DType::kF16)
    throw Error({.what = "cannot compute in this type",
                 .found = std::string(name_of(compute)),
                 .expected = "f32, bf16 or f16"});
  Graph result(graph.name());
  Lowering(graph, compute, result).run();
  return result;
}

}  // namespace ramet

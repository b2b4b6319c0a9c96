#include "ramet/transform/precision.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ops/build.h"

namespace ramet::transform {
namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, const Precision& precision, Graph& result)
      : graph_(graph), compute_(precision.compute), narrow_(precision.narrow), build_(result), copier_(graph, result) {}

  void run() {
    copier_.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) lower(id);
    for (const auto& output : graph_.outputs()) {
      // The part of the model that makes a state's next value converts it too, as layouts cut between parts.
      const NodeId producer = graph_.value(output.value).producer;
      const bool next_state = output.role == OutputRole::kState && producer != kNoNode;
      InfoScope scope(build_, next_state ? graph_.node(producer).info() : NodeInfo());
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

  /// Products of a weight, a matrix, in 8 bits.
  bool is_narrow(const Node& node) const {
    return narrow_ && node.op->narrow && graph_.type(node.inputs[1]).shape.rank() == 2;
  }

  static bool stays_full(const Node& node, size_t input) {
    return std::find(node.op->full_inputs.begin(), node.op->full_inputs.end(), static_cast<int>(input)) !=
           node.op->full_inputs.end();
  }

  void lower(NodeId id) {
    const Node& node = graph_.node(id);
    InfoScope scope(build_, node);
    const bool narrow = is_narrow(node);
    const DType meeting = narrow ? DType::kF8E4M3 : meeting_type(node);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = copier_[node.inputs[i]];
      // Only f32 and the compute type take part; a model's own choice of another type is respected.
      const bool free = dtype(input) == DType::kF32 || dtype(input) == compute_;
      inputs.push_back(free && !stays_full(node, i) ? in_type(input, meeting) : input);
    }
    Graph& result = build_.graph();
    Attributes attributes = node.attributes;
    if (narrow && !attributes.has("dtype")) attributes.set("dtype", compute_);
    const NodeId lowered = result.add_node(*node.op, inputs, attributes, node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      copier_.map(node.outputs[i], result.node(lowered).outputs[i]);
      const std::string& name = graph_.value(node.outputs[i]).name;
      if (!name.empty()) result.set_value_name(result.node(lowered).outputs[i], name);
    }
  }

  const Graph& graph_;
  const DType compute_;
  const bool narrow_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

/// Copies a graph and gives its weights their held types.
class Holding {
 public:
  Holding(const Graph& graph, const std::vector<std::string>& weights, HeldForm form, Graph& result)
      : graph_(graph),
        weights_(weights.begin(), weights.end()),
        form_(form),
        build_(result),
        copier_(graph, result),
        held_(graph.values().size()) {}

  void run() {
    for (const GraphInput& input : graph_.inputs()) add_input(input);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id)
      if (!take_held(id)) copy(id);
    for (const GraphOutput& output : graph_.outputs())
      build_.graph().add_output(output.name, wide(output.value), output.role);
  }

 private:
  /// A weight, or elements of one, as they are held.
  struct Held {
    ValueId value = kNoValue, low = kNoValue;
  };

  void add_input(const GraphInput& input) {
    const Value& value = graph_.value(input.value);
    Graph& result = build_.graph();
    if (!weights_.count(value.name)) return copier_.copy_input(input);
    Held& held = held_[static_cast<size_t>(input.value)];
    held.value = result.add_input(value.name, {form_.dtype, value.type.shape}, input.role);
    if (form_.split) held.low = result.add_input(low_half_of(value.name), {DType::kU16, value.type.shape}, input.role);
  }

  /// Whether the node needs no f32: it casts a weight to its held type, or only moves its elements.
  bool take_held(NodeId id) {
    const Node& node = graph_.node(id);
    const Held* source = nullptr;
    for (ValueId input : node.inputs)
      if (held_[static_cast<size_t>(input)].value != kNoValue) source = &held_[static_cast<size_t>(input)];
    if (!source || node.outputs.size() != 1) return false;
    const TensorType& type = graph_.type(node.outputs[0]);
    if (node.op->map_op == "cast" && is_narrow(type.dtype) && (!form_.split || type.dtype == form_.dtype)) {
      InfoScope scope(build_, node);
      const Tensor held = build_.tensor(source->value);
      copier_.map(node.outputs[0], type.dtype == form_.dtype ? held.id : cast(held, type.dtype).id);
      return true;
    }
    const NodeSignature signature = graph_.signature(id);
    if (type.dtype != DType::kF32 || !node.op->cost || node.op->cost(signature).flops != 0) return false;
    // Beside elements that are no weight's, a weight's are f32 too.
    for (ValueId input : node.inputs)
      if (graph_.type(input).dtype == DType::kF32 && held_[static_cast<size_t>(input)].value == kNoValue) return false;
    Held& moved = held_[static_cast<size_t>(node.outputs[0])];
    for (ValueId Held::* half : {&Held::value, &Held::low}) {
      if (source->*half == kNoValue) continue;
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) {
        const Held& held = held_[static_cast<size_t>(input)];
        inputs.push_back(held.value != kNoValue ? held.*half : copier_[input]);
      }
      const NodeId made = build_.graph().add_node(*node.op, inputs, node.attributes, node);
      moved.*half = build_.graph().node(made).outputs[0];
    }
    return true;
  }

  /// The value in the type that it has in the given graph.
  ValueId wide(ValueId source) {
    const Held& held = held_[static_cast<size_t>(source)];
    if (held.value == kNoValue || copier_[source] != kNoValue) return copier_[source];
    InfoScope scope(build_, "held");
    const Tensor value = build_.tensor(held.value);
    const Tensor made = form_.split ? join_halves(value, build_.tensor(held.low)) : cast(value, DType::kF32);
    copier_.map(source, made.id);
    return made.id;
  }

  void copy(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(wide(input));
    copier_.copy_node(id, std::move(inputs), node.attributes);
  }

  const Graph& graph_;
  const std::set<std::string> weights_;
  const HeldForm form_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::vector<Held> held_;
};

}  // namespace

Graph hold_weights(const Graph& graph, const std::vector<std::string>& weights, HeldForm form) {
  if (form.whole()) return graph;
  Graph result(graph.name());
  Holding(graph, weights, form, result).run();
  return result;
}

Precision precision_from_name(const std::string& name) {
  if (name == "f8") return {DType::kF16, true};
  return {dtype_from_name(name), false};
}

Graph lower_precision(const Graph& graph, const Precision& precision) {
  const DType compute = precision.compute;
  if (compute == DType::kF32) return graph;
  if (compute != DType::kBF16 && compute != DType::kF16)
    throw Error({.what = "cannot compute in this type",
                 .found = std::string(name_of(compute)),
                 .expected = "f32, bf16 or f16"});
  Graph result(graph.name());
  Lowering(graph, precision, result).run();
  return result;
}

}  // namespace ramet::transform

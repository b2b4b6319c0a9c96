#include "ramet/front/graph_calls.h"

#include <cmath>

#include "ramet/front/patterns.h"

namespace ramet::front {
namespace {

/// What an element-wise op is called in traced programs; "" for other ops.
std::string arithmetic_call(const std::string& op) {
  static const std::map<std::string, std::string> kCalls = {
      {"add", "aten.add"},       {"add_scalar", "aten.add"}, {"subtract", "aten.sub"}, {"multiply", "aten.mul"},
      {"scale", "aten.mul"},     {"divide", "aten.div"},     {"power", "aten.pow"},    {"square", "aten.square"},
      {"sqrt", "aten.sqrt"},     {"rsqrt", "aten.rsqrt"},    {"erf", "aten.erf"},      {"tanh", "aten.tanh"},
      {"cast", "aten._to_copy"}, {"reciprocal", "aten.pow"}, {"negate", "aten.neg"},   {"cos", "aten.cos"},
      {"sin", "aten.sin"},       {"is_nan", "aten.isnan"}};
  const auto found = kCalls.find(op);
  return found == kCalls.end() ? "" : found->second;
}

void give(TracedCall& call, const char* name, TracedArgument argument) {
  call.arguments.emplace_back(name, std::move(argument));
}

}  // namespace

GraphCalls::GraphCalls(const Graph& graph, const GraphConstants& constants)
    : graph_(graph), known_(graph), uses_(graph.uses()) {
  for (const GraphInput& input : graph.inputs())
    if (const auto constant = constants.find(graph.value(input.value).name); constant != constants.end()) {
      known_.set(input.value, constant->second);
      constants_.insert(input.value);
    }
}

TracedProgram GraphCalls::program() {
  using Kind = TracedInput::Kind;
  TracedProgram made;
  for (ValueId id = 0; id < static_cast<ValueId>(graph_.values().size()); ++id)
    made.types[name_of(id)] = graph_.type(id);
  for (const GraphInput& input : graph_.inputs()) {
    const bool weight = input.role == InputRole::kState && !constants_.count(input.value);
    const std::string name = name_of(input.value);
    made.inputs.push_back({.kind = weight ? Kind::kParameter : Kind::kUser, .value = name, .target = name});
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) made.calls.push_back(call(id));
  for (const NodeId inner : means_) made.calls[static_cast<size_t>(inner)].arguments.clear();
  for (const GraphOutput& output : graph_.outputs())
    made.outputs.push_back({.value = name_of(output.value), .target = output.name});
  return made;
}

TracedCall GraphCalls::call(NodeId id) {
  const Node& node = graph_.node(id);
  TracedCall made{.op = "", .overload = "default"};
  for (const ValueId output : node.outputs) made.outputs.push_back(name_of(output));
  if (give_arithmetic(made, node) || give_product(made, node) || give_moves(made, node) || give_slice(made, node))
    return made;
  if (node.op->name == "select") {
    give_select(made, node);
    return made;
  }
  made.op = "ramet." + node.op->name;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    give(made, std::to_string(i).c_str(), tensor_argument(name_of(node.inputs[i])));
  return made;
}

bool GraphCalls::give_arithmetic(TracedCall& made, const Node& node) {
  const std::string& op = node.op->name;
  made.op = arithmetic_call(op);
  if (made.op.empty()) return false;
  if (op == "scale")
    if (const Node* sum = mean_of(node)) {
      made.op = "aten.mean";
      give(made, "self", tensor_argument(name_of(sum->inputs[0])));
      give(made, "dim", list_argument({-1}));
      give(made, "keepdim", flag_argument(true));
      return true;
    }
  const bool binary = node.inputs.size() == 2;
  give(made, "self", binary ? operand(node, 0, 1) : tensor_argument(name_of(node.inputs[0])));
  if (op == "scale" || op == "add_scalar")
    give(made, "other", number_argument(node.attributes.get_float("parameter")));
  else if (op == "reciprocal")
    give_reciprocal(made, node);
  else if (binary)
    give(made, op == "power" ? "exponent" : "other", operand(node, 1, 0));
  return true;
}

/// Plain products of f32 matrices, in whose type attention is computed, and softmax.
bool GraphCalls::give_product(TracedCall& made, const Node& node) const {
  const std::string& op = node.op->name;
  if (op == "softmax") {
    made.op = "aten.softmax";
    give(made, "self", tensor_argument(name_of(node.inputs[0])));
    give(made, "dim", integer_argument(node.attributes.get_int("axis")));
    return true;
  }
  if (op != "matmul" || !node.attributes.empty() || node.inputs.size() != 2) return false;
  for (const ValueId input : node.inputs)
    if (graph_.type(input).dtype != DType::kF32) return false;
  made.op = "aten.matmul";
  give(made, "self", tensor_argument(name_of(node.inputs[0])));
  give(made, "other", tensor_argument(name_of(node.inputs[1])));
  return true;
}

/// Ops that only move elements.
bool GraphCalls::give_moves(TracedCall& made, const Node& node) const {
  const std::string& op = node.op->name;
  if (op == "concat") {
    made.op = "aten.cat";
    TracedArgument tensors{.kind = TracedArgument::Kind::kList};
    for (const ValueId input : node.inputs) tensors.list.push_back(tensor_argument(name_of(input)));
    give(made, "tensors", std::move(tensors));
    give(made, "dim", integer_argument(node.attributes.get_int("axis")));
    return true;
  }
  if (op != "reshape" && op != "broadcast_to" && op != "transpose") return false;
  const auto self = [&] { give(made, "self", tensor_argument(name_of(node.inputs[0]))); };
  if (op != "transpose") {
    made.op = op == "reshape" ? "aten.view" : "aten.expand";
    self();
    give(made, "size", list_argument(graph_.type(node.outputs[0]).shape.dims()));
    return true;
  }
  const std::vector<int64_t> permutation = node.attributes.get_ints("permutation");
  std::vector<int64_t> moved;
  for (size_t i = 0; i < permutation.size(); ++i)
    if (permutation[i] != static_cast<int64_t>(i)) moved.push_back(static_cast<int64_t>(i));
  const bool pair = moved.size() == 2;
  made.op = pair ? "aten.transpose" : "aten.permute";
  self();
  if (pair) {
    give(made, "dim0", integer_argument(moved[0]));
    give(made, "dim1", integer_argument(moved[1]));
  } else {
    give(made, "dims", list_argument(permutation));
  }
  return true;
}

/// A slice that cuts one axis.
bool GraphCalls::give_slice(TracedCall& made, const Node& node) const {
  if (node.op->name != "slice") return false;
  const Shape& shape = graph_.type(node.inputs[0]).shape;
  const std::vector<int64_t> start = node.attributes.get_ints("start"), stop = node.attributes.get_ints("stop");
  std::vector<int64_t> stride(start.size(), 1);
  if (node.attributes.has("stride")) stride = node.attributes.get_ints("stride");
  std::vector<size_t> cut;
  for (size_t i = 0; i < start.size(); ++i)
    if (start[i] != 0 || stop[i] != shape[static_cast<int>(i)] || stride[i] != 1) cut.push_back(i);
  if (cut.size() != 1) return false;
  made.op = "aten.slice";
  give(made, "self", tensor_argument(name_of(node.inputs[0])));
  give(made, "dim", integer_argument(static_cast<int64_t>(cut[0])));
  give(made, "start", integer_argument(start[cut[0]]));
  give(made, "end", integer_argument(stop[cut[0]]));
  give(made, "step", integer_argument(stride[cut[0]]));
  return true;
}

void GraphCalls::give_select(TracedCall& made, const Node& node) {
  made.op = "aten.where";
  give(made, "condition", tensor_argument(name_of(node.inputs[0])));
  give(made, "self", operand(node, 1, 2));
  give(made, "other", operand(node, 2, 1));
}

/// 1 / sqrt(x) is one call; other reciprocals are powers.
void GraphCalls::give_reciprocal(TracedCall& made, const Node& node) {
  const NodeId producer = graph_.value(node.inputs[0]).producer;
  if (producer != kNoNode && graph_.node(producer).op->name == "sqrt" &&
      uses_[static_cast<size_t>(node.inputs[0])].size() == 1) {
    made.op = "aten.rsqrt";
    made.arguments = {{"self", tensor_argument(name_of(graph_.node(producer).inputs[0]))}};
    means_.insert(producer);  // the root alone is read no more
    return;
  }
  give(made, "exponent", number_argument(-1));
}

/// A value of one element that no input decides, where it changes no shape; nothing for others.
std::optional<double> GraphCalls::number(ValueId id, const TensorType& result, ValueId other) {
  const TensorType& type = graph_.type(id);
  if (!is_floating(type.dtype) || type.elements() != 1 || graph_.type(other).shape != result.shape) return {};
  const TensorData* data = known_.find(id);
  return data ? std::optional(data->tensor().get(0)) : std::nullopt;
}

TracedArgument GraphCalls::operand(const Node& node, size_t index, size_t other) {
  const ValueId id = node.inputs[index];
  if (const auto value = number(id, graph_.type(node.outputs[0]), node.inputs[other])) return number_argument(*value);
  return tensor_argument(name_of(id));
}

/// The sum of which `scale` is the mean over the last dimension; none for other factors.
const Node* GraphCalls::mean_of(const Node& node) {
  const NodeId producer = graph_.value(node.inputs[0]).producer;
  if (producer == kNoNode) return nullptr;
  const Node& sum = graph_.node(producer);
  if (sum.op->name != "reduce_sum" || uses_[static_cast<size_t>(node.inputs[0])].size() != 1) return nullptr;
  const Shape& shape = graph_.type(sum.inputs[0]).shape;
  if (shape.rank() < 1 || graph_.type(node.outputs[0]).shape.rank() != shape.rank()) return nullptr;
  if (!sum.attributes.has("axes") || !sum.attributes.has("keep_dims")) return nullptr;
  const std::vector<int64_t> axes = sum.attributes.get_ints("axes");
  const auto extent = static_cast<double>(shape.dim(-1));
  if (axes.size() != 1 || (axes[0] != -1 && axes[0] != shape.rank() - 1)) return nullptr;
  if (std::fabs(node.attributes.get_float("parameter") * extent - 1) > 1e-12) return nullptr;
  means_.insert(producer);
  return &sum;
}

}  // namespace ramet::front

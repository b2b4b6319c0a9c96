#include "ramet/front/fuse_graph.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/front/known_values.h"
#include "ramet/front/patterns.h"
#include "ramet/ops/build.h"

namespace ramet::front {
namespace {

std::string name_of_value(ValueId id) { return "v" + std::to_string(id); }
ValueId value_of_name(const std::string& name) { return static_cast<ValueId>(std::stol(name.substr(1))); }

/// What an op is called in traced programs; "" where no pattern has it.
std::string call_of(const std::string& op) {
  static const std::map<std::string, std::string> kCalls = {
      {"add", "aten.add"},       {"add_scalar", "aten.add"}, {"subtract", "aten.sub"}, {"multiply", "aten.mul"},
      {"scale", "aten.mul"},     {"divide", "aten.div"},     {"power", "aten.pow"},    {"square", "aten.square"},
      {"sqrt", "aten.sqrt"},     {"rsqrt", "aten.rsqrt"},    {"erf", "aten.erf"},      {"tanh", "aten.tanh"},
      {"cast", "aten._to_copy"}, {"reciprocal", "aten.pow"}};
  const auto found = kCalls.find(op);
  return found == kCalls.end() ? "" : found->second;
}

/// A graph as a traced program: value 7 is the tensor "v7", and node i is call i.
class GraphView {
 public:
  explicit GraphView(const Graph& graph) : graph_(graph), known_(graph), uses_(graph.uses()) {}

  TracedProgram program() {
    TracedProgram made;
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values().size()); ++id)
      made.types[name_of_value(id)] = graph_.type(id);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) made.calls.push_back(call(id));
    for (const NodeId sum : means_) made.calls[static_cast<size_t>(sum)].arguments.clear();
    for (const GraphOutput& output : graph_.outputs())
      made.outputs.push_back({.value = name_of_value(output.value), .target = output.name});
    return made;
  }

 private:
  /// A value of one element that no input decides, where it changes no shape; nothing for others.
  std::optional<double> number(ValueId id, const TensorType& result, ValueId other) {
    const TensorType& type = graph_.type(id);
    if (!is_floating(type.dtype) || type.elements() != 1 || graph_.type(other).shape != result.shape) return {};
    const TensorData* data = known_.find(id);
    return data ? std::optional(data->tensor().get(0)) : std::nullopt;
  }

  TracedArgument operand(const Node& node, size_t index) {
    const ValueId id = node.inputs[index];
    if (node.inputs.size() == 2)
      if (const auto value = number(id, graph_.type(node.outputs[0]), node.inputs[1 - index]))
        return number_argument(*value);
    return tensor_argument(name_of_value(id));
  }

  /// The sum of which `scale` is the mean over the last dimension; none for other factors.
  const Node* mean_of(const Node& node) {
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

  TracedCall call(NodeId id) {
    const Node& node = graph_.node(id);
    TracedCall made{.op = call_of(node.op->name), .overload = "default"};
    for (const ValueId output : node.outputs) made.outputs.push_back(name_of_value(output));
    const auto give = [&](const char* name, TracedArgument argument) {
      made.arguments.emplace_back(name, std::move(argument));
    };
    const std::string& op = node.op->name;
    if (op == "scale") {
      if (const Node* sum = mean_of(node)) {
        made.op = "aten.mean";
        give("self", tensor_argument(name_of_value(sum->inputs[0])));
        give("dim", list_argument({-1}));
        give("keepdim", flag_argument(true));
        return made;
      }
    }
    if (made.op.empty()) {
      made.op = "ramet." + op;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        give(std::to_string(i).c_str(), tensor_argument(name_of_value(node.inputs[i])));
      return made;
    }
    give("self", operand(node, 0));
    if (op == "scale" || op == "add_scalar")
      give("other", number_argument(node.attributes.get_float("parameter")));
    else if (op == "power")
      give("exponent", operand(node, 1));
    else if (op == "reciprocal")
      reciprocal(made, node);
    else if (node.inputs.size() == 2)
      give("other", operand(node, 1));
    return made;
  }

  /// 1 / sqrt(x) is one call; other reciprocals are powers.
  void reciprocal(TracedCall& made, const Node& node) {
    const NodeId producer = graph_.value(node.inputs[0]).producer;
    if (producer != kNoNode && graph_.node(producer).op->name == "sqrt" &&
        uses_[static_cast<size_t>(node.inputs[0])].size() == 1) {
      made.op = "aten.rsqrt";
      made.arguments = {{"self", tensor_argument(name_of_value(graph_.node(producer).inputs[0]))}};
      means_.insert(producer);  // the root alone is read no more
      return;
    }
    made.arguments.emplace_back("exponent", number_argument(-1));
  }

  const Graph& graph_;
  KnownValues known_;
  std::vector<std::vector<NodeId>> uses_;
  std::set<NodeId> means_{};  ///< nodes that belong to the call behind them
};

/// Copies a graph with fused ops for some nodes, without the nodes that nothing reads.
class Writer {
 public:
  Writer(const Graph& from, const std::map<NodeId, TracedCall>& fused)
      : from_(from), fused_(fused), made_(from.name()), build_(made_), copier_(from, made_) {}

  Graph run() {
    find_read();
    copier_.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id) {
      if (!kept_[static_cast<size_t>(id)]) continue;
      const auto call = fused_.find(id);
      if (call == fused_.end()) {
        copier_.copy_node(id);
        continue;
      }
      const InfoScope scope(build_, copier_.info(id));
      copier_.map(from_.node(id).outputs[0], write(call->second).id);
    }
    copier_.copy_outputs();
    return std::move(made_);
  }

 private:
  void find_read() {
    kept_.assign(from_.nodes().size(), false);
    std::vector<bool> read(from_.values().size(), false);
    for (const GraphOutput& output : from_.outputs()) read[static_cast<size_t>(output.value)] = true;
    for (NodeId id = static_cast<NodeId>(from_.nodes().size()); id-- > 0;) {
      const Node& node = from_.node(id);
      const bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(),
                                      [&](ValueId output) { return read[static_cast<size_t>(output)]; });
      if (!wanted) continue;
      kept_[static_cast<size_t>(id)] = true;
      if (const auto call = fused_.find(id); call != fused_.end())
        each_tensor_of(call->second,
                       [&](const std::string& name) { read[static_cast<size_t>(value_of_name(name))] = true; });
      else
        for (const ValueId input : node.inputs) read[static_cast<size_t>(input)] = true;
    }
  }

  Tensor tensor(const TracedCall& call, const char* name) {
    const std::string value = tensor_of(call, name);
    return value.empty() ? Tensor() : build_.tensor(copier_[value_of_name(value)]);
  }

  Tensor write(const TracedCall& call) {
    if (call.op == "aten.gelu") {
      const Tensor a = tensor(call, "self");
      return call.find("approximate")->text == "tanh" ? ops::gelu_tanh(a) : ops::gelu(a);
    }
    const Tensor a = tensor(call, "input");
    const double epsilon = number_of(call, "eps").value_or(0);
    const auto vector = [&](const char* name, double otherwise) {
      const Tensor given = tensor(call, name);
      return given.valid() ? given : ops::full(build_, DType::kF32, {a.dim(-1)}, otherwise);
    };
    if (call.op == "aten.rms_norm") return ops::rms_norm(a, vector("weight", 1), epsilon);
    return ops::layer_norm(a, vector("weight", 1), vector("bias", 0), epsilon);
  }

  const Graph& from_;
  const std::map<NodeId, TracedCall>& fused_;
  Graph made_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::vector<bool> kept_{};
};

/// Moves the channel norms of a graph whose statistics are fixed into the convolutions before them.
class BatchNormFolder {
 public:
  explicit BatchNormFolder(const Graph& from)
      : from_(from), made_(from.name()), build_(made_), copier_(from, made_), uses_(from.uses()) {}

  Graph run() {
    find_fixed();
    std::set<NodeId> convolutions;
    std::map<NodeId, NodeId> folded;  // norm, convolution
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id)
      if (const NodeId convolution = convolution_before(id); convolution != kNoNode)
        convolutions.insert(convolution), folded[id] = convolution;
    copier_.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id) {
      if (convolutions.count(id)) continue;
      if (const auto norm = folded.find(id); norm != folded.end())
        fold(norm->second, id);
      else
        copier_.copy_node(id);
    }
    copier_.copy_outputs();
    return std::move(made_);
  }

 private:
  /// Values that no data input and no random number decides.
  void find_fixed() {
    fixed_.assign(from_.values().size(), false);
    for (const GraphInput& input : from_.inputs())
      fixed_[static_cast<size_t>(input.value)] = input.role == InputRole::kState;
    for (const Node& node : from_.nodes()) {
      const bool fixed = std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId input) { return fixed_[static_cast<size_t>(input)]; });
      for (const ValueId output : node.outputs) fixed_[static_cast<size_t>(output)] = fixed;
    }
    for (const GraphOutput& output : from_.outputs()) read_.insert(output.value);
  }

  /// The convolution that a norm can be moved into, or none.
  NodeId convolution_before(NodeId id) const {
    const Node& norm = from_.node(id);
    if (norm.op->name != "normalize_channels") return kNoNode;
    const ValueId between = norm.inputs[0];
    const NodeId producer = from_.value(between).producer;
    if (producer == kNoNode || read_.count(between) || uses_[static_cast<size_t>(between)].size() != 1) return kNoNode;
    const Node& convolution = from_.node(producer);
    const bool last = convolution.attributes.has("channels_last") || norm.attributes.has("channels_last");
    if (convolution.op->name != "convolution" || last) return kNoNode;
    const auto fixed = [&](const Node& node) {
      return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
        return fixed_[static_cast<size_t>(input)] && from_.type(input).dtype == DType::kF32;
      });
    };
    const int64_t channels = from_.type(between).shape.dim(1);
    const bool vectors = std::all_of(norm.inputs.begin() + 1, norm.inputs.end(),
                                     [&](ValueId input) { return from_.type(input).elements() == channels; });
    return fixed(norm) && fixed(convolution) && vectors ? producer : kNoNode;
  }

  /// (filter x + bias - mean) scale + shift = (filter scale) x + (bias - mean) scale + shift
  void fold(NodeId id, NodeId behind) {
    const Node &node = from_.node(id), &norm = from_.node(behind);
    const InfoScope scope(build_, copier_.info(id));
    const auto tensor = [&](ValueId value) { return build_.tensor(copier_[value]); };
    const Tensor filter = tensor(node.inputs[1]);
    const int64_t channels = filter.dim(0);
    const auto vector = [&](size_t input) { return ops::reshape(tensor(norm.inputs[input]), {channels}); };
    const Tensor mean = vector(1), factor = vector(2), shift = vector(3);
    std::vector<int64_t> dims(static_cast<size_t>(filter.shape().rank()), 1);
    dims[0] = channels;
    const Tensor wide = ops::multiply(filter, ops::reshape(factor, Shape(dims)));
    const Tensor before = node.inputs.size() > 2 ? ops::subtract(tensor(node.inputs[2]), mean) : ops::negate(mean);
    const Tensor term = ops::add(ops::multiply(before, factor), shift);
    const NodeId made = copier_.copy_node(id, {copier_[node.inputs[0]], wide.id, term.id}, node.attributes);
    copier_.map(norm.outputs[0], made_.node(made).outputs[0]);
  }

  const Graph& from_;
  Graph made_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> fixed_{};
  std::set<ValueId> read_{};  ///< outputs
};

}  // namespace

Graph fuse_graph(const Graph& graph) {
  PatternProgram patterns(GraphView(graph).program());
  std::map<NodeId, TracedCall> fused;
  for (size_t i = 0; i < patterns.calls().size(); ++i) {
    if (patterns.calls()[i].outputs.size() != 1) continue;
    for (const auto fuse : {fuse_gelu, fuse_layer_norm, fuse_rms_norm, fuse_norm_weight})
      if (fuse(patterns, i)) {
        fused[static_cast<NodeId>(i)] = patterns.calls()[i];
        break;
      }
  }
  return fused.empty() ? graph : Writer(graph, fused).run();
}

Graph fuse_for_prediction(const Graph& graph) { return BatchNormFolder(fuse_graph(graph)).run(); }

}  // namespace ramet::front

// Graphs as ONNX files.
#include "ramet/front/onnx_export.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/front/onnx_write.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/convolution.h"
#include "ramet/ops/index_space.h"
#include "ramet/ops/matmul.h"

namespace ramet::front {
namespace {

constexpr int64_t kOpset = 20, kIrVersion = 10;

/// An attribute of a node of ONNX.
ProtoMessage number(const std::string& name, double value) {
  return ProtoMessage().bytes(1, name).single(2, static_cast<float>(value)).number(20, 1);
}
ProtoMessage integer(const std::string& name, int64_t value) {
  return ProtoMessage().bytes(1, name).number(3, static_cast<uint64_t>(value)).number(20, 2);
}
ProtoMessage text(const std::string& name, const std::string& value) {
  return ProtoMessage().bytes(1, name).bytes(4, value).number(20, 3);
}
ProtoMessage integers(const std::string& name, const std::vector<int64_t>& values) {
  ProtoMessage made;
  made.bytes(1, name);
  for (const int64_t value : values) made.number(8, static_cast<uint64_t>(value));
  return made.number(20, 7);
}

/// Ops that are one node of ONNX with the same operands.
const std::map<std::string, std::string, std::less<>>& plain_ops() {
  static const std::map<std::string, std::string, std::less<>> table = {{"abs", "Abs"},
                                                                        {"acos", "Acos"},
                                                                        {"acosh", "Acosh"},
                                                                        {"add", "Add"},
                                                                        {"asin", "Asin"},
                                                                        {"asinh", "Asinh"},
                                                                        {"atan", "Atan"},
                                                                        {"atanh", "Atanh"},
                                                                        {"bitwise_and", "BitwiseAnd"},
                                                                        {"bitwise_not", "BitwiseNot"},
                                                                        {"bitwise_or", "BitwiseOr"},
                                                                        {"bitwise_xor", "BitwiseXor"},
                                                                        {"ceil", "Ceil"},
                                                                        {"cos", "Cos"},
                                                                        {"cosh", "Cosh"},
                                                                        {"divide", "Div"},
                                                                        {"equal", "Equal"},
                                                                        {"erf", "Erf"},
                                                                        {"exp", "Exp"},
                                                                        {"floor", "Floor"},
                                                                        {"gelu", "Gelu"},
                                                                        {"greater", "Greater"},
                                                                        {"greater_equal", "GreaterOrEqual"},
                                                                        {"is_inf", "IsInf"},
                                                                        {"is_nan", "IsNaN"},
                                                                        {"less", "Less"},
                                                                        {"less_equal", "LessOrEqual"},
                                                                        {"log", "Log"},
                                                                        {"logical_and", "And"},
                                                                        {"logical_not", "Not"},
                                                                        {"logical_or", "Or"},
                                                                        {"maximum", "Max"},
                                                                        {"minimum", "Min"},
                                                                        {"multiply", "Mul"},
                                                                        {"negate", "Neg"},
                                                                        {"power", "Pow"},
                                                                        {"reciprocal", "Reciprocal"},
                                                                        {"relu", "Relu"},
                                                                        {"round", "Round"},
                                                                        {"select", "Where"},
                                                                        {"sigmoid", "Sigmoid"},
                                                                        {"sign", "Sign"},
                                                                        {"sin", "Sin"},
                                                                        {"sinh", "Sinh"},
                                                                        {"softplus", "Softplus"},
                                                                        {"sqrt", "Sqrt"},
                                                                        {"stop_gradient", "Identity"},
                                                                        {"subtract", "Sub"},
                                                                        {"tan", "Tan"},
                                                                        {"tanh", "Tanh"}};
  return table;
}

class Exporter {
 public:
  Exporter(const Graph& graph, const std::string& name, const StateValue& value)
      : graph_(graph), name_(name), value_(value) {}

  std::string run() {
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      names_[input.value] = value.name, used_.insert(value.name);
      if (input.role == InputRole::kState)
        initializers_.push_back(onnx_tensor_message(value_(value.name), value.name));
      else
        inputs_.push_back(value_info(value.name, value.type));
    }
    for (const GraphOutput& output : graph_.outputs()) used_.insert(output.name);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) write(id);
    refuse_missing();
    for (const GraphOutput& output : graph_.outputs()) {
      emit("Identity", {names_.at(output.value)}, {}, output.name);
      outputs_.push_back(value_info(output.name, graph_.type(output.value)));
    }
    return model();
  }

 private:
  using Fields = std::vector<ProtoMessage>;

  static ProtoMessage value_info(const std::string& name, const TensorType& type) {
    ProtoMessage shape;
    for (const int64_t extent : type.shape.dims())
      shape.message(1, ProtoMessage().number(1, static_cast<uint64_t>(extent)));
    const ProtoMessage tensor =
        ProtoMessage().number(1, static_cast<uint64_t>(onnx_type_of(type.dtype))).message(2, shape);
    return ProtoMessage().bytes(1, name).message(2, ProtoMessage().message(1, tensor));
  }

  std::string fresh(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !used_.insert(name).second; ++i) name = wanted + "." + std::to_string(i);
    return name;
  }

  /// Adds a node with one output, whose name is returned.
  std::string emit(const std::string& op, const std::vector<std::string>& inputs, const Fields& attributes = {},
                   std::string output = "") {
    if (output.empty()) output = fresh(op);
    ProtoMessage node;
    for (const std::string& input : inputs) node.bytes(1, input);
    node.bytes(2, output).bytes(3, node_name_ + "/" + op + "_" + std::to_string(count_++)).bytes(4, op);
    for (const ProtoMessage& attribute : attributes) node.message(5, attribute);
    nodes_.push_back(std::move(node));
    return output;
  }
  std::string initializer(const HostTensor& tensor) {
    const std::string name = fresh("constant");
    initializers_.push_back(onnx_tensor_message(tensor, name));
    return name;
  }
  std::string ints(const std::vector<int64_t>& values) {
    HostTensor made({DType::kI64, {std::ssize(values)}});
    for (size_t i = 0; i < values.size(); ++i)
      store_integer(made.data.data(), DType::kI64, static_cast<int64_t>(i), values[i]);
    return initializer(made);
  }
  std::string scalar(DType dtype, double value) { return initializer(HostTensor::of(dtype, {}, {value})); }
  std::string swapped(const std::string& a, int rank) {
    std::vector<int64_t> order;
    for (int i = 0; i < rank; ++i) order.push_back(i);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return emit("Transpose", {a}, {integers("perm", order)});
  }

  void write(NodeId id) {
    const Node& node = graph_.node(id);
    node_name_ = node.name.empty() ? node.op->name : node.name;
    std::vector<std::string> in;
    for (const ValueId input : node.inputs) {
      const auto found = names_.find(input);
      if (found == names_.end()) return;  // behind an op that is refused
      in.push_back(found->second);
    }
    const NodeSignature signature = graph_.signature(id);
    std::vector<std::string> made = write_shapes(node, signature, in);
    if (made.empty()) made = write_elementwise(node, signature, in);
    if (made.empty()) made = write_network(node, signature, in);
    if (made.empty()) {
      missing_.insert(node.op->name);
      return;
    }
    for (size_t i = 0; i < made.size() && i < node.outputs.size(); ++i)
      if (!made[i].empty()) names_[node.outputs[i]] = made[i];
  }

  std::vector<std::string> write_elementwise(const Node& node, const NodeSignature& signature,
                                             const std::vector<std::string>& in) {
    const std::string& op = node.op->name;
    const DType dtype = signature.inputs.empty() ? DType::kF32 : signature.inputs[0].dtype;
    if (const auto plain = plain_ops().find(op); plain != plain_ops().end()) return {emit(plain->second, in)};
    if (op == "cast") return {emit("Cast", in, {integer("to", onnx_type_of(signature.outputs[0].dtype))})};
    if (op == "gelu_tanh") return {emit("Gelu", in, {text("approximate", "tanh")})};
    if (op == "silu") return {emit("Mul", {in[0], emit("Sigmoid", in)})};
    if (op == "square") return {emit("Mul", {in[0], in[0]})};
    if (op == "rsqrt") return {emit("Reciprocal", {emit("Sqrt", in)})};
    if (op == "not_equal") return {emit("Not", {emit("Equal", in)})};
    if (op == "remainder") {
      if (!is_floating(dtype)) return {emit("Mod", in)};
      return {emit("Sub", {in[0], emit("Mul", {in[1], emit("Floor", {emit("Div", in)})})})};
    }
    if (op == "fmod") return {emit("Mod", in, {integer("fmod", 1)})};
    if (op == "leaky_relu" || op == "elu")
      return {emit(op == "elu" ? "Elu" : "LeakyRelu", in, {number("alpha", node.attributes.get_float("parameter"))})};
    if (op == "scale" || op == "add_scalar")
      return {emit(op == "scale" ? "Mul" : "Add", {in[0], scalar(dtype, node.attributes.get_float("parameter"))})};
    if (op == "clamp")
      return {emit("Clip", {in[0], scalar(dtype, node.attributes.get_float("parameter")),
                            scalar(dtype, node.attributes.get_float("second"))})};
    if (op == "normalize_channels" && !node.attributes.get_bool_or("channels_last", false))
      return {emit("Add", {emit("Mul", {emit("Sub", {in[0], in[1]}), in[2]}), in[3]})};
    return {};
  }

  std::vector<std::string> write_shapes(const Node& node, const NodeSignature& signature,
                                        const std::vector<std::string>& in) {
    const std::string& op = node.op->name;
    const ir::Attributes& attributes = node.attributes;
    const auto list = [&](const char* name) { return attributes.get_ints(name); };
    if (op == "constant") return {initializer(attributes.get_tensor("data").tensor())};
    if (op == "full") {
      HostTensor value({signature.outputs[0].dtype, {}});
      value.set(0, attributes.get_float("value"));
      return {emit("Expand", {initializer(value), ints(signature.outputs[0].shape.dims())})};
    }
    if (op == "iota") {
      const Shape& shape = signature.outputs[0].shape;
      const int axis = normalize_axis(attributes.get_int("axis"), shape.rank(), "iota");
      HostTensor line({signature.outputs[0].dtype, {shape.dim(axis)}});
      for (int64_t i = 0; i < shape.dim(axis); ++i) line.set(i, static_cast<double>(i));
      std::vector<int64_t> dims(static_cast<size_t>(shape.rank()), 1);
      dims[static_cast<size_t>(axis)] = shape.dim(axis);
      line.type.shape = Shape(dims);
      return {emit("Expand", {initializer(line), ints(shape.dims())})};
    }
    if (op == "reshape") return {emit("Reshape", {in[0], ints(list("shape"))}, {integer("allowzero", 1)})};
    if (op == "transpose") return {emit("Transpose", in, {integers("perm", list("permutation"))})};
    if (op == "broadcast_to") return {emit("Expand", {in[0], ints(list("shape"))})};
    if (op == "concat") return {emit("Concat", in, {integer("axis", attributes.get_int("axis"))})};
    if (op == "slice") {
      std::vector<int64_t> axes, strides(list("start").size(), 1);
      for (size_t i = 0; i < strides.size(); ++i) axes.push_back(static_cast<int64_t>(i));
      if (attributes.has("stride")) strides = list("stride");
      return {emit("Slice", {in[0], ints(list("start")), ints(list("stop")), ints(axes), ints(strides)})};
    }
    if (op == "split") return write_split(node, in);
    if (op == "pad") {
      const std::vector<int64_t> inside = attributes.has("interior") ? list("interior") : std::vector<int64_t>{};
      if (std::any_of(inside.begin(), inside.end(), [](int64_t each) { return each != 0; })) return {};
      std::vector<int64_t> pads = list("low");
      for (const int64_t each : list("high")) pads.push_back(each);
      return {emit("Pad", {in[0], ints(pads), scalar(signature.inputs[0].dtype, attributes.get_float_or("value", 0))})};
    }
    for (const auto& [name, reduction] : {std::pair{"reduce_sum", "ReduceSum"}, std::pair{"reduce_max", "ReduceMax"},
                                          std::pair{"reduce_min", "ReduceMin"}, std::pair{"reduce_prod", "ReduceProd"},
                                          std::pair{"reduce_mean", "ReduceMean"}})
      if (op == name) {
        std::vector<std::string> operands = {in[0]};
        if (attributes.has("axes") && !list("axes").empty()) operands.push_back(ints(list("axes")));
        const std::string made =
            emit(reduction, operands, {integer("keepdims", attributes.get_bool_or("keep_dims", false) ? 1 : 0)});
        if (signature.outputs[0].dtype == signature.inputs[0].dtype) return {made};
        return {emit("Cast", {made}, {integer("to", onnx_type_of(signature.outputs[0].dtype))})};
      }
    if (op == "argmax" || op == "argmin")
      return {emit("Cast",
                   {emit(op == "argmax" ? "ArgMax" : "ArgMin", in,
                         {integer("axis", attributes.get_int("axis")), integer("keepdims", 0)})},
                   {integer("to", onnx_type_of(DType::kI32))})};
    if (op == "take") return write_take(signature, in);
    if (op == "gather") return {emit("Gather", in, {integer("axis", 0)})};
    return {};
  }

  /// Elements by index: along one axis, of lines along one axis, or by tuples of coordinates on the first axes.
  std::vector<std::string> write_take(const NodeSignature& signature, const std::vector<std::string>& in) {
    const IndexSpace space(signature, 1);
    const bool free = std::all_of(space.along.begin(), space.along.end(), [](int axis) { return axis < 0; });
    if (free && space.axes.size() == 1 && space.before == space.axes[0])
      return {emit("Gather", in, {integer("axis", space.axes[0])})};
    const int rank = space.whole.rank();
    bool lines = space.axes.size() == 1 && std::ssize(space.along) == rank && space.space == space.index_shapes[0];
    for (int i = 0; lines && i < rank; ++i)
      lines = space.along[static_cast<size_t>(i)] == (i == space.axes[0] ? -1 : i);
    if (lines) return {emit("GatherElements", in, {integer("axis", space.axes[0])})};
    if (!free || space.before != 0) return {};
    std::vector<std::string> coordinates;
    for (size_t i = 0; i < space.axes.size(); ++i) {
      if (space.axes[i] != static_cast<int>(i)) return {};
      const std::string wide = emit("Cast", {in[i + 1]}, {integer("to", onnx_type_of(DType::kI64))});
      const std::string whole = emit("Expand", {wide, ints(space.space.dims())});
      coordinates.push_back(emit("Unsqueeze", {whole, ints({space.space.rank()})}));
    }
    return {emit("GatherND", {in[0], emit("Concat", coordinates, {integer("axis", space.space.rank())})})};
  }

  std::vector<std::string> write_split(const Node& node, const std::vector<std::string>& in) {
    ProtoMessage made;
    std::vector<std::string> outputs;
    made.bytes(1, in[0]).bytes(1, ints(node.attributes.get_ints("sizes")));
    for (size_t i = 0; i < node.outputs.size(); ++i) made.bytes(2, outputs.emplace_back(fresh("Split")));
    made.bytes(3, node_name_ + "/Split_" + std::to_string(count_++)).bytes(4, "Split");
    made.message(5, integer("axis", node.attributes.get_int("axis")));
    nodes_.push_back(std::move(made));
    return outputs;
  }

  std::vector<std::string> write_network(const Node& node, const NodeSignature& signature,
                                         const std::vector<std::string>& in) {
    const std::string& op = node.op->name;
    const ir::Attributes& attributes = node.attributes;
    if (op == "softmax" || op == "log_softmax") {
      const int64_t axis = attributes.get_int_or("axis", -1);
      return {emit(op == "softmax" ? "Softmax" : "LogSoftmax", in, {integer("axis", axis)})};
    }
    if (op == "layer_norm")
      return {
          emit("LayerNormalization", in, {number("epsilon", attributes.get_float("epsilon")), integer("axis", -1)})};
    if (op == "rms_norm") {
      const std::string mean = emit("ReduceMean", {emit("Mul", {in[0], in[0]}), ints({-1})});
      const std::string root =
          emit("Sqrt", {emit("Add", {mean, scalar(DType::kF32, attributes.get_float("epsilon"))})});
      return {emit("Mul", {emit("Div", {in[0], root}), in[1]})};
    }
    if (op == "matmul" || op == "linear") {
      const MatmulForm form = matmul_form(signature);
      if (form.accumulate || form.blocked || form.chunks > 1) return {};
      const std::string a = form.transpose_a ? swapped(in[0], signature.inputs[0].shape.rank()) : in[0];
      const std::string b = form.transpose_b ? swapped(in[1], signature.inputs[1].shape.rank()) : in[1];
      const std::string made = emit("MatMul", {a, b});
      return {op == "linear" ? emit("Add", {made, in[2]}) : made};
    }
    if (op == "attention") return write_attention(signature, in);
    if (op == "convolution") return write_convolution(signature, in);
    if (op == "max_pool" || op == "average_pool") return write_pool(node, signature, in);
    return {};
  }

  /// [B, S, heads, D] operands; attention as products and a softmax.
  std::vector<std::string> write_attention(const NodeSignature& signature, const std::vector<std::string>& in) {
    const AttentionForm form = attention_form(signature);
    if (form.segments || form.slopes >= 0 || form.dropout > 0 || form.left >= 0 || form.right >= 0 || form.joint)
      return {};
    const auto by_heads = [&](int input) {
      std::string a = in[static_cast<size_t>(input)];
      a = emit("Transpose", {a}, {integers("perm", {0, 2, 1, 3})});
      if (input == form.query || form.group() == 1) return a;
      // Each head of keys for the heads of queries that share it.
      const int64_t size = input == form.key ? form.head_size : form.value_size;
      a = emit("Reshape", {a, ints({form.batch, form.key_heads, 1, form.keys, size})});
      a = emit("Expand", {a, ints({form.batch, form.key_heads, form.group(), form.keys, size})});
      return emit("Reshape", {a, ints({form.batch, form.heads, form.keys, size})});
    };
    const std::string query = by_heads(form.query), key = by_heads(form.key), value = by_heads(form.value);
    std::string scores = emit("MatMul", {query, swapped(key, 4)});
    scores = emit("Mul", {scores, scalar(DType::kF32, form.scale)});
    if (form.soft_cap > 0) {
      const std::string cap = scalar(DType::kF32, form.soft_cap);
      scores = emit("Mul", {emit("Tanh", {emit("Div", {scores, cap})}), cap});
    }
    if (form.bias >= 0) scores = emit("Add", {scores, in[static_cast<size_t>(form.bias)]});
    const std::string hidden = scalar(DType::kF32, -INFINITY);
    if (form.mask >= 0) {
      std::string mask =
          emit("Cast", {in[static_cast<size_t>(form.mask)]}, {integer("to", onnx_type_of(DType::kBool))});
      if (form.key_mask) mask = emit("Reshape", {mask, ints({form.batch, 1, 1, form.keys})});
      scores = emit("Where", {mask, scores, hidden});
    }
    if (form.causal) {
      HostTensor seen({DType::kBool, {form.sequence, form.keys}});
      for (int64_t q = 0; q < form.sequence; ++q)
        for (int64_t k = 0; k < form.keys; ++k) seen.set(q * form.keys + k, k <= q + form.ahead ? 1 : 0);
      scores = emit("Where", {initializer(seen), scores, hidden});
    }
    std::string share = emit("Softmax", {scores}, {integer("axis", -1)});
    // A query that sees no key gives zeros.
    if (form.mask >= 0 || form.bias >= 0)
      share = emit("Where", {emit("IsNaN", {share}), scalar(DType::kF32, 0), share});
    return {emit("Transpose", {emit("MatMul", {share, value})}, {integers("perm", {0, 2, 1, 3})})};
  }

  std::vector<std::string> write_convolution(const NodeSignature& signature, const std::vector<std::string>& in) {
    const ConvolutionForm form = convolution_form(signature);
    if (form.channels_last || form.accumulate || form.chunks > 1) return {};
    std::vector<int64_t> strides, dilations, pads, high, taps;
    for (int i = 3 - form.rank; i < 3; ++i) {
      const ConvolutionSpace& space = form.space[static_cast<size_t>(i)];
      strides.push_back(space.stride), dilations.push_back(space.dilation), taps.push_back(space.taps);
      pads.push_back(space.low), high.push_back(space.high);
    }
    pads.insert(pads.end(), high.begin(), high.end());
    return {emit("Conv", in,
                 {integers("strides", strides), integers("dilations", dilations), integers("pads", pads),
                  integers("kernel_shape", taps), integer("group", form.groups)})};
  }

  std::vector<std::string> write_pool(const Node& node, const NodeSignature& signature,
                                      const std::vector<std::string>& in) {
    const ir::Attributes& attributes = node.attributes;
    if (attributes.get_bool_or("channels_last", false) || !attributes.has("taps") ||
        attributes.get_int_or("divisor", 0) != 0)
      return {};
    const auto space = static_cast<size_t>(signature.inputs[0].shape.rank() - 2);
    const auto list = [&](const char* name, const std::vector<int64_t>& absent) {
      return attributes.has(name) ? attributes.get_ints(name) : absent;
    };
    const std::vector<int64_t> taps = attributes.get_ints("taps"), ones(space, 1), zeros(space, 0);
    std::vector<int64_t> pads = list("low", zeros);
    for (const int64_t each : list("high", zeros)) pads.push_back(each);
    Fields made = {integers("kernel_shape", taps), integers("strides", list("strides", taps)),
                   integers("dilations", list("dilations", ones)), integers("pads", pads),
                   integer("ceil_mode", attributes.get_bool_or("ceil_mode", false) ? 1 : 0)};
    if (node.op->name == "average_pool")
      made.push_back(integer("count_include_pad", attributes.get_bool_or("count_padding", true) ? 1 : 0));
    return {emit(node.op->name == "max_pool" ? "MaxPool" : "AveragePool", in, made)};
  }

  void refuse_missing() const {
    if (missing_.empty()) return;
    std::string all;
    for (const std::string& op : missing_) all += (all.empty() ? "" : ", ") + op;
    throw UnsupportedOp(
        {.what = "the model has ops that are not written as ONNX", .where = "model '" + name_ + "'", .found = all});
  }

  std::string model() const {
    ProtoMessage graph;
    for (const ProtoMessage& node : nodes_) graph.message(1, node);
    graph.bytes(2, name_);
    for (const ProtoMessage& each : initializers_) graph.message(5, each);
    for (const ProtoMessage& each : inputs_) graph.message(11, each);
    for (const ProtoMessage& each : outputs_) graph.message(12, each);
    ProtoMessage made;
    made.number(1, kIrVersion).bytes(2, "ramet").message(7, graph);
    made.message(8, ProtoMessage().bytes(1, "").number(2, kOpset));
    return made.data();
  }

  const Graph& graph_;
  std::string name_, node_name_{};
  const StateValue& value_;
  std::map<ValueId, std::string> names_{};
  std::set<std::string> used_{}, missing_{};
  std::vector<ProtoMessage> nodes_{}, initializers_{}, inputs_{}, outputs_{};
  int64_t count_ = 0;
};

}  // namespace

std::string export_onnx(const Graph& graph, const std::string& name, const StateValue& value) {
  return Exporter(graph, name, value).run();
}

}  // namespace ramet::front

// Graphs as ONNX files.
#include "ramet/front/onnx_export.h"

#include <algorithm>
#include <optional>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/front/onnx_write.h"
#include "ramet/front/onnx_writer.h"
#include "ramet/ir/part_of.h"
#include "ramet/ops/epilogue.h"
#include "ramet/transform/filled_state.h"

namespace ramet::front {
namespace {

namespace fs = std::filesystem;

/// Versions of the file format, by the operator sets that came with them.
int64_t ir_version_of(int64_t opset) {
  if (opset >= 28) return 14;
  if (opset >= 25) return 13;
  if (opset == 24) return 12;
  return opset == 23 ? 11 : 10;
}

constexpr int64_t kMostInlineBytes = int64_t{2'000'000'000};  ///< messages of protobuf end at 2 GiB
constexpr int64_t kLeastExternalBytes = 1024, kAlignment = 4096;

ProtoMessage value_info(const std::string& name, const TensorType& type) {
  ProtoMessage shape;
  for (const int64_t extent : type.shape.dims())
    shape.message(1, ProtoMessage().number(1, static_cast<uint64_t>(extent)));
  const ProtoMessage tensor =
      ProtoMessage().number(1, static_cast<uint64_t>(onnx_type_of(type.dtype))).message(2, shape);
  return ProtoMessage().bytes(1, name).message(2, ProtoMessage().message(1, tensor));
}

std::string text_of(const Node& node) {
  std::string made = node.op->name + " {";
  for (const auto& [name, attribute] : node.attributes) {
    if (made.back() != '{') made += ", ";
    made += name + "=" + ir::text_of(attribute);
  }
  return made + "}";
}

/// The body of a function that stands for a node, and those like it.
struct Function {
  std::string name;
  size_t inputs = 0;
  OnnxWriter body{true};
  std::vector<std::string> outputs{};

  ProtoMessage message(int64_t opset) const {
    ProtoMessage made;
    made.bytes(1, name);
    for (size_t i = 0; i < inputs; ++i) made.bytes(4, "x" + std::to_string(i));
    for (const std::string& output : outputs) made.bytes(5, output);
    made.bytes(6, kOnnxOpAttribute);
    for (const OnnxWritten& node : body.written()) made.message(7, node.message());
    made.message(9, ProtoMessage().bytes(1, "").number(2, static_cast<uint64_t>(opset)));
    return made.bytes(10, kOnnxOpDomain);
  }
};

class Exporter {
 public:
  Exporter(const Graph& graph, const std::string& name, const OnnxWriteOptions& options)
      : graph_(graph), name_(name), options_(options) {}

  void translate() {
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      names_[input.value] = value.name, writer_.reserve(value.name);
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.role == OutputRole::kState) changed_.insert(output.name);
      writer_.reserve(name_of(output));
    }
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) write(id);
    refuse();
    writer_.set_place("results", "");
    std::vector<std::string> results;
    for (const GraphOutput& output : graph_.outputs()) {
      const auto found = names_.find(output.value);
      if (found == names_.end()) throw unwritten(output.name);
      results.push_back(writer_.node("Identity", {found->second}, {}, name_of(output)));
    }
    read_ = writer_.drop_unused(results);
  }

  /// States that the file holds, and other constants.
  std::vector<std::pair<std::string, TensorType>> initializers() const {
    std::vector<std::pair<std::string, TensorType>> made;
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      if (is_initializer(input) && read_.count(value.name)) made.emplace_back(value.name, value.type);
    }
    for (const auto& [name, tensor] : writer_.constants())
      if (read_.count(name)) made.emplace_back(name, tensor.type);
    return made;
  }
  const HostTensor* constant(const std::string& name) const {
    for (const auto& [known, tensor] : writer_.constants())
      if (known == name) return &tensor;
    return nullptr;
  }

  /// The whole file, with these messages of tensors.
  std::string model(const std::vector<ProtoMessage>& tensors) const {
    ProtoMessage graph;
    for (const OnnxWritten& node : writer_.written()) graph.message(1, node.message());
    graph.bytes(2, name_);
    for (const ProtoMessage& tensor : tensors) graph.message(5, tensor);
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      if (!is_initializer(input) && read_.count(value.name)) graph.message(11, value_info(value.name, value.type));
    }
    for (const GraphOutput& output : graph_.outputs())
      graph.message(12, value_info(name_of(output), graph_.type(output.value)));
    ProtoMessage made;
    made.number(1, static_cast<uint64_t>(ir_version_of(options_.opset))).bytes(2, "ramet").message(7, graph);
    made.message(8, ProtoMessage().bytes(1, "").number(2, static_cast<uint64_t>(options_.opset)));
    if (!functions_.empty()) made.message(8, ProtoMessage().bytes(1, kOnnxOpDomain).number(2, 1));
    for (const auto& [key, function] : functions_) made.message(25, function.message(options_.opset));
    return made.data();
  }

 private:
  using Names = OnnxWriter::Names;

  static std::string name_of(const GraphOutput& output) {
    return output.role == OutputRole::kState ? output.name + kOnnxNextState : output.name;
  }
  /// States that the graph changes are inputs, as what it makes of them are outputs.
  bool is_initializer(const GraphInput& input) const {
    return input.role == InputRole::kState && changed_.count(graph_.value(input.value).name) == 0;
  }

  void write(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeSignature signature = graph_.signature(id);
    OnnxOp op{graph_, node, signature, {}};
    for (const ValueId input : node.inputs) {
      const auto found = names_.find(input);
      if (found == names_.end()) {
        const NodeId producer = graph_.value(input).producer;
        if (producer != kNoNode && refused_.count(graph_.node(producer).op->name) == 0 && !behind_.count(producer))
          refused_[node.op->name] = "it reads a result of " + graph_.node(producer).op->name + " that has no form";
        behind_.insert(id);
        return;
      }
      op.in.push_back(found->second);
    }
    writer_.set_place(node.name.empty() ? node.op->name : node.name, ir::text_of(node.part));
    const OnnxFormEntry* form = find_onnx_form(node.op->name);
    if (!form) {
      refused_[node.op->name] = "";
      return;
    }
    try {
      if (ops::has_epilogue(signature)) op.refuse("an epilogue has no form");
      Names made = batch_norm(node);
      if (made.empty()) made = is_wrapped(*form, node) ? call(*form, op) : form->write(writer_, op);
      for (size_t i = 0; i < made.size() && i < node.outputs.size(); ++i) names_[node.outputs[i]] = made[i];
    } catch (const UnsupportedOp& error) {
      refused_[node.op->name] = error.parts().what;
    }
  }

  /// Attributes that a node of ONNX could not give back.
  static bool is_wrapped(const OnnxFormEntry& form, const Node& node) {
    const ir::Attributes& attributes = node.attributes;
    return form.wrapped || attributes.get_bool_or("channels_last", false) ||
           attributes.get_bool_or("in_order", false) || attributes.get_int_or("chunks", 1) > 1 ||
           ((node.op->name == "matmul" || node.op->name == "linear") && attributes.has("dtype"));
  }

  /// A call of the function that stands for the op with these attributes and operands.
  Names call(const OnnxFormEntry& form, const OnnxOp& op) {
    const std::string text = text_of(op.node);
    std::string key = text;
    for (const TensorType& type : op.signature.inputs) key += "," + type.text();
    auto found = functions_.find(key);
    if (found == functions_.end()) {
      Function made{.name = op.node.op->name + "_" + std::to_string(functions_.size()), .inputs = op.in.size()};
      OnnxOp inner{op.graph, op.node, op.signature, {}};
      for (size_t i = 0; i < op.in.size(); ++i) {
        inner.in.push_back("x" + std::to_string(i));
        made.body.reserve(inner.in.back());
      }
      for (const std::string& result : form.write(made.body, inner))
        made.outputs.push_back(made.body.node("Identity", {result}, {}, made.body.fresh("y")));
      made.body.drop_unused(made.outputs);
      found = functions_.emplace(key, std::move(made)).first;
    }
    const Function& function = found->second;
    return writer_.nodes(function.name, op.in, function.outputs.size(), {onnx_text(kOnnxOpAttribute, text)},
                         kOnnxOpDomain);
  }

  // --- batch norm, of which the graph has the parts ---

  const Node* maker(ValueId value, std::string_view op) const {
    const NodeId id = graph_.value(value).producer;
    return id != kNoNode && graph_.node(id).op->name == op ? &graph_.node(id) : nullptr;
  }
  /// The vector [C] of which a value is another shape.
  std::optional<ValueId> vector_of(ValueId value) const {
    const Node* node = maker(value, "reshape");
    if (!node || graph_.type(node->inputs[0]).shape.rank() != 1) return std::nullopt;
    return names_.count(node->inputs[0]) ? std::optional(node->inputs[0]) : std::nullopt;
  }
  /// (a - mean) (rsqrt(variance + epsilon) gain) + bias, with vectors of channels.
  Names batch_norm(const Node& node) {
    if (node.op->name != "normalize_channels" || node.attributes.get_bool_or("channels_last", false) ||
        graph_.type(node.inputs[0]).dtype != DType::kF32)
      return {};
    const auto mean = vector_of(node.inputs[1]), bias = vector_of(node.inputs[3]);
    const Node* factor = maker(node.inputs[2], "multiply");
    if (!mean || !bias || !factor) return {};
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Node* root = maker(factor->inputs[side], "rsqrt");
      const Node* sum = root ? maker(root->inputs[0], "add_scalar") : nullptr;
      const auto variance = sum ? vector_of(sum->inputs[0]) : std::nullopt;
      const auto gain = vector_of(factor->inputs[1 - side]);
      if (!variance || !gain) continue;
      const double epsilon = sum->attributes.get_float("parameter");
      return {writer_.node(
          "BatchNormalization",
          {names_.at(node.inputs[0]), names_.at(*gain), names_.at(*bias), names_.at(*mean), names_.at(*variance)},
          {onnx_number("epsilon", epsilon)})};
    }
    return {};
  }

  UnsupportedOp unwritten(const std::string& found) const {
    return UnsupportedOp(
        {.what = "the model has ops that are not written as ONNX", .where = "model '" + name_ + "'", .found = found});
  }
  void refuse() const {
    if (refused_.empty()) return;
    std::string all;
    for (const auto& [op, why] : refused_) all += (all.empty() ? "" : ", ") + op + (why.empty() ? "" : ": " + why);
    throw unwritten(all);
  }

  const Graph& graph_;
  std::string name_;
  OnnxWriteOptions options_;
  OnnxWriter writer_{false};
  std::set<std::string> changed_{};  ///< states
  std::map<ValueId, std::string> names_{};
  std::map<std::string, Function> functions_{};
  std::map<std::string, std::string> refused_{};  ///< ops, and why
  std::set<NodeId> behind_{};                     ///< nodes that read what is refused
  std::set<std::string> read_{};
};

/// Writes the bytes of tensors one behind another into a file that takes its name when it is whole.
class DataFile {
 public:
  explicit DataFile(const fs::path& path) : path_(path), partial_(path.string() + ".partial"), writer_(partial_) {}

  /// The message of a tensor whose bytes are in the file.
  ProtoMessage add(const HostTensor& tensor, const std::string& name) {
    static const std::string zeros(kAlignment, '\0');
    if (const uint64_t rest = writer_.position() % kAlignment; rest != 0)
      writer_.write(zeros.data(), kAlignment - rest);
    const auto entry = [](const std::string& key, const std::string& value) {
      return ProtoMessage().bytes(1, key).bytes(2, value);
    };
    ProtoMessage made;
    for (const int64_t extent : tensor.type.shape.dims()) made.number(1, static_cast<uint64_t>(extent));
    made.number(2, static_cast<uint64_t>(onnx_type_of(tensor.type.dtype))).bytes(8, name);
    made.message(13, entry("location", path_.filename().string()));
    made.message(13, entry("offset", std::to_string(writer_.position())));
    made.message(13, entry("length", std::to_string(tensor.data.size())));
    writer_.write(tensor.data.data(), tensor.data.size());
    return made.number(14, 1);
  }
  void close() {
    writer_.close();
    fs::rename(partial_, path_);
  }

 private:
  fs::path path_, partial_;
  FileWriter writer_;
};

}  // namespace

Graph predictions_of(const model::Model& model, const std::string& program) {
  if (program == "evaluate") return model.evaluate;
  std::string names = "evaluate";
  for (const NamedGraph& each : model.programs) {
    if (each.name == (program.empty() ? "predict" : program)) return each.graph;
    names += ", " + each.name;
  }
  if (!program.empty())
    throw Error({.what = "the model has no such program",
                 .where = "model '" + model.name + "'",
                 .found = program,
                 .expected = names});
  std::vector<GraphOutput> logits;
  for (const Node& node : model.evaluate.nodes())
    if (node.op->name == "softmax_statistics")
      logits.push_back({logits.empty() ? "logits" : "logits_" + std::to_string(logits.size() + 1), node.inputs[0],
                        OutputRole::kResult});
  return logits.empty() ? model.evaluate : ir::part_of(model.evaluate, "predict", logits);
}

void write_onnx(const fs::path& path, const Graph& graph, const std::string& name, const StateValue& value,
                const OnnxWriteOptions& options) {
  if (options.opset < kLeastWrittenOpset || options.opset > kMostWrittenOpset)
    throw Error({.what = "ONNX files are not written with this operator set",
                 .where = "--opset",
                 .found = std::to_string(options.opset),
                 .expected = std::to_string(kLeastWrittenOpset) + " to " + std::to_string(kMostWrittenOpset)});
  Exporter exporter(graph, name, options);
  exporter.translate();
  int64_t bytes = 0;
  for (const auto& [state, type] : exporter.initializers()) bytes += type.bytes();
  std::optional<DataFile> data;
  if (options.external || bytes > kMostInlineBytes) data.emplace(path.string() + ".data");
  std::vector<ProtoMessage> tensors;
  for (const auto& [state, type] : exporter.initializers()) {
    const HostTensor* constant = exporter.constant(state);
    const HostTensor tensor = constant ? *constant : value(state);
    const bool outside = data && type.bytes() >= kLeastExternalBytes;
    tensors.push_back(outside ? data->add(tensor, state) : onnx_tensor_message(tensor, state));
  }
  if (data) data->close();
  write_file_atomic(path, exporter.model(tensors));
}

StateValue first_values(const model::Model& model) {
  std::map<std::string, StateTensor> states;
  for (const std::vector<StateTensor>* list : {&model.weights, &model.states})
    for (const StateTensor& state : *list) states.emplace(state.name, state);
  return [states = std::move(states)](const std::string& name) {
    const StateTensor& state = states.at(name);
    if (state.init.data) return state.init.data->tensor();
    HostTensor made(state.type);
    const FillFunction* fill = fill_of(state.init);
    if (fill && state.type.dtype == DType::kF32) {
      fill->fill(0, {reinterpret_cast<float*>(made.data.data()), static_cast<size_t>(made.elements())});
      return made;
    }
    const StateInit& init = state.init;
    if (init.kind == StateInit::Kind::kZeros) return made;
    if (init.kind != StateInit::Kind::kConstant && init.kind != StateInit::Kind::kIota)
      throw Error({.what = "a state of the model is drawn when a run begins",
                   .where = "'" + name + "'",
                   .remedy = "Train the model, and write its run: ramet export RUN --out FILE.onnx"});
    for (int64_t i = 0; i < made.elements(); ++i)
      made.set(i, init.kind == StateInit::Kind::kConstant ? init.a : init.a + init.b * static_cast<double>(i));
    return made;
  };
}

}  // namespace ramet::front

// An ONNX file as a model: its inputs, weights, loss and graphs.
#include "ramet/front/onnx_model.h"

#include <algorithm>
#include <charconv>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/fuse_graph.h"
#include "ramet/front/model_support.h"
#include "ramet/front/onnx_import.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/front/onnx_weights.h"
#include "ramet/ir/part_of.h"
#include "ramet/ops/build_loss.h"

namespace ramet::front {
namespace {

using Random = OnnxImporter::Options::Random;

/// Constants of so many bytes stand in the graph; larger ones are states.
constexpr int64_t kMostInlineBytes = 4096;
constexpr const char* kPredictName = "predict";

/// "cross_entropy:LOGITS:LABELS"
struct NamedLoss {
  std::string logits, labels;
};
std::optional<NamedLoss> parse_loss(const std::string& text) {
  constexpr std::string_view kPrefix = "cross_entropy:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  // The last colon: names of TensorFlow's values have one of their own, as in "Identity:0".
  const size_t colon = text.rfind(':');
  if (colon < kPrefix.size() || colon + 1 == text.size())
    throw Error({.what = "the loss is of no known form",
                 .where = "model.loss",
                 .found = text,
                 .expected = "the name of an output, or cross_entropy:LOGITS:LABELS"});
  return NamedLoss{text.substr(kPrefix.size(), colon - kPrefix.size()), text.substr(colon + 1)};
}

class OnnxModelImport {
 public:
  OnnxModelImport(const OnnxModel& file, std::string name, std::filesystem::path folder,
                  const OnnxModelOptions& options)
      : file_(file),
        name_(std::move(name)),
        where_("model '" + name_ + "'"),
        folder_(std::move(folder)),
        options_(options),
        named_loss_(parse_loss(options.loss)) {}

  ImportedModel run() {
    if (file_.has_training) refuse("a model with training_info is not supported; the recipe says how to train");
    if (file_.graph.has_sparse) refuse("sparse initializers are not supported");
    model_.name = name_;
    find_inputs();
    find_states();
    make_parts();
    Importer evaluation(*this, model_.evaluate, Random::kLeaveOut);
    loss_ = find_loss(evaluation);
    write(evaluation, model_.evaluate, true);
    if (!loss_.empty() || named_loss_) {
      Importer training(*this, model_.forward, Random::kDraw);
      write(training, model_.forward, false);
      settle_weights();
    } else {
      model_.forward = model_.evaluate;
      model_.forward.set_name("forward");
    }
    // Files of Ramet's own have the ops of the model that was written, and so its bits.
    if (file_.producer != "ramet") fuse();
    for (StateTensor& state : states_)
      (state.kind == StateKind::kWeight ? model_.weights : model_.states).push_back(std::move(state));
    give_axes(model_);
    model_.tokens_per_micro_batch = micro_batch_;
    check_states(model_);
    checked_inputs(model_);
    return {std::move(model_), micro_batch_};
  }

 private:
  void fuse() {
    GraphConstants constants;
    for (const StateTensor& state : states_)
      if (state.kind == StateKind::kConstant) constants[state.name] = *state.init.data;
    model_.forward = fuse_graph(model_.forward, constants);
    model_.evaluate = fuse_graph(model_.evaluate, constants);
    for (NamedGraph& program : model_.programs) program.graph = fuse_for_prediction(program.graph, constants);
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& found = "", const std::string& expected = "",
                           const std::string& remedy = "") const {
    throw UnsupportedOp({.what = what, .where = where_, .found = found, .expected = expected, .remedy = remedy});
  }

  /// One graph of the model while it is made.
  struct Importer {
    Importer(OnnxModelImport& owner, Graph& graph, Random random)
        : nodes(owner.file_, graph, {.random = random, .folder = owner.folder_, .source = owner.name_}) {
      nodes.set_parts(owner.parts_);
      GraphBuilder& build = nodes.build();
      const InfoScope scope(build, NodeInfo("inputs"));
      for (const InputSpec& input : owner.model_.inputs)
        nodes.give(input.name, build.input(input.name, input.type.dtype, input.type.shape, input.axes));
      for (const auto& [name, data] : owner.constants_) nodes.give(name, ops::constant(build, data));
      for (const StateTensor& state : owner.states_) {
        const Tensor made = build.state(state.name, state.type.dtype, state.type.shape);
        nodes.give(state.name, made);
        if (state.kind == StateKind::kConstant) nodes.known_values().set(made.id, *state.init.data);
      }
      nodes.run();
      if (!nodes.refusals().empty()) throw_refusals(owner.name_, nodes.refusals(), "model");
    }
    OnnxImporter nodes;
  };

  // --- inputs ---

  void find_inputs() {
    std::set<std::string> initialized, names;
    for (const OnnxTensor& tensor : file_.graph.initializers)
      if (!initialized.insert(tensor.name).second) refuse("two initializers have one name", "'" + tensor.name + "'");
    std::string unbound;
    for (const OnnxValueInfo& input : file_.graph.inputs) {
      if (initialized.count(input.name)) continue;
      if (!names.insert(input.name).second) refuse("two inputs have one name", "'" + input.name + "'");
      if (input.kind != OnnxValueInfo::Kind::kTensor || !input.has_shape)
        refuse("an input is no tensor of a known number of dimensions", "'" + input.name + "'");
      add_input(input, unbound);
    }
    if (!unbound.empty())
      throw Error({.what = "dimensions of the model's inputs have no extent",
                   .where = where_,
                   .found = unbound,
                   .remedy = "Give each one, as in --bind batch=16,sequence=128"});
    if (model_.inputs.empty()) refuse("a model without inputs");
    micro_batch_ = model_.inputs[0].type.shape.rank() > 0 ? model_.inputs[0].type.shape[0] : 1;
    for (InputSpec& input : model_.inputs)
      if (input.type.shape.rank() > 0 && input.type.shape[0] == micro_batch_) input.axes[0] = "batch";
    if (!named_loss_) return;
    if (names.count(named_loss_->labels)) refuse("the labels of the loss are an input already", named_loss_->labels);
  }

  void add_input(const OnnxValueInfo& input, std::string& unbound) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < input.shape.size(); ++i) {
      const auto& extent = input.shape[i];
      std::string name = extent.name.empty() ? input.name + ".dim" + std::to_string(i) : extent.name;
      std::optional<int64_t> value = extent.extent && *extent.extent > 0 ? extent.extent : std::nullopt;
      for (const std::string& each : {name, input.name + ".dim" + std::to_string(i)})
        if (const auto bound = options_.bind.find(each); bound != options_.bind.end()) {
          value = bound->second;
          break;
        }
      if (!value) unbound += "\n  '" + name + "', dimension " + std::to_string(i) + " of '" + input.name + "'";
      dims.push_back(value.value_or(1));
    }
    const DType dtype = checked_onnx_dtype(input.type, where_ + ", input '" + input.name + "'");
    const TensorType type{dtype, Shape(dims)};
    if (const auto value = options_.bind.find(input.name); value != options_.bind.end() && type.elements() == 1) {
      HostTensor made(type);
      is_floating(dtype) ? made.set(0, static_cast<double>(value->second))
                         : store_integer(made.data.data(), dtype, 0, value->second);
      constants_.emplace_back(input.name, TensorData(std::move(made)));
      return;
    }
    model_.inputs.push_back({.name = input.name, .type = type, .axes = std::vector<std::string>(dims.size())});
  }

  // --- states ---

  bool is_weight(const std::string& name, const std::set<std::string>& natural) const {
    const auto any = [&](const std::vector<std::string>& patterns) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& pattern) { return matches_name(pattern, name); });
    };
    return (options_.train.empty() ? natural.count(name) != 0 : any(options_.train)) && !any(options_.freeze);
  }

  void find_states() {
    std::set<std::string> natural = find_onnx_weights(file_.graph);
    std::vector<HostTensor> read;
    for (const OnnxTensor& tensor : file_.graph.initializers) read.push_back(read_onnx_tensor(tensor, folder_, name_));
    std::vector<std::pair<std::string, const HostTensor*>> likely;
    for (size_t i = 0; i < read.size(); ++i) {
      const std::string& name = file_.graph.initializers[i].name;
      if (!natural.count(name)) continue;
      if (hides_keys(read[i]))
        natural.erase(name);
      else
        likely.emplace_back(name, &read[i]);
    }
    for (const std::string& table : find_angle_tables(likely)) natural.erase(table);
    for (size_t i = 0; i < read.size(); ++i) add_state(file_.graph.initializers[i].name, std::move(read[i]), natural);
  }

  void add_state(const std::string& name, HostTensor data, const std::set<std::string>& natural) {
    const bool weight = data.type.dtype == DType::kF32 && is_weight(name, natural);
    if (!weight && data.type.bytes() <= kMostInlineBytes) {
      constants_.emplace_back(name, TensorData(std::move(data)));
      return;
    }
    StateTensor state{name, data.type, weight ? StateKind::kWeight : StateKind::kConstant, {}, ""};
    if (weight) {
      state.group = state.type.shape.rank() >= 2 ? "decay" : "no_decay";
      sizes_[name] = state.type.shape.elements();
    }
    state.init = StateInit::from(TensorData(std::move(data)));
    states_.push_back(std::move(state));
  }

  /// Scopes of nodes are modules: "/encoder/layer.0/attention/MatMul" stands in "encoder.layer.0.attention".
  void make_parts() {
    TracedProgram program;
    for (const OnnxNode& node : file_.graph.nodes) {
      TracedCall call;
      call.module = OnnxImporter::scope_of(node);
      for (std::string path = call.module; !path.empty();) {
        std::string kind = path;
        while (!kind.empty() && kind.back() >= '0' && kind.back() <= '9') kind.pop_back();
        program.modules[path] = kind;
        const size_t dot = path.rfind('.');
        path.erase(dot == std::string::npos ? 0 : dot);
      }
      program.calls.push_back(std::move(call));
    }
    parts_ = find_parts(program, {}, sizes_).modules;
  }

  // --- outputs ---

  static bool is_scalar(const Tensor& tensor) {
    return tensor.valid() && is_floating(tensor.dtype()) && tensor.shape().elements() == 1;
  }

  std::string find_loss(const Importer& importer) const {
    if (named_loss_) return "";
    std::vector<std::string> scalars;
    std::string all;
    for (const OnnxValueInfo& output : file_.graph.outputs) {
      all += (all.empty() ? "" : ", ") + output.name;
      const Tensor tensor = importer.nodes.value(output.name).tensor;
      if (is_scalar(tensor) && tensor.shape().rank() == 0) scalars.push_back(output.name);
      if (output.name == options_.loss && is_scalar(tensor)) return output.name;
    }
    if (!options_.loss.empty())
      refuse("the loss is no output of the model that is one number", "'" + options_.loss + "'", all,
             "Name such an output, or cross_entropy:LOGITS:LABELS");
    return scalars.size() == 1 ? scalars[0] : "";
  }

  static Tensor scalar(Tensor tensor) { return ops::reshape(in_type(tensor, DType::kF32), {}); }

  /// The named loss of an output, by a new input of classes.
  Tensor named_loss(Importer& importer, const NamedLoss& loss) {
    const Tensor logits = importer.nodes.value(loss.logits).tensor;
    if (!logits.valid() || !is_floating(logits.dtype()) || logits.shape().rank() < 2)
      refuse("the logits of the loss are no output of floats with samples and classes", "'" + loss.logits + "'");
    // Classes stand last in matrices and sequences, and behind the samples in images.
    const bool last = logits.shape().rank() <= 3;
    std::vector<int64_t> dims = logits.shape().dims();
    dims.erase(last ? dims.end() - 1 : dims.begin() + 1);
    const InputSpec labels{.name = loss.labels, .type = {DType::kI64, Shape(dims)}, .axes = [&] {
                             std::vector<std::string> axes(dims.size());
                             axes[0] = "batch";
                             return axes;
                           }()};
    // The second graph has the input already.
    Tensor classes = importer.nodes.value(labels.name).tensor;
    if (!classes.valid())
      classes = importer.nodes.build().input(labels.name, labels.type.dtype, labels.type.shape, labels.axes);
    if (std::none_of(model_.inputs.begin(), model_.inputs.end(),
                     [&](const InputSpec& input) { return input.name == labels.name; }))
      model_.inputs.push_back(labels);
    if (!last) return ops::cross_entropy_loss(in_type(logits, DType::kF32), classes);
    const int64_t count = classes.shape().elements();
    return ops::cross_entropy_loss(ops::reshape(in_type(logits, DType::kF32), {count, logits.dim(-1)}),
                                   ops::reshape(classes, {count}));
  }

  void write(Importer& importer, Graph& graph, bool evaluates) {
    std::vector<GraphOutput> predictions;
    for (const OnnxValueInfo& output : file_.graph.outputs) {
      const Tensor tensor = importer.nodes.value(output.name).tensor;
      if (!tensor.valid()) refuse("an output of the model is no tensor", "'" + output.name + "'");
      const bool trains = !loss_.empty() || named_loss_;
      if (!trains || tensor.shape().rank() > 0) predictions.push_back({output.name, tensor.id, OutputRole::kResult});
    }
    if (evaluates && !predictions.empty())
      model_.programs.push_back({kPredictName, part_of(graph, kPredictName, predictions)});
    if (loss_.empty() && !named_loss_) return;
    const Tensor loss = named_loss_ ? named_loss(importer, *named_loss_) : importer.nodes.value(loss_).tensor;
    importer.nodes.build().output("loss", scalar(loss));
    if (!evaluates) return;
    model_.metrics.push_back({.name = "loss", .numerator = "loss", .how = Metric::How::kMean});
    model_.guards.push_back("loss");
  }

  /// Weights that the loss does not depend on are constants.
  void settle_weights() {
    const std::set<std::string> reached = states_of_loss(model_.forward);
    bool any = false;
    for (StateTensor& state : states_) {
      if (state.kind != StateKind::kWeight) continue;
      if (!reached.count(state.name)) state.kind = StateKind::kConstant;
      any = any || state.kind == StateKind::kWeight;
    }
    if (!any) refuse("the loss depends on no initializer that is trained");
  }

  const OnnxModel& file_;
  std::string name_, where_;
  std::filesystem::path folder_;
  OnnxModelOptions options_;
  std::optional<NamedLoss> named_loss_;
  std::string loss_{};
  model::Model model_{};
  int64_t micro_batch_ = 1;
  std::vector<std::pair<std::string, TensorData>> constants_{};
  std::vector<StateTensor> states_{};
  std::map<std::string, int64_t> sizes_{};
  std::map<std::string, Part, std::less<>> parts_{};
};

}  // namespace

std::map<std::string, int64_t> parse_onnx_bind(const std::string& text) {
  std::map<std::string, int64_t> made;
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = std::min(text.find(',', from), text.size());
    const std::string item = text.substr(from, end - from);
    const size_t equals = item.rfind('=');
    int64_t value = 0;
    const char *begin = item.data() + (equals == std::string::npos ? 0 : equals + 1), *last = item.data() + item.size();
    const auto [stop, error] = std::from_chars(begin, last, value);
    if (equals == std::string::npos || equals == 0 || error != std::errc() || stop != last)
      throw Error({.what = "a dimension is not bound to a number",
                   .where = "--bind",
                   .found = "'" + item + "'",
                   .expected = "NAME=NUMBER, separated by commas"});
    made[item.substr(0, equals)] = value;
    from = end + 1;
  }
  return made;
}

bool is_onnx_file_name(std::string_view path) { return path.ends_with(".onnx"); }

ImportedModel import_onnx_model(const std::filesystem::path& path, const OnnxModelOptions& options) {
  const MappedFile file(path);
  return import_onnx_model(parse_onnx(file.view(), path.string()), path.stem().string(),
                           path.parent_path().empty() ? "." : path.parent_path(), options);
}

ImportedModel import_onnx_model(const OnnxModel& file, const std::string& name, const std::filesystem::path& folder,
                                const OnnxModelOptions& options) {
  return OnnxModelImport(file, name, folder, options).run();
}

}  // namespace ramet::front

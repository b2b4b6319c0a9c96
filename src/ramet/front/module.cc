// A traced module as a model: its tensors, inputs, outputs and graphs.
#include <algorithm>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/front/expand_complex.h"
#include "ramet/front/importer.h"
#include "ramet/front/model_support.h"
#include "ramet/front/patterns.h"
#include "ramet/front/step_outputs.h"
#include "ramet/ir/part_of.h"
#include "ramet/model/step_outputs.h"
#include "ramet/transform/filled_state.h"

namespace ramet::front {
namespace {

constexpr const char* kPredictName = "predict";
/// Constants of so many bytes stand in the graph; larger ones are states.
constexpr int64_t kMostInlineBytes = 4096;

/// Computations in f64 are made in f32.
void narrow_doubles(TracedProgram& program) {
  for (auto& [name, type] : program.types)
    if (type.dtype == DType::kF64) type.dtype = DType::kF32;
}

TensorData as_type(const TensorData& data, DType dtype) {
  if (data.type().dtype == dtype) return data;
  HostTensor made({dtype, data.type().shape});
  const bool integers = !is_floating(dtype) && !is_floating(data.type().dtype);
  for (int64_t i = 0; i < made.elements(); ++i)
    if (integers)
      store_integer(made.data.data(), dtype, i, load_integer(data.bytes().data(), data.type().dtype, i));
    else
      made.set(i, data.tensor().get(i));
  return TensorData(std::move(made));
}

/// The most that a sum over a mask can be, which is the number of the mask's elements. 0: the value is no such sum.
int64_t most_of_mask(const Tensor& sum) {
  const Graph& graph = sum.builder->graph();
  int64_t summed = 0;
  for (ValueId value = sum.id; graph.type(value).dtype != DType::kBool;) {
    const NodeId producer = graph.value(value).producer;
    if (producer == kNoNode) return 0;
    const Node& node = graph.node(producer);
    const std::string_view op = node.op->name;
    if (op != "cast" && op != "reshape" && op != "reduce_sum") return 0;
    value = node.inputs[0];
    if (op == "reduce_sum") summed = std::max(summed, graph.type(value).elements());
  }
  return summed;
}

/// Builds the model of one module.
class ModuleImport {
 public:
  explicit ModuleImport(TracedModule module, std::vector<std::string> step_outputs = {})
      : module_(std::move(module)), step_outputs_(std::move(step_outputs)), where_("module '" + module_.name + "'") {}

  ImportedModel run() {
    model_.name = module_.name;
    find_programs();
    find_tensors();
    find_inputs();
    find_states();
    const TracedProgram& training = trains() ? *module_.training : *evaluation_;
    parts_ = find_parts(training, module_.parts, sizes_);
    make_graphs();
    if (trains()) settle_weights();
    for (const StateTensor& state : state_order_)
      (state.kind == StateKind::kWeight ? model_.weights : model_.states).push_back(state);
    set_axes();
    model_.tokens_per_micro_batch = micro_batch_;
    check_states(model_);
    checked_inputs(model_);
    return {std::move(model_), micro_batch_};
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "", const std::string& expected = "",
                           const std::string& remedy = "") const {
    throw Error({.what = what, .where = where_, .found = found, .expected = expected, .remedy = remedy});
  }
  bool trains() const { return module_.training.has_value(); }

  void find_programs() {
    if (!module_.training && !module_.evaluation) refuse("a module without a program");
    for (auto* program : {&module_.training, &module_.evaluation})
      if (*program) {
        check_types(**program);
        check_order(**program);
        **program = expand_complex(std::move(**program));
        narrow_doubles(**program);
        if (program == &module_.training) record_statistics(**program);
        **program = fuse_patterns(std::move(**program));
      }
    evaluation_ = module_.evaluation ? &*module_.evaluation : &*module_.training;
  }

  /// Whether steps may give an input of the program other values.
  static bool may_change(const TracedProgram& program, const TracedInput& input) {
    return input.kind == TracedInput::Kind::kUser || input.kind == TracedInput::Kind::kParameter ||
           std::any_of(program.outputs.begin(), program.outputs.end(), [&](const TracedOutput& output) {
             return output.kind == TracedOutput::Kind::kBufferMutation && output.target == input.target;
           });
  }

  void check_types(const TracedProgram& program) const {
    for (const TracedInput& input : program.inputs) {
      const auto type = program.types.find(input.value);
      if (type == program.types.end()) refuse("an input of the program has no type", "'" + input.target + "'");
      if (program.complex.count(input.value) && may_change(program, input))
        refuse("complex tensors are not supported as inputs, as parameters, and as buffers that change",
               "'" + input.target + "'", "",
               "Keep real and imaginary parts as one tensor (torch.view_as_real), and "
               "take torch.view_as_complex of it in forward");
      const bool parameter = input.kind == TracedInput::Kind::kParameter;
      const DType dtype = type->second.dtype;
      if (parameter && dtype != DType::kF32)
        refuse("parameters must be f32", "'" + input.target + "' " + type->second.text(), "f32",
               "Convert the module with module.float(); the precision of a training is an option of its own");
      if (input.kind == TracedInput::Kind::kUser && dtype == DType::kF64)
        refuse("inputs of f64 are not supported", "'" + input.target + "' " + type->second.text(), "f32",
               "Export the module with an example of float32");
    }
  }

  /// Every value is made once, and before it is read.
  void check_order(const TracedProgram& program) const {
    std::set<std::string, std::less<>> made;
    const auto make = [&](const std::string& value) {
      if (!value.empty() && !made.insert(value).second)
        refuse("two values of the program have one name", "'" + value + "'");
    };
    const auto read = [&](const std::string& value, const std::string& reader) {
      if (!value.empty() && !made.count(value))
        refuse("a value of the program is read before it is made", "'" + value + "', read by " + reader);
    };
    for (const TracedInput& input : program.inputs) make(input.value);
    for (const TracedCall& call : program.calls) {
      each_tensor_of(call, [&](const std::string& value) { read(value, call.op); });
      for (const std::string& output : call.outputs) make(output);
    }
    for (const TracedOutput& output : program.outputs) read(output.value, "an output");
  }

  // --- tensors ---

  void find_tensors() {
    std::map<std::string, const ModuleTensor*> storages;
    for (const ModuleTensor& tensor : module_.tensors) {
      if (!tensors_.emplace(tensor.name, &tensor).second) refuse("two tensors of one name", "'" + tensor.name + "'");
      const ModuleTensor* first = &tensor;
      if (!tensor.storage.empty()) first = storages.emplace(tensor.storage, &tensor).first->second;
      // Views of one storage that differ in shape are tensors of their own.
      if (first->type() != tensor.type()) first = &tensor;
      first_of_[tensor.name] = first;
    }
    for (const auto* program : programs())
      for (const TracedInput& input : program->inputs) {
        if (input.kind == TracedInput::Kind::kUser) continue;
        const auto tensor = tensors_.find(input.target);
        if (tensor == tensors_.end())
          refuse("the program reads a tensor that was not given", "'" + input.target + "'", "",
                 "Give the values of all parameters, buffers and constants");
        TensorType given = tensor->second->type();
        if (given.dtype == DType::kF64) given.dtype = DType::kF32;
        const TensorType& read = program->types.find(input.value)->second;
        if (given != read)
          refuse("a tensor is of another type than in the program", "'" + input.target + "' " + given.text(),
                 read.text());
        const std::string& name = first_of_[input.target]->name;
        if (input.kind == TracedInput::Kind::kParameter) parameters_.insert(name);
      }
  }
  std::vector<const TracedProgram*> programs() const {
    std::vector<const TracedProgram*> all;
    if (module_.training) all.push_back(&*module_.training);
    if (module_.evaluation) all.push_back(&*module_.evaluation);
    return all;
  }

  // --- data inputs ---

  void find_inputs() {
    std::map<std::string, TensorType> known;
    for (const auto* program : programs())
      for (const TracedInput& input : program->inputs) {
        if (input.kind != TracedInput::Kind::kUser) continue;
        const TensorType& type = program->types.find(input.value)->second;
        const auto [found, added] = known.emplace(input.target, type);
        if (found->second != type)
          refuse("the programs of training and evaluation take an input of different types",
                 "'" + input.target + "' " + type.text(), found->second.text(), "Export both with the same example");
        if (added) add_input(input.target, type);
      }
    if (model_.inputs.empty())
      refuse("a module without inputs", "", "at least one tensor", "Export the module with an example of its inputs");
  }
  void add_input(const std::string& name, const TensorType& type) {
    const bool first = model_.inputs.empty();
    if (type.shape.rank() == 0 || type.shape[0] < 1 || (!first && type.shape[0] != micro_batch_))
      refuse("the first dimension of every input must be the samples of a micro-batch",
             "input '" + name + "' " + type.text(),
             first ? "[samples, ...]"
                   : "[" + std::to_string(micro_batch_) + ", ...], as '" + model_.inputs[0].name + "' has",
             "Make what is no sample a buffer of the module, or compute it in forward");
    micro_batch_ = type.shape[0];
    std::vector<std::string> axes(static_cast<size_t>(type.shape.rank()));
    axes[0] = "batch";
    model_.inputs.push_back({.name = name, .type = type, .axes = std::move(axes)});
  }

  // --- states ---

  /// The states that each tensor becomes, in the order of the tensors.
  void find_states() {
    if (trains()) {
      folds_ = recognise_folds(*module_.training);
      for (const TracedOutput& output : module_.training->outputs)
        if (output.kind == TracedOutput::Kind::kBufferMutation) mutated_.insert(output.target);
    }
    std::set<std::string> read;
    for (const auto* program : programs())
      for (const TracedInput& input : program->inputs)
        if (input.kind != TracedInput::Kind::kUser) read.insert(first_of_[input.target]->name);
    for (const ModuleTensor& tensor : module_.tensors) {
      const bool parameter = parameters_.count(tensor.name);
      if (first_of_[tensor.name] != &tensor || (!read.count(tensor.name) && !mutated_.count(tensor.name))) continue;
      StateTensor state{tensor.name, tensor.type(), StateKind::kConstant, {}, ""};
      if (state.type.dtype == DType::kF64) state.type.dtype = DType::kF32;
      if (parameter) {
        state.kind = tensor.trained ? StateKind::kWeight : StateKind::kConstant;
        state.group = state.type.shape.rank() >= 2 ? "decay" : "no_decay";
        sizes_[tensor.name] = state.type.shape.elements();
      } else if (mutated_.count(tensor.name)) {
        state.kind = StateKind::kDeferred;  // until the graph of training says more
      } else if (state.type.bytes() <= kMostInlineBytes) {
        inline_.insert(tensor.name);
        continue;
      }
      state.init = tensor.fill && state.kind == StateKind::kWeight
                       ? filled("'" + tensor.name + "' of " + where_, tensor.fill)
                       : StateInit::from(as_type(tensor.values(), state.type.dtype));
      state_order_.push_back(std::move(state));
    }
  }
  StateTensor& state(const std::string& name) {
    return *std::find_if(state_order_.begin(), state_order_.end(),
                         [&](const StateTensor& each) { return each.name == name; });
  }

  /// Integers that a micro-batch adds a number to count in f32; other integers go from micro-batch to micro-batch.
  bool may_fold(const std::string& buffer) {
    const auto fold = folds_.find(buffer);
    if (fold == folds_.end()) return false;
    return is_floating(state(buffer).type.dtype) || (fold->second.by == "sum" && fold->second.value.empty());
  }

  std::map<std::string, InputValue, std::less<>> input_values(const TracedProgram& program) {
    std::map<std::string, InputValue, std::less<>> values;
    for (const TracedInput& input : program.inputs) {
      InputValue value;
      value.name = input.target;
      value.type = program.types.find(input.value)->second;
      if (input.kind == TracedInput::Kind::kUser) {
        value.axes.resize(static_cast<size_t>(value.type.shape.rank()));
        value.axes[0] = "batch";
      } else if (const ModuleTensor& tensor = *first_of_[input.target]; inline_.count(tensor.name)) {
        value.from = InputValue::From::kConstant;
        value.data = as_type(tensor.values(), value.type.dtype);
      } else {
        value.from = InputValue::From::kState;
        value.name = tensor.name;
        value.type = state(tensor.name).type;
      }
      values[input.value] = std::move(value);
    }
    return values;
  }

  // --- graphs ---

  void make_graphs() {
    std::erase_if(folds_, [&](const auto& fold) { return !may_fold(fold.first); });
    // States whose type a fold decides have it before any graph reads them.
    for (const auto& [buffer, fold] : folds_) {
      StateTensor& folded = state(buffer);
      folded.type.dtype = DType::kF32;
      folded.init = StateInit::from(as_type(*folded.init.data, DType::kF32));
      folded.fold = {fold.by, fold.momentum};
    }
    std::vector<Refusal> refusals;
    if (trains()) {
      Importer::Options options = options_of(*module_.training, true);
      for (const auto& [buffer, fold] : folds_) {
        options.skip.insert(fold.skip.begin(), fold.skip.end());
        if (!fold.value.empty()) options.wanted.insert(fold.value);
      }
      Importer importer(*module_.training, model_.forward, std::move(options));
      importer.run();
      write_states(importer);
      refusals = importer.refusals();
      if (refusals.empty()) write_outputs(importer, model_.forward), write_step_outputs(importer);
    }
    Importer importer(*evaluation_, model_.evaluate, options_of(*evaluation_, false));
    importer.run();
    add_refusals(refusals, importer.refusals());
    if (!refusals.empty()) throw_refusals(module_.name, refusals);
    write_outputs(importer, model_.evaluate);
    write_predictions(importer);
    if (!trains()) {
      model_.forward = model_.evaluate;
      model_.forward.set_name("forward");
    }
  }

  Importer::Options options_of(const TracedProgram& program, bool training) {
    return {.trains = training,
            .draws = training || module_.evaluation.has_value(),
            .seed = static_cast<int64_t>(module_.seed),
            .inputs = input_values(program),
            .parts = parts_of_calls(program, parts_)};
  }

  /// Of the evaluation: those that the training does not have as well.
  static void add_refusals(std::vector<Refusal>& all, const std::vector<Refusal>& more) {
    std::set<std::string> known;
    for (const Refusal& refusal : all) known.insert(refusal.op + "\n" + refusal.why);
    for (const Refusal& refusal : more)
      if (!known.count(refusal.op + "\n" + refusal.why)) all.push_back(refusal);
  }

  /// The values that a micro-batch gives for mutated buffers.
  void write_states(Importer& importer) {
    for (const TracedOutput& output : module_.training->outputs) {
      if (output.kind != TracedOutput::Kind::kBufferMutation) continue;
      const auto found = first_of_.find(output.target);
      if (found == first_of_.end()) {
        refuse("the program changes a buffer that was not given", "'" + output.target + "'");
      }
      StateTensor& buffer = state(found->second->name);
      Tensor value;
      if (const auto made = importer.folds().find(output.target); made != importer.folds().end()) {
        buffer.fold = {made->second.by, made->second.momentum};
        value = made->second.value;
      } else if (const auto fold = folds_.find(output.target); fold != folds_.end()) {
        value = fold->second.value.empty()
                    ? ops::full(importer.build(), DType::kF32, buffer.type.shape, fold->second.number)
                    : importer.value(fold->second.value);
        if (value.valid() && value.shape() != buffer.type.shape) value = ops::broadcast_to(value, buffer.type.shape);
      } else {
        buffer.kind = StateKind::kChained;
        value = importer.value(output.value);
      }
      if (!value.valid()) {
        if (importer.refusals().empty())
          importer.refuse({"buffer '" + output.target + "'", "", "its next value is not supported",
                           "Compute the value outside of the module, or keep the buffer as it is"});
        continue;
      }
      if (buffer.kind == StateKind::kDeferred && buffer.type.dtype != DType::kF32) {
        importer.refuse({"buffer '" + output.target + "'", "",
                         "a running statistic must be f32; found " + buffer.type.text(),
                         "Convert the module with module.float()"});
        continue;
      }
      if (value.dtype() != buffer.type.dtype) value = ops::cast(value, buffer.type.dtype);
      importer.build().output(buffer.name, value, OutputRole::kState);
    }
  }

  // --- outputs ---

  std::string output_name(size_t index) const {
    return index < module_.outputs.size() && !module_.outputs[index].empty() ? module_.outputs[index]
                                                                             : "output_" + std::to_string(index);
  }

  /// User outputs that are tensors, by name.
  std::vector<std::pair<std::string, std::string>> user_outputs(const TracedProgram& program) const {
    std::vector<std::pair<std::string, std::string>> all;
    std::set<std::string> names;
    size_t index = 0;
    for (const TracedOutput& output : program.outputs) {
      if (output.kind != TracedOutput::Kind::kUser) continue;
      const std::string name = output_name(index++);
      if (output.value.empty()) continue;
      if (!names.insert(name).second) refuse("two outputs of one name", "'" + name + "'");
      all.emplace_back(name, output.value);
    }
    return all;
  }

  static bool is_scalar(const Tensor& tensor) {
    return tensor.valid() && is_floating(tensor.dtype()) && tensor.shape().elements() == 1;
  }

  /// The name of the output that is minimised.
  std::string find_loss(Importer& importer) const {
    std::vector<std::string> candidates;
    std::string names;
    for (const auto& [name, value] : user_outputs(importer.program())) {
      names += (names.empty() ? "" : ", ") + name;
      if (is_scalar(importer.value(value))) candidates.push_back(name);
    }
    if (!module_.loss.empty()) {
      if (std::find(candidates.begin(), candidates.end(), module_.loss) == candidates.end())
        refuse("the loss is no output of the module that is one number", "'" + module_.loss + "'", names,
               "Name an output that is a floating-point scalar");
      return module_.loss;
    }
    if (candidates.size() == 1) return candidates[0];
    if (std::find(candidates.begin(), candidates.end(), "loss") != candidates.end()) return "loss";
    std::string found;
    for (const std::string& name : candidates) found += (found.empty() ? "" : ", ") + name;
    if (candidates.empty())
      refuse("no output of the module is a loss, one floating-point number", names.empty() ? "no outputs" : names, "",
             "Let forward return the loss, or wrap the module and its loss function in a module");
    refuse("several outputs of the module could be the loss", found, "", "Name one of them as the loss");
  }

  Tensor scalar(Importer& importer, const std::string& value) const {
    Tensor tensor = importer.value(value);
    if (tensor.dtype() != DType::kF32) tensor = ops::cast(tensor, DType::kF32);
    return tensor.shape().rank() == 0 ? tensor : ops::reshape(tensor, {});
  }

  /// The loss and the other scalars, which are metrics.
  void write_outputs(Importer& importer, const Graph& graph) {
    if (!trains()) return;
    const auto outputs = user_outputs(importer.program());
    const auto value_of = [&](const std::string& wanted) -> const std::string* {
      for (const auto& [name, value] : outputs)
        if (name == wanted) return &value;
      return nullptr;
    };
    if (&graph == &model_.forward) declare_metrics(importer, outputs);
    const std::string* loss = value_of(loss_);
    if (!loss || !is_scalar(importer.value(*loss)))
      refuse("the program of evaluation does not give the loss", "", "an output '" + loss_ + "'",
             "Let forward return the loss in evaluation mode, too");
    importer.build().output("loss", scalar(importer, *loss));
    if (!module_.loss_items.empty()) {
      const std::string* items = value_of(module_.loss_items);
      if (!items || importer.value(*items).shape().elements() != 1)
        refuse("the number of the loss's items is no output that is one number", "'" + module_.loss_items + "'");
      const Tensor number = scalar(importer, *items);
      importer.build().output("loss.items", number);
      if (&graph == &model_.forward) model_.limit_items("loss", most_of_mask(number));
    }
    std::erase_if(model_.metrics, [&](const Metric& metric) {
      if (metric.name == "loss") return false;
      const std::string* value = value_of(metric.name);
      if (!value || !is_scalar(importer.value(*value))) return true;
      importer.build().output(metric.name, scalar(importer, *value));
      return false;
    });
  }
  void declare_metrics(Importer& importer, const std::vector<std::pair<std::string, std::string>>& outputs) {
    loss_ = find_loss(importer);
    if (module_.loss_items.empty())
      model_.metrics.push_back({.name = "loss", .numerator = "loss", .how = Metric::How::kMean});
    else
      model_.metrics.push_back(mean_metric("loss", "loss.items"));
    model_.guards.push_back("loss");
    for (const auto& [name, value] : outputs)
      if (name != loss_ && name != "loss" && name != module_.loss_items && is_scalar(importer.value(value)))
        model_.metrics.push_back({.name = name, .numerator = name, .how = Metric::How::kMean});
  }

  /// The outputs of a training step that are asked for.
  void write_step_outputs(Importer& importer) {
    const auto outputs = user_outputs(importer.program());
    std::string names;
    for (const auto& [name, value] : outputs)
      if (!is_scalar(importer.value(value))) names += (names.empty() ? "" : ", ") + name;
    for (const std::string& name : step_outputs_) {
      const auto found =
          std::find_if(outputs.begin(), outputs.end(), [&](const auto& each) { return each.first == name; });
      if (found == outputs.end())
        refuse("no output of this name", "'" + name + "'", names.empty() ? "none: all outputs are scalars" : names);
      const Tensor tensor = importer.value(found->second);
      if (is_scalar(tensor))
        refuse("an output of steps that is one number", "'" + name + "'", names,
               "Every step gives the module's scalars as its metrics");
      const std::string own = std::string(model::kStepOutput) + name;
      if (!model_.forward.find_output(own)) importer.build().output(own, tensor);
    }
  }

  /// The program that gives the module's outputs, without its scalars where it has others: they would need labels.
  void write_predictions(Importer& importer) {
    if (trains() && !module_.predicts) return;
    std::vector<GraphOutput> outputs, scalars;
    for (const auto& [name, value] : user_outputs(*evaluation_)) {
      const Tensor tensor = importer.value(value);
      if (!tensor.valid()) continue;
      (tensor.shape().rank() == 0 ? scalars : outputs).push_back({name, tensor.id, OutputRole::kResult});
    }
    if (outputs.empty() && !trains()) outputs = scalars;
    if (outputs.empty()) {
      if (!trains()) refuse("a module without outputs");
      return;
    }
    model_.programs.push_back({kPredictName, part_of(model_.evaluate, kPredictName, outputs)});
  }

  // --- weights ---

  /// Parameters that the loss does not depend on are constants, as torch leaves them untouched.
  void settle_weights() {
    const std::set<std::string> reached = states_of_loss(model_.forward);
    bool any = false;
    for (StateTensor& each : state_order_) {
      if (each.kind != StateKind::kWeight) continue;
      if (!reached.count(each.name)) {
        each.kind = StateKind::kConstant;
        if (fill_of(each.init)) each.init = StateInit::from(tensors_.find(each.name)->second->values());
      }
      any = any || each.kind == StateKind::kWeight;
    }
    if (!any)
      refuse("the loss depends on no parameter that is trained", "output '" + loss_ + "'", "",
             "Set requires_grad, and compute the loss outside of torch.no_grad()");
  }

  /// The axes that the graph implies, and in place of them those that patterns give.
  void set_axes() {
    give_axes(model_);
    for (StateTensor& weight : model_.weights)
      for (const auto& [pattern, axes] : module_.axes) {
        if (!matches_name(pattern, weight.name)) continue;
        if (!axes.empty() && std::ssize(axes) != weight.type.shape.rank())
          refuse("a weight gets axes of another number than it has dimensions",
                 "'" + pattern + "' gives '" + weight.name + "' " + std::to_string(axes.size()),
                 std::to_string(weight.type.shape.rank()));
        weight.axes = axes;
        break;
      }
  }
  TracedModule module_;
  std::vector<std::string> step_outputs_;
  std::string where_;
  const TracedProgram* evaluation_ = nullptr;
  model::Model model_{};
  int64_t micro_batch_ = 0;
  std::string loss_{};
  std::map<std::string, const ModuleTensor*> tensors_{}, first_of_{};  ///< first of each storage
  std::set<std::string> parameters_{}, mutated_{}, inline_{};
  std::map<std::string, int64_t> sizes_{};  ///< elements of parameters
  std::vector<StateTensor> state_order_{};
  std::map<std::string, BufferFold, std::less<>> folds_{};
  ModuleParts parts_{};
};

}  // namespace

void throw_refusals(const std::string& name, const std::vector<Refusal>& refusals, const std::string& kind) {
  constexpr size_t kMostLines = 3;
  struct Group {
    const Refusal* first;
    size_t count = 0;
    std::vector<std::string> places{};
  };
  std::vector<Group> groups;
  for (const Refusal& refusal : refusals) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.first->op == refusal.op && each.first->why == refusal.why;
    });
    if (group == groups.end()) group = groups.insert(group, {&refusal});
    ++group->count;
    const bool known = std::find(group->places.begin(), group->places.end(), refusal.place) != group->places.end();
    if (!refusal.place.empty() && !known) group->places.push_back(refusal.place);
  }
  const std::string& remedy = groups.front().first->remedy;
  const bool one_remedy =
      std::all_of(groups.begin(), groups.end(), [&](const Group& group) { return group.first->remedy == remedy; });
  std::string found;
  for (const Group& group : groups) {
    std::string places;
    for (size_t i = 0; i < std::min(group.places.size(), kMostLines); ++i)
      places += (places.empty() ? "" : ", ") + group.places[i];
    if (group.places.size() > kMostLines) places += ", ...";
    found += "\n  " + group.first->op + " (" + std::to_string(group.count) + "x" +
             (places.empty() ? "" : "; " + places) + "): " + group.first->why;
    if (!one_remedy && !group.first->remedy.empty()) found += ". " + group.first->remedy;
  }
  throw UnsupportedOp({.what = "the " + kind + " uses what is not supported",
                       .where = kind + " '" + name + "'",
                       .found = found,
                       .remedy = one_remedy ? remedy : ""});
}

TensorData ModuleTensor::values() const {
  if (!fill) return data;
  HostTensor read(later);
  fill(0, {reinterpret_cast<float*>(read.data.data()), static_cast<size_t>(read.elements())});
  return TensorData(std::move(read));
}

ImportedModel import_module(TracedModule module) { return ModuleImport(std::move(module)).run(); }

ImportedModel import_module(TracedModule module, std::vector<std::string> step_outputs) {
  return ModuleImport(std::move(module), std::move(step_outputs)).run();
}

}  // namespace ramet::front

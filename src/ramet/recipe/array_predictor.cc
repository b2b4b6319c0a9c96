#include "ramet/recipe/array_predictor.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/devices.h"
#include "ramet/model/array_file.h"
#include "ramet/model/hugging_face.h"
#include "ramet/program/compile.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/initialize.h"
#include "ramet/train/inputs.h"
#include "ramet/train/step.h"

namespace ramet::recipe {
namespace {

const char* const kProgram = "predict";

/// The graph that answers: the evaluation, or a program on request.
const Graph& graph_of(const Model& model, const std::string& program) {
  std::string known = "evaluate";
  for (const NamedGraph& each : model.programs) {
    if (each.when.kind != When::Kind::kRequest) continue;
    if (each.name == program) return each.graph;
    known += ", " + each.name;
  }
  if (program == "evaluate") return model.evaluate;
  throw Error({.what = "the model has no program on request of this name",
               .where = "--program",
               .found = "'" + program + "'",
               .expected = known});
}

/// The part of a graph that can be computed from `given` data inputs. `left_out`: results that cannot; `missing`: the
/// inputs that they need.
Graph computable_part(const Graph& graph, const std::set<std::string>& given, std::vector<std::string>& left_out,
                      std::set<std::string>& missing) {
  std::vector<bool> lacks(graph.values().size(), false), needed(graph.values().size(), false);
  for (const GraphInput& input : graph.inputs()) {
    const std::string& name = graph.value(input.value).name;
    if (input.role != InputRole::kData || given.count(name)) continue;
    lacks[static_cast<size_t>(input.value)] = true;
    missing.insert(name);
  }
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (lacks[static_cast<size_t>(input)])
        for (const ValueId output : node.outputs) lacks[static_cast<size_t>(output)] = true;
  for (const GraphOutput& output : graph.outputs()) {
    if (lacks[static_cast<size_t>(output.value)])
      left_out.push_back(output.name);
    else
      needed[static_cast<size_t>(output.value)] = true;
  }
  const auto is_needed = [&](const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId output) { return needed[static_cast<size_t>(output)]; });
  };
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node)
    if (is_needed(*node))
      for (const ValueId input : node->inputs) needed[static_cast<size_t>(input)] = true;
  Graph part(kProgram);
  GraphCopier copier(graph, part);
  for (const GraphInput& input : graph.inputs())
    if (needed[static_cast<size_t>(input.value)]) copier.copy_input(input);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    if (is_needed(graph.node(id))) copier.copy_node(id);
  for (const GraphOutput& output : graph.outputs())
    if (!lacks[static_cast<size_t>(output.value)]) part.add_output(output.name, copier[output.value], output.role);
  return part;
}

/// The training step with nothing left but one program, so that states are held and computed with as in training.
StepGraph only_program(const Model& model, const TrainOptions& options, Graph graph) {
  Model alone = model;
  alone.programs = {{kProgram, std::move(graph), When::on_request()}};
  StepGraph step = make_training_step(alone, options);
  StepGraph rest;
  rest.axes = step.axes;
  std::erase_if(step.programs, [](const StepProgram& program) { return program.name != kProgram; });
  rest.programs = std::move(step.programs);
  std::set<std::string> used;
  const Graph& kept = rest.programs.at(0).graph;
  for (const GraphInput& input : kept.inputs())
    if (input.role == InputRole::kState) used.insert(kept.value(input.value).name);
  for (const GraphOutput& output : kept.outputs())
    if (output.role == OutputRole::kState) used.insert(output.name);
  for (StateTensor& state : step.states)
    if (used.count(state.name)) rest.states.push_back(std::move(state));
  return rest;
}

bool is_among(const std::vector<StateTensor>& states, const std::string& name) {
  return std::any_of(states.begin(), states.end(), [&](const StateTensor& state) { return state.name == name; });
}

}  // namespace

ArrayPredictor::ArrayPredictor(const Recipe& complete, const std::string& program, std::vector<ArrayColumn> arrays,
                               const std::string& source, int threads)
    : recipe_(complete), model_(build_model(complete)), batch_(complete.train.micro_batch) {
  std::set<std::string> given, missing;
  for (const ArrayColumn& column : arrays) given.insert(column.name);
  Graph graph = computable_part(graph_of(model_, program), given, left_out_, missing);
  if (graph.outputs().empty()) {
    std::string found, expected;
    for (const std::string& name : given) found += (found.empty() ? "" : ", ") + name;
    for (const std::string& name : missing) expected += (expected.empty() ? "" : ", ") + name;
    throw Error({.what = "every result of '" + program + "' needs an input that the arrays lack",
                 .where = source,
                 .found = found,
                 .expected = expected});
  }
  std::vector<InputSpec> inputs;
  for (const GraphInput& input : graph.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = graph.value(input.value);
    const auto declared = std::find_if(model_.inputs.begin(), model_.inputs.end(),
                                       [&](const InputSpec& spec) { return spec.name == value.name; });
    inputs.push_back(declared != model_.inputs.end() ? *declared : InputSpec{.name = value.name, .type = value.type});
  }
  ArrayOptions options{.shuffle = false};
  std::erase_if(arrays, [&](const ArrayColumn& column) {
    return std::none_of(inputs.begin(), inputs.end(),
                        [&](const InputSpec& input) { return input.name == column.name; });
  });
  options.types = types_of(arrays, inputs);
  source_ = make_array_source(std::move(arrays), options);
  samples_ = source_->epoch_samples(0);
  check_signature(inputs, source_->signature(batch_), source);
  source_ = model::check_inputs(source_, inputs, batch_);
  step_ = only_program(model_, recipe_.train, std::move(graph));
  CompileOptions compiling;
  compiling.threads = threads > 0 ? threads : available_processors();
  engine_ = std::make_unique<Engine>(compile(step_, find_device().backend(), compiling), find_device().backend());
}

ArrayPredictor::~ArrayPredictor() = default;

void ArrayPredictor::put_weight(const StateTensor& weight, std::span<const float> values) {
  if (!is_among(step_.states, weight.name)) return;
  const HeldForm form = held_form(recipe_.train);
  const HeldBytes held = hold(values, form);
  engine_->write_state(weight.name, {form.dtype, weight.type.shape}, held.weight.data());
  if (form.split && is_among(step_.states, low_half_of(weight.name)))
    engine_->write_state(low_half_of(weight.name), {DType::kU16, weight.type.shape}, held.low.data());
}

/// The states of these kinds begin as the model says.
void ArrayPredictor::begin_states(const std::vector<StateKind>& kinds) {
  ThreadTeam team(1);
  for (const StateTensor& state : step_.states) {
    if (std::find(kinds.begin(), kinds.end(), state.kind) == kinds.end()) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
    initialize_as_held(state, static_cast<uint64_t>(recipe_.train.seed), bytes, team);
    engine_->write_state(state.name, state.type, bytes.data());
  }
}

void ArrayPredictor::load(const Checkpoint& checkpoint) {
  std::vector<StateTensor> weights, others;
  for (const StateTensor& weight : model_.weights)
    if (is_among(step_.states, weight.name)) weights.push_back(weight);
  for (const StateTensor& state : step_.states)
    if (state.kind != StateKind::kWeight && !state.low_half) others.push_back(state);
  const auto floats = [](std::span<const std::byte> bytes) {
    return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  checkpoint.load(
      weights, [&](const StateTensor& weight, std::span<const std::byte> bytes) { put_weight(weight, floats(bytes)); });
  checkpoint.load(others, [&](const StateTensor& state, std::span<const std::byte> bytes) {
    engine_->write_state(state.name, state.type, bytes.data());
  });
  begin_states({StateKind::kKept});
  engine_->run_derive();
}

void ArrayPredictor::begin(const std::string& weights) {
  ThreadTeam team(1);
  const auto draw = [&](const StateTensor& weight) {
    std::vector<float> values(static_cast<size_t>(weight.type.elements()));
    initialize_state(weight, static_cast<uint64_t>(recipe_.train.seed), std::as_writable_bytes(std::span(values)),
                     team);
    put_weight(weight, values);
  };
  for (const StateTensor& weight : model_.weights) draw(weight);
  if (!weights.empty())
    import_weights(weights, model_.weights, [&](const std::string& name, std::span<const std::byte> bytes) {
      for (const StateTensor& weight : model_.weights)
        if (weight.name == name)
          put_weight(weight, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
    });
  begin_states({StateKind::kPattern, StateKind::kDeferred, StateKind::kChained, StateKind::kKept});
  engine_->run_derive();
}

std::vector<NamedTensor> ArrayPredictor::predict(const std::function<void(int64_t done, int64_t total)>& progress) {
  const int64_t batches = (samples_ + batch_ - 1) / batch_, whole = samples_ / batch_;
  const Signature signature = source_->signature(batch_);
  const BatchMemory memory(signature);
  const Feed feed = [&](int64_t, int64_t micro, FeedSink& sink) {
    source_->fill(micro * batch_, batch_, {memory.tensors()});
    for (size_t i = 0; i < signature.size(); ++i)
      if (sink.takes(signature[i].first)) sink.set(signature[i].first, signature[i].second, memory.tensors()[i]);
  };
  std::vector<NamedTensor> results;
  const auto take = [&](int64_t micro, const Binding& result, const std::byte* data) {
    auto found = std::find_if(results.begin(), results.end(),
                              [&](const NamedTensor& tensor) { return tensor.name == result.name; });
    const bool by_row = result.type.shape.rank() > 0 && result.type.shape[0] == batch_;
    if (found == results.end()) {
      std::vector<int64_t> dims = result.type.shape.dims();
      if (by_row)
        dims[0] = samples_;
      else
        dims.insert(dims.begin(), whole);
      results.push_back({result.name, {result.type.dtype, Shape(std::move(dims))}, {}});
      results.back().bytes.resize(static_cast<size_t>(results.back().type.bytes()));
      found = results.end() - 1;
    }
    // The last micro-batch is filled up with samples from the beginning, which nobody asked for.
    const auto bytes = static_cast<size_t>(result.type.bytes()), begin = static_cast<size_t>(micro) * bytes;
    if (begin < found->bytes.size())
      std::memcpy(found->bytes.data() + begin, data, std::min(bytes, found->bytes.size() - begin));
    if (progress) progress(std::min(samples_, (micro + 1) * batch_), samples_);
  };
  engine_->run(kProgram, batches, feed, {}, take);
  return results;
}

}  // namespace ramet::recipe

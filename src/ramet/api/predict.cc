#include "ramet/api/engine.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/model/hugging_face.h"
#include "ramet/program/compile.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/facts.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/lower_states.h"
#include "ramet/transform/precision.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::v0 {
namespace {

const model::NamedGraph& outputs_of(const Model& model) {
  const model::NamedGraph* program = model.contents().find_request(api::kPredict);
  if (!program)
    throw Error({.what = "a model without outputs",
                 .where = "model '" + model.name() + "'",
                 .remedy = "Declare what it predicts with ModelBuilder::output"});
  return *program;
}

/// A step that holds nothing but the program of the outputs and the states that it reads.
transform::StepGraph prediction_step(const model::Model& model, const ir::Graph& outputs,
                                     const train::TrainOptions& options) {
  transform::StepGraph step;
  step.axes = model.axes;
  step.lanes = options.lanes;
  for (const auto* list : {&model.weights, &model.states})
    for (const auto& state : *list)
      if (outputs.find_input(state.name) != ir::kNoValue) step.states.push_back(state);
  ir::Graph graph =
      transform::set_chunks(transform::lower_precision(outputs, transform::precision_from_name(options.precision)),
                            options.chunks, model.weights);
  graph.set_name(api::kPredict);
  step.programs.push_back({api::kPredict, std::move(graph), transform::When::on_request()});
  return transform::lower_states(std::move(step));
}

}  // namespace

struct Predictor::State {
  Model model;
  std::vector<transform::StateTensor> states;
  std::unique_ptr<runtime::Cluster> cluster;

  State(const Model& the_model, const std::string& weights, const PredictOptions& asked) : model(the_model) {
    const model::Model& engine = model.contents().engine;
    const TrainOptions wanted{.precision = asked.precision, .chunks = asked.chunks};
    train::TrainOptions options = api::engine_options(wanted, model.contents());
    layout::Layout layout = layout::parse_layout(asked.layout, "PredictOptions::layout");
    options.accumulation = options.lanes = layout.r;  // no sums over micro-batches: replicas take what they get
    std::vector<std::string> remarks;
    layout = train::fitted_layout(std::move(layout), engine, options, "PredictOptions::layout", remarks);
    transform::StepGraph step = prediction_step(engine, outputs_of(model).graph, options);
    states = step.states;
    const train::Where where = api::engine_where(asked.threads, asked.device_memory, "");
    const auto& backend = kernel::find_device("").backend();
    const auto compiling = train::compile_options(options, layout, where, layout.devices());
    std::vector<program::Executable> stages;
    if (layout.is_single())
      stages.push_back(program::compile(std::move(step), backend, compiling));
    else
      stages = program::compile(std::move(step), layout, backend, compiling);
    runtime::ClusterOptions how;
    how.streaming = layout.streaming;
    cluster = std::make_unique<runtime::Cluster>(std::move(stages), backend, how);
    load(weights);
  }

  void load(const std::string& from) {
    const auto write = [&](const transform::StateTensor& state, std::span<const std::byte> bytes) {
      cluster->write_state(state, 0, bytes);
    };
    std::error_code ignored;
    if (std::filesystem::is_directory(from, ignored) && !weights::has_weights(from)) {
      const auto inside = train::list_checkpoints(from);
      train::Checkpoint(inside.empty() ? std::filesystem::path(from) : inside.back()).load(states, write);
    } else {
      for (const auto& state : states)
        if (state.kind != transform::StateKind::kWeight && state.kind != transform::StateKind::kConstant)
          throw Error({.what = "a file of weights does not have the model's other states",
                       .where = from,
                       .found = "'" + state.name + "'",
                       .remedy = "Give a checkpoint"});
      model::import_weights(from, model.contents().engine.weights,
                            [&](const std::string& name, std::span<const std::byte> bytes) {
                              for (const auto& state : states)
                                if (state.name == name) write(state, bytes);
                            });
    }
    cluster->run_derive();
  }
};

Predictor::Predictor(const Model& model, const std::string& weights, const PredictOptions& options)
    : state_(std::make_unique<State>(model, weights, options)) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Arrays Predictor::predict(const NamedViews& samples) {
  return api::run_request(*state_->cluster, state_->model.contents().engine, api::kPredict,
                          outputs_of(state_->model).graph, state_->model.micro_batch(), samples, true);
}

int64_t Predictor::bytes() const { return state_->cluster->local_planned_bytes(); }

}  // namespace ramet::v0

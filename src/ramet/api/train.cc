#include "ramet/api/engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ramet/api/log.h"
#include "ramet/base/error_types.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/model/step_outputs.h"
#include "ramet/report/devices.h"
#include "ramet/report/memory.h"
#include "ramet/train/facts.h"
#include "ramet/train/run_recorder.h"
#include "ramet/train/training.h"
#include "ramet/train/training_loop.h"
#include "ramet/weights/safetensors.h"

namespace ramet::v0 {

double Metrics::operator[](std::string_view name) const {
  std::string known;
  for (const auto& [each, value] : all_) {
    if (each == name) return value;
    known += (known.empty() ? "" : ", ") + each;
  }
  throw Error({.what = "no metric of this name", .found = "'" + std::string(name) + "'", .expected = known});
}

bool Metrics::has(std::string_view name) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& each) { return each.first == name; });
}

namespace {

const char* const kEvaluate = "evaluate";

/// Throws Error where patterns of sparse weights were to change over another number of steps than the training has.
void check_evolve_steps(const Model::Contents& contents, int64_t steps) {
  if (contents.evolve_steps == 0 || contents.evolve_steps == steps) return;
  throw Error({.what = "patterns of sparse weights change over another number of steps than the training has",
               .where = "model '" + contents.engine.name + "'",
               .found = std::to_string(contents.evolve_steps) + " steps of sparsify, " + std::to_string(steps) +
                        " of the training",
               .expected = "one number of steps",
               .remedy = "Give both the same steps; `until` and `ramp_until` end changes before the training ends"});
}

}  // namespace

struct Training::State {
  Model model;
  TrainOptions options;
  std::shared_ptr<api::StepSource> caller;  ///< null where the training has data of its own
  std::unique_ptr<train::Training> engine;
  std::map<std::string, train::SampleProgram> programs;  ///< that were asked for
  std::optional<train::SampleProgram> step_outputs;      ///< of a model with outputs of steps
  std::optional<track::RunOrigin> origin;                ///< the run that it goes on from, or whose weights it has

  State(const Model& the_model, const TrainOptions& the_options, const Data& train, const Data& held_out)
      : model(the_model), options(the_options) {
    const Model::Contents& contents = model.contents();
    train::Workload workload;
    workload.model = model::with_seed(contents.engine, static_cast<int64_t>(options.seed));
    workload.train = Data::Contents::source_of(train, contents);
    workload.held_out = Data::Contents::source_of(held_out, contents);
    if (workload.train) workload.data_identity = workload.train->identity().hex();
    if (!workload.train) workload.train = caller = std::make_shared<api::StepSource>(api::inputs_of(contents.engine));
    const train::TrainOptions engine_options = api::engine_options(options, contents);
    check_evolve_steps(contents, engine_options.steps);
    train::Where where = api::engine_where(options.threads, options.device_memory, options.device);
    where.layout_source = "TrainOptions::layout";
    where.device_memory_share = options.device_memory_share;
    engine = std::make_unique<train::Training>(std::move(workload), engine_options,
                                               layout::parse_layout(options.layout, where.layout_source), where);
    engine->initialize();
    const model::Model& built = engine->model();
    if (!model::step_outputs(built.forward).empty()) step_outputs.emplace(built.forward, "train", built.inputs);
  }

  /// A program on request, as a function of samples.
  const train::SampleProgram& program(const std::string& name) {
    const auto known = programs.find(name);
    if (known != programs.end()) return known->second;
    const model::Model& built = engine->model();
    const ir::Graph& graph = name == kEvaluate ? built.evaluate : model.contents().request(name).graph;
    return programs.emplace(name, train::SampleProgram(graph, name, built.inputs)).first->second;
  }
  Arrays run(const std::string& name, const NamedViews& samples, bool pads) {
    return api::run_request(
        program(name), engine->model(), samples, pads,
        [&](int64_t batches, int64_t, const runtime::ClusterFeed& feed, const runtime::Wanted& wanted) {
          return engine->cluster().run(name, batches, feed, {}, wanted);
        });
  }

  StepResult result_of(const train::Numbers& numbers) const {
    StepResult result;
    result.step = engine->steps_done();
    result.loss = train::number_of(numbers, "loss");
    result.gradient_norm = train::number_of(numbers, "grad_norm");
    result.learning_rate = train::number_of(numbers, "learning_rate");
    result.seconds = train::number_of(numbers, "step_seconds");
    result.skipped = options.loss_scale == 0 && std::isnan(result.gradient_norm);
    std::vector<std::pair<std::string, double>> own;
    for (const std::string& name : model.metrics()) own.emplace_back(name, train::number_of(numbers, name));
    result.metrics = Metrics(std::move(own));
    if (step_outputs) result.outputs = outputs_of_step();
    return result;
  }

  Arrays outputs_of_step() const {
    std::vector<Array> arrays;
    if (const runtime::ClusterResults& results = *engine->results(); results.not_finite.empty())
      for (data::NamedTensor& each : step_outputs->join(results.micro_tensors, engine->samples_per_step())) {
        const std::vector<int64_t>& dims = each.type.shape.dims();
        if (options.micro_batches == 1 && !step_outputs->is_by_sample(each.name))
          each.type.shape = Shape(std::vector<int64_t>(dims.begin() + 1, dims.end()));
        arrays.emplace_back(each.name.substr(model::kStepOutput.size()), std::move(each.type), std::move(each.bytes));
      }
    return Arrays(std::move(arrays));
  }
};

Training::Training(const Model& model, const TrainOptions& options, const Data& train, const Data& held_out)
    : state_(std::make_unique<State>(model, options, train, held_out)) {}
Training::~Training() = default;
Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;

int64_t Training::samples_per_step() const { return state_->engine->samples_per_step(); }
int64_t Training::steps_done() const { return state_->engine->steps_done(); }
const Model& Training::model() const { return state_->model; }
const TrainOptions& Training::options() const { return state_->options; }

namespace {

train::StepScalars scalars_of(const StepOptions& options) {
  train::StepScalars scalars;
  if (options.rate) scalars["learning_rate"] = *options.rate;
  for (const auto& [group, rate] : options.group_rates) scalars["learning_rate." + group] = rate;
  return scalars;
}

}  // namespace

StepResult Training::step(const NamedViews& samples, const StepOptions& options) {
  train::Training& engine = *state_->engine;
  const std::string where = "step " + std::to_string(engine.steps_done() + 1);
  if (!state_->caller)
    throw Error({.what = "samples for a training that has data of its own",
                 .where = where,
                 .remedy = "Call step() without samples"});
  const int64_t count = api::check_views(api::inputs_of(state_->model.contents().engine), samples, where);
  if (count != samples_per_step())
    throw ShapeError({.what = "samples that are not those of one step",
                      .where = where,
                      .found = std::to_string(count) + " samples",
                      .expected = std::to_string(samples_per_step()) + ": " +
                                  std::to_string(state_->model.micro_batch()) + " of a micro-batch x " +
                                  std::to_string(state_->options.micro_batches) + " micro-batches"});
  const api::StepSource::Guard guard(*state_->caller, samples, engine.steps_done() * count, count);
  return state_->result_of(engine.step(scalars_of(options)));
}

namespace {

void check_has_data(bool has, const char* what) {
  if (!has)
    throw Error({.what = "a training without data of its own",
                 .where = what,
                 .remedy = "Give Data to the training, or samples to step()"});
}

}  // namespace

StepResult Training::step(const StepOptions& options) {
  check_has_data(!state_->caller, "step()");
  return state_->result_of(state_->engine->step(scalars_of(options)));
}

FitResult Training::fit(const FitOptions& options) {
  check_has_data(!state_->caller, "fit()");
  train::Training& engine = *state_->engine;

  train::StopRequest stop;
  /// Passes on what the loop tells. What a callback throws ends the loop and is thrown to the caller.
  struct Listener final : train::TrainingObserver {
    const FitOptions& options;
    const State& state;
    train::StopRequest& stop;
    std::exception_ptr thrown;
    Listener(const FitOptions& the_options, const State& the_state, train::StopRequest& the_stop)
        : options(the_options), state(the_state), stop(the_stop) {}
    void tell(const std::function<void()>& call) {
      if (thrown) return;
      try {
        call();
      } catch (...) {
        thrown = std::current_exception();
        stop.ask();
      }
    }
    void on_step(int64_t, const train::Numbers& numbers) override {
      if (options.on_step) tell([&] { options.on_step(state.result_of(numbers)); });
    }
    void on_evaluation(int64_t step, const train::Numbers& numbers) override {
      if (options.on_evaluation) tell([&] { options.on_evaluation(step, Metrics(numbers)); });
    }
  } listener(options, *state_, stop);
  const std::stop_callback asked(options.stop, [&] { stop.ask(); });
  train::LoopOptions plan;
  plan.stop_at = options.until_step;
  plan.checkpoints = options.checkpoints;
  plan.stop = &stop;
  std::vector<train::TrainingObserver*> observers = {&listener};
  std::optional<train::RunRecorder> recorder;
  if (options.run) {
    Run::State& run = *options.run->state_;
    if (run.over || !run.directory)
      throw Error({.what = "a run that is over, or another's", .where = "FitOptions::run", .found = run.path});
    recorder.emplace(*run.directory, run.log);
    if (state_->origin && state_->origin->run != options.run->id()) recorder->began_with(*state_->origin);
    observers.push_back(&*recorder);
  }
  const train::TrainingResult result = train::train(engine, plan, observers);
  if (recorder) state_->origin.reset();
  if (listener.thrown) std::rethrow_exception(listener.thrown);
  return {.steps = result.steps,
          .stopped = result.interrupted,
          .last_evaluation = Metrics(result.last_evaluation),
          .checkpoint = result.checkpoint.string()};
}

Metrics Training::evaluate() {
  if (!state_->engine->workload().held_out)
    throw Error({.what = "a training without held-out data",
                 .where = "evaluate()",
                 .remedy = "Give it to the training, or samples to evaluate()"});
  return Metrics(state_->engine->evaluate());
}

Metrics Training::evaluate(const NamedViews& samples) {
  const train::SampleProgram& program = state_->program(kEvaluate);
  const api::SampleViews views(program, state_->engine->model(), samples, "evaluate()");
  views.check_whole(program, "evaluate()");
  program.samples_of(views.views());
  train::MetricSums sums(state_->engine->model().metrics, true, true);
  for (const runtime::ResultTensors& results :
       state_->engine->cluster().run(kEvaluate, program.batches_of(views.count()),
                                     program.feed_of(views.views(), views.count()), {}, {.everywhere = true}))
    sums.add(runtime::numbers_of(results));
  return Metrics(sums.numbers());
}

Arrays Training::predict(const NamedViews& samples) { return state_->run(api::kPredict, samples, true); }

Arrays Training::run(const std::string& program, const NamedViews& samples) {
  return state_->run(program, samples, false);
}

Metrics Training::results(const std::string& program) const {
  const runtime::ClusterResults* results = state_->engine->results();
  const runtime::ResultTensors* found = results ? results->program(program) : nullptr;
  return found ? Metrics(runtime::numbers_of(*found)) : Metrics();
}

std::string Training::save(const std::string& folder) { return state_->engine->save(folder).string(); }

std::string Training::restore(const std::string& checkpoint) {
  const auto inside = train::list_checkpoints(checkpoint);
  const std::filesystem::path found = inside.empty() ? std::filesystem::path(checkpoint) : inside.back();
  std::string warnings = state_->engine->restore(train::Checkpoint(found));
  state_->origin = track::origin_of(found, "forked");
  return warnings;
}

std::vector<float> Training::weight(const std::string& name) const {
  for (const auto& weight : state_->engine->model().weights) {
    if (weight.name != name) continue;
    std::vector<float> numbers(static_cast<size_t>(weight.type.elements()));
    state_->engine->read_weight(name, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }
  throw Error({.what = "the model has no weight of this name", .found = "'" + name + "'"});
}

void Training::set_weight(const std::string& name, std::span<const float> numbers) {
  state_->engine->set_weights([&](const auto& set) { set(name, numbers); });
}

std::vector<std::string> Training::states() const {
  std::vector<std::string> names;
  for (const transform::StateTensor* state : state_->engine->saved_states()) names.push_back(state->name);
  return names;
}

namespace {

const transform::StateTensor& find_state(const train::Training& engine, const std::string& name) {
  for (const transform::StateTensor* state : engine.saved_states())
    if (state->name == name) return *state;
  throw Error({.what = "the model has no state of this name", .found = "'" + name + "'"});
}

/// The type that the caller sees: weights are f32.
TensorType seen_type(const transform::StateTensor& state) {
  TensorType type = state.unpadded();
  if (state.kind == transform::StateKind::kWeight) type.dtype = DType::kF32;
  return type;
}

/// Bytes of the whole state, with its padding.
std::vector<std::byte> whole_bytes(const transform::StateTensor& state) {
  const size_t element = state.kind == transform::StateKind::kWeight ? sizeof(float) : size_of(state.type.dtype);
  return std::vector<std::byte>(static_cast<size_t>(state.type.elements()) * element);
}

}  // namespace

Array Training::state(const std::string& name) const {
  const transform::StateTensor& found = find_state(*state_->engine, name);
  std::vector<std::byte> bytes = whole_bytes(found);
  if (found.kind == transform::StateKind::kWeight)
    state_->engine->read_weight(name, bytes);
  else
    state_->engine->read_state(name, bytes);
  bytes.resize(static_cast<size_t>(seen_type(found).bytes()));
  return Array(name, seen_type(found), std::move(bytes));
}

void Training::set_states(const NamedViews& states) {
  for (const auto& [name, numbers] : states) {
    const TensorType type = seen_type(find_state(*state_->engine, name));
    if (numbers.dtype() != type.dtype || numbers.elements() != type.elements())
      throw Error({.what = "numbers that are not those of the state",
                   .where = "'" + name + "'",
                   .found = std::to_string(numbers.elements()) + " of " + std::string(name_of(numbers.dtype())),
                   .expected = type.text()});
  }
  for (const auto& [name, numbers] : states) {
    const transform::StateTensor& state = find_state(*state_->engine, name);
    std::vector<std::byte> bytes = whole_bytes(state);
    std::copy_n(numbers.data(), numbers.bytes(), bytes.begin());
    state_->engine->write_state(state, bytes);
  }
  state_->engine->states_written();
}

void Training::set_steps_done(int64_t steps) { state_->engine->set_steps_done(steps); }

void Training::save_weights(const std::string& path) const { state_->engine->export_weights(path); }

void Training::load_weights(const std::string& path) {
  state_->engine->set_weights([&](const auto& set) {
    model::import_weights(path, model::dense_published(state_->engine->model()),
                          [&](const std::string& name, std::span<const std::byte> bytes) {
                            set(name, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
                          });
  });
  state_->origin = track::origin_of(path, "fine_tuned");
}

std::string Training::weights_hash() const { return state_->engine->weights_hash(); }

MemoryPlan Training::memory() const {
  MemoryPlan memory = api::memory_of(state_->engine->cluster().stages(), state_->engine->layout());
  memory.text = plan();
  return memory;
}

std::string Training::plan() const {
  const train::Training& engine = *state_->engine;
  const auto& stages = engine.cluster().stages();
  std::vector<int> devices(static_cast<size_t>(engine.layout().devices()));
  std::iota(devices.begin(), devices.end(), 0);
  const std::string host = report::text_of(engine.host_memory(), engine.layout().devices());
  if (engine.layout().is_single()) return report::text_of(report::memory_report(stages[0])) + host;
  return report::text_of(report::devices_report(stages, layout::print_layout(engine.layout()), 0)) + host;
}

}  // namespace ramet::v0

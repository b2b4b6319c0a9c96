#include "ramet/train/predictor.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/train/facts.h"
#include "ramet/train/model_passes.h"
#include "ramet/train/open_cluster.h"
#include "ramet/train/row_window.h"
#include "ramet/train/step.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::train {
namespace {

/// Options of a step whose micro-batches replicas share.
TrainOptions prediction_options(TrainOptions options, const Layout& layout) {
  options.lanes = options.accumulation = layout.r;
  return with_order_of_sums(std::move(options), layout);
}

}  // namespace

void PredictionTimes::add(int64_t call_samples, double call_seconds) {
  if (latencies.size() < kLatencies)
    latencies.push_back(call_seconds);
  else
    latencies[static_cast<size_t>(calls) % kLatencies] = call_seconds;
  ++calls;
  samples += call_samples;
  seconds += call_seconds;
}

double PredictionTimes::latency(double share) const {
  if (latencies.empty()) return 0;
  std::vector<double> sorted = latencies;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const auto rank = static_cast<size_t>(std::max(0.0, std::ceil(share * count) - 1));
  return sorted[std::min(rank, sorted.size() - 1)];
}

Predictor::Predictor(Model model, const TrainOptions& options, const Layout& layout, const Where& where,
                     std::vector<std::string> programs)
    : model_(apply_model_passes(std::move(model), options)),
      options_(prediction_options(options, layout)),
      programs_(programs.empty() ? program_names(model_) : std::move(programs)) {
  refuse_rows(layout, where.layout_source, "a prediction");
  const auto start = Clock::now();
  std::vector<std::string> remarks;
  const Layout fitted = fitted_layout(layout, model_, options_, where.layout_source, remarks);
  StepGraph step = make_prediction_step(model_, options_, programs_);
  for (const StepProgram& program : step.programs) calls_.emplace_back(program.graph, program.name, model_.inputs);
  states_ = step.states;
  std::vector<Executable> stages = compile_step(std::move(step), options_, fitted, where);
  compile_seconds_ = seconds_since(start);
  const auto limit = waiting_limit(stages);
  cluster_ = open_cluster(std::move(stages), options_, fitted, where, limit);
  threads_ = local_threads(*cluster_);
  loader_.emplace(*cluster_, options_, threads_, where.progress);
  // Caches and the like begin as they say; what a checkpoint holds comes with it.
  for (const StateTensor& state : states_)
    if (state.kind == StateKind::kKept && cluster_->holds(state)) loader_->write_first(state);
}

Predictor::~Predictor() = default;

void Predictor::initialize(const std::string& file) {
  for (const StateTensor& state : states_)
    if (state.kind != StateKind::kWeight && is_saved(state.kind) && cluster_->holds(state)) loader_->write_first(state);
  loader_->write_first_weights(model_, file);
  ready();
}

void Predictor::load(const Checkpoint& checkpoint) {
  // As they are held where the checkpoint holds them so, else by way of f32.
  std::vector<StateTensor> weights, others;
  for (const StateTensor& weight : model_.weights)
    if (cluster_->holds(weight)) weights.push_back(weight);
  for (const StateTensor& state : states_)
    if (state.kind != StateKind::kWeight && is_saved(state.kind)) others.push_back(state);
  loader_->load(checkpoint, weights, false);
  if (!others.empty()) loader_->load(checkpoint, others, true);
  ready();
}

void Predictor::import_weights(const std::filesystem::path& path) {
  const std::vector<StateTensor> published = model_.published();
  for (const std::string& name : loader_->import(path, published)) {
    const auto weight =
        std::find_if(published.begin(), published.end(), [&](const StateTensor& each) { return each.name == name; });
    if (cluster_->holds(*weight))
      throw Error({.what = "the file lacks weights that prediction needs",
                   .where = path.string(),
                   .found = "no '" + name + "'",
                   .remedy = "Name a file of the whole model, or train what is missing first"});
  }
  ready();
}

void Predictor::load(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) && !has_weights(path)) {
    const auto inside = list_checkpoints(path);
    return load(Checkpoint(inside.empty() ? path : inside.back()));
  }
  for (const StateTensor& state : states_)
    if (state.kind != StateKind::kWeight && state.kind != StateKind::kDeferred && is_saved(state.kind))
      throw Error({.what = "a file of weights does not have the model's other states",
                   .where = path.string(),
                   .found = "no '" + state.name + "'",
                   .remedy = "Give a checkpoint"});
  import_weights(path);
}

void Predictor::write_weight(const StateTensor& weight, std::span<const std::byte> bytes) {
  if (cluster_->holds(weight)) loader_->write_weight(weight, bytes);
}

void Predictor::ready() { cluster_->run_derive(); }

const SampleProgram& Predictor::program(const std::string& name) const {
  for (const SampleProgram& call : calls_)
    if (call.name() == name) return call;
  const std::string known = listed(programs_);
  throw Error({.what = "the predictor has no program of this name", .found = "'" + name + "'", .expected = known});
}

std::string Predictor::weights_hash() {
  std::vector<StateTensor> held;
  for (const StateTensor& state : states_)
    if (is_hashed(state.kind)) held.push_back(state);
  return train::weights_hash(held, [&](const StateTensor& state, uint64_t offset,
                                       std::span<std::byte> to) { cluster_->read_state(state, offset, to); })
      .hex();
}

std::vector<ResultTensors> Predictor::run(const std::string& program, int64_t batches, int64_t samples,
                                          const ClusterFeed& feed, const Wanted& wanted) {
  const auto start = Clock::now();
  std::vector<ResultTensors> results = cluster_->run(program, batches, feed, {}, wanted);
  times_.add(samples, seconds_since(start));
  return results;
}

std::vector<NamedTensor> Predictor::run(const std::string& program, std::span<const NamedTensor> inputs,
                                        std::vector<std::string> wanted) {
  return this->program(program).run(
      views_of(inputs), std::move(wanted),
      [&](int64_t batches, int64_t samples, const ClusterFeed& feed, const Wanted& results) {
        return run(program, batches, samples, feed, results);
      });
}

}  // namespace ramet::train

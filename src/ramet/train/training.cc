#include "ramet/train/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/base/version.h"
#include "ramet/kernel/devices.h"
#include "ramet/model/hugging_face.h"
#include "ramet/train/facts.h"
#include "ramet/train/groups.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/initialize.h"
#include "ramet/train/inputs.h"
#include "ramet/train/loss_parts.h"
#include "ramet/train/model_passes.h"
#include "ramet/train/scaling.h"
#include "ramet/model/array_file.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::train {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A checkpoint's folder: the one named, or the newest of the run that is named.
std::filesystem::path checkpoint_of(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder / "checkpoints")) return folder;
  const auto all = list_checkpoints(folder / "checkpoints");
  if (all.empty())
    throw Error({.what = "the run has no checkpoint to begin from",
                 .where = "model.init_from",
                 .found = folder.string(),
                 .remedy = "Let it take one step, or name another run or checkpoint"});
  return all.back();
}

}  // namespace

Training::Training(Workload workload, TrainOptions options, const Layout& layout, const Where& where)
    : workload_(std::move(workload)),
      options_(std::move(options)),
      asked_layout_(layout),
      progress_(where.progress),
      profiled_(where.profile) {
  check_inputs();
  workload_.model = apply_model_passes(std::move(workload_.model), options_);
  layout_ = fitted_layout(layout, workload_.model, options_, where.layout_source, workload_.remarks);
  identity_ = workload_.model.identity().hex();
  compiled_ = compile_workload(workload_.model, options_, layout_, where);
  ClusterOptions cluster;
  cluster.mpi = where.mpi;
  cluster.streaming = layout_.streaming;
  cluster.device = where.device;
  cluster.profile = where.profile;
  cluster.bits = options_.bits == "fast" ? ExactBits::kFast : ExactBits::kExact;
  cluster.time_limit = where.time_limit.count() > 0 ? where.time_limit : waiting_limit(compiled_);
  cluster_ = std::make_unique<Cluster>(std::move(compiled_.stages), find_device(where.device).backend(), cluster);
  compiled_.stages.clear();
  const Mesh& mesh = cluster_->mesh();
  for (int device = 0; device < mesh.devices(); ++device) {
    const Executable& exe = cluster_->stages()[static_cast<size_t>(mesh.position(device).stage)];
    planned_bytes_ += exe.planned_bytes() + (layout_.streams_to_files() ? 0 : exe.streaming_bytes);
  }
  for (const int device : cluster_->local_devices())
    threads_ += cluster_->stages()[static_cast<size_t>(mesh.position(device).stage)].threads;
  host_ = train::host_memory(workload_, options_, cluster_->stages(), cluster_->local_devices());
}

Training::~Training() = default;

/// All that is wrong with the data's tensors, before anything is compiled.
void Training::check_inputs() {
  inputs_ = checked_inputs(workload_.model);
  if (workload_.train)
    check_signature(inputs_, workload_.train->signature(options_.micro_batch), "the training data");
  if (workload_.held_out)
    check_signature(inputs_, workload_.held_out->signature(options_.micro_batch), "the held-out data");
  if (workload_.train) workload_.train = train::check_inputs(workload_.train, inputs_, options_.micro_batch);
  if (workload_.held_out) workload_.held_out = train::check_inputs(workload_.held_out, inputs_, options_.micro_batch);
}

void Training::write_state(const StateTensor& state, std::span<const std::byte> bytes) {
  cluster_->write_state(state, 0, bytes);
}

/// Elements [first, first + values) of a weight, as it is held.
void Training::write_weight(const StateTensor& weight, std::span<const float> values, int64_t first) {
  const HeldForm form = held_form(options_);
  const HeldBytes held = hold(values, form);
  StateTensor state = weight;
  state.type.dtype = form.dtype;
  cluster_->write_state(state, static_cast<uint64_t>(first) * size_of(form.dtype), held.weight);
  if (!form.split) return;
  state.name = low_half_of(weight.name);
  state.type.dtype = kU16;
  cluster_->write_state(state, static_cast<uint64_t>(first) * size_of(kU16), held.low);
}

/// What is neither weight nor moment starts in its own type.
void Training::write_first(const StateTensor& state, ThreadTeam& team) {
  std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
  initialize_as_held(state, static_cast<uint64_t>(options_.seed), bytes, team);
  cluster_->write_state(state, 0, bytes);
  add_progress(state.type.bytes());
}

/// Piece by piece, so that a weight of any size takes little memory beside its own.
void Training::write_initial(const StateTensor& state) {
  constexpr int64_t kPiece = 1 << 20;  // elements
  const bool weight = state.kind == StateKind::kWeight;
  if (state.low_half) return;  // written with its weight
  ThreadTeam team(threads_);
  if (!weight && state.kind != StateKind::kOptimizer) return write_first(state, team);
  std::vector<float> values;
  const int64_t elements = state.type.elements();
  for (int64_t first = 0; first < elements; first += kPiece) {
    values.resize(static_cast<size_t>(std::min(kPiece, elements - first)));
    initialize_state(state, static_cast<uint64_t>(options_.seed),
                     std::as_writable_bytes(std::span(values)), team, first);
    if (weight)
      write_weight(state, values, first);
    else
      cluster_->write_state(state, static_cast<uint64_t>(first) * size_of(state.type.dtype),
                            hold(values, {state.type.dtype, false}).weight);
    add_progress(static_cast<int64_t>(values.size() * size_of(state.type.dtype)));
  }
}

void Training::begin_progress(std::string what, const std::vector<StateTensor>& states) {
  doing_ = std::move(what);
  done_bytes_ = all_bytes_ = 0;
  for (const StateTensor& state : states)
    if (cluster_->holds(state)) all_bytes_ += state.type.bytes();
}

void Training::add_progress(int64_t bytes) {
  done_bytes_ += bytes;
  if (progress_) progress_(doing_, done_bytes_, all_bytes_);
}

/// All numbers of an f32 weight.
void Training::write_whole_weight(const StateTensor& weight, std::span<const std::byte> bytes) {
  write_weight(weight, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)}, 0);
}

void Training::load(const Checkpoint& checkpoint, const std::vector<StateTensor>& states, bool as_held) {
  begin_progress("reading the checkpoint", states);
  try {
    checkpoint.load(
        states,
        [&](const StateTensor& state, std::span<const std::byte> bytes) {
          if (as_held)
            write_state(state, bytes);
          else
            write_whole_weight(state, bytes);
          add_progress(state.type.bytes());
        },
        [&](const StateTensor& state) { return cluster_->holds(state); });
  } catch (const Error& error) {
    // What is damaged may be a tensor that the other ranks do not read.
    if (cluster_->ranks() > 1) cluster_->stop(error.what());
    throw;
  }
}

void Training::initialize() {
  const std::string& file = workload_.init_from;
  std::vector<StateTensor> drawn;
  for (const auto& state : compiled_.states)
    if ((state.kind != StateKind::kWeight || file.empty()) && state.kind != StateKind::kConstant &&
        cluster_->holds(state))
      drawn.push_back(state);
  begin_progress(file.empty() ? "drawing the first weights" : "setting the optimizer's states", drawn);
  for (const auto& state : drawn) write_initial(state);
  std::map<std::string, const StateTensor*> weights;
  for (const auto& weight : workload_.model.weights) weights[weight.name] = &weight;
  if (!file.empty() && std::filesystem::is_directory(file) && !has_weights(file)) {
    const Checkpoint checkpoint(checkpoint_of(file));
    std::vector<StateTensor> loaded;
    for (const auto& weight : workload_.model.weights)
      if (is_task_head(weight.name) && !checkpoint.has(weight.name))
        write_initial(weight);
      else
        loaded.push_back(weight);
    load(checkpoint, loaded, false);
  } else if (!file.empty()) {
    check_importable(options_, file, "init_from");
    begin_progress("importing the weights", workload_.model.weights);
    const WeightMatch match = import_weights(
        file, workload_.model.weights, [&](const std::string& name, std::span<const std::byte> bytes) {
          if (!cluster_->holds(*weights.at(name))) return;
          write_whole_weight(*weights.at(name), bytes);
          add_progress(static_cast<int64_t>(bytes.size()));
        });
    for (const std::string& name : match.drawn)
      if (cluster_->holds(*weights.at(name))) write_initial(*weights.at(name));
  }
  cluster_->run_derive();
  steps_done_ = 0;
  loss_scale_ = first_loss_scale(options_);
}

std::string Training::restore(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  const auto refuse = [&](const std::string& what, const std::string& found, const std::string& expected,
                          const std::string& remedy) {
    throw Error(
        {.what = what, .where = checkpoint.path().string(), .found = found, .expected = expected, .remedy = remedy});
  };
  const std::string& recipe = workload_.recipe_identity;
  if (!recipe.empty() && !info.recipe_hash.empty() && info.recipe_hash != recipe)
    refuse("the checkpoint was made with another recipe", "recipe " + info.recipe_hash, recipe,
           "To begin a new run from its weights, set model.init_from to it");
  // Checkpoints of before models had an identity do not say.
  if (!info.model_identity.empty() && info.model_identity != identity_)
    refuse("the checkpoint was made of another model", "model '" + info.model_name + "' " + info.model_identity,
           "model '" + workload_.model.name + "' " + identity_,
           "Go on with the model that the run began with; to begin a new run from its weights, set model.init_from to it");
  if (info.data_hash != workload_.data_identity)
    refuse("the checkpoint was made with other data", "corpus " + info.data_hash, workload_.data_identity,
           "Point data.corpus to the corpus of that run");
  if (info.samples != info.step * samples_per_step())
    refuse("the checkpoint's step and data position contradict each other",
           std::to_string(info.samples) + " samples at step " + std::to_string(info.step), "", "");
  const Source* const data = workload_.train.get();
  const bool stream = data && !data->repeatable();
  if (stream && data->first_sample() != info.samples)
    refuse("the stream of data does not begin where the checkpoint stands",
           "sample " + std::to_string(data->first_sample()), "sample " + std::to_string(info.samples),
           "Begin the stream at that sample, and say so when it is made");
  checkpoint.check_no_others(compiled_.states);
  load(checkpoint, compiled_.states, true);
  // What is not saved begins anew.
  for (const StateTensor& state : compiled_.states)
    if (state.kind == StateKind::kKept && cluster_->holds(state)) write_initial(state);
  cluster_->run_derive();
  steps_done_ = info.step;
  loss_scale_ = info.loss_scale.value_or(first_loss_scale(options_));
  whole_ = true;
  std::string warnings;
  if (stream)
    warnings += "the data is a stream, which was said to begin at sample " + std::to_string(info.samples) +
                ": whether these are the samples of an unbroken run nobody has checked\n";
  const std::string& kernels = kernel_class();
  if (info.kernel_class != kernels)
    warnings += "the checkpoint was made with kernels of class " + info.kernel_class + ", this is " + kernels +
                ": the run goes on, but its bits are not those of an unbroken run\n";
  if (info.version != version())
    warnings += "the checkpoint was made by Ramet " + info.version + ", this is " + version() + "\n";
  return warnings;
}

const ClusterFeed& Training::feed_of_step() {
  if (!feeder_)
    feeder_ = std::make_unique<Feeder>(workload_.train, *cluster_, training_feed(workload_, options_));
  feeder_->begin(steps_done_);
  return feeder_->feed();
}

std::vector<ScalarValue> Training::scalars_of(int64_t step, const StepScalars& given) const {
  const std::vector<ScalarValue> all = step_scalars(options_, step, loss_scale_, given);
  std::vector<ScalarValue> wanted;
  const auto is_read = [](const Executable& exe, const std::string& name) {
    for (int32_t program = 0; program < static_cast<int32_t>(exe.programs.size()); ++program)
      if (exe.runs_in_step(program) && exe.has_scalar(name, program)) return true;
    return false;
  };
  for (const auto& scalar : all)
    if (std::any_of(cluster_->stages().begin(), cluster_->stages().end(),
                    [&](const Executable& exe) { return is_read(exe, scalar.name); }))
      wanted.push_back(scalar);
  return wanted;
}

Numbers Training::step(const StepScalars& given) {
  const auto start = Clock::now();
  const std::vector<ScalarValue> scalars = scalars_of(steps_done_, given);  // before a batch is taken: it may throw
  const ClusterResults& results = [&]() -> const ClusterResults& {
    try {
      return cluster_->run_step(steps_done_, feed_of_step(), scalars);
    } catch (...) {
      whole_ = whole_ && !cluster_->stopped();
      throw;
    }
  }();
  results_ = &results;
  const std::string without_items =
      results.not_finite.empty() ? "" : metric_without_items(loss_parts(workload_.model, options_), results.micro);
  const bool overflows = without_items.empty() && has_automatic_loss_scale() && results.not_finite == "grad_norm" && !results.states_changed &&
                         loss_scale_.scale > kLeastLossScale;
  if (!results.not_finite.empty() && !overflows) {
    whole_ = whole_ && !results.states_changed;
    if (!without_items.empty()) throw no_items_error(without_items, steps_done_);
    fail_not_finite(results.not_finite, scalars);
  }
  MetricSums sums(workload_.model.metrics, false, options_.loss_mean == "step");
  for (const NamedNumbers& micro : results.micro) sums.add(micro);
  Numbers numbers = sums.numbers();
  if (const double* norm = results.find("grad_norm"); norm && !overflows) numbers.emplace_back("grad_norm", *norm);
  if (const double* share = results.find("gradient_underflow")) numbers.emplace_back("gradient_underflow", *share);
  if (has_automatic_loss_scale()) follow_loss_scale(results, overflows, numbers);
  numbers.emplace_back("learning_rate", group_rate_at(options_, kNoGroup, steps_done_, given));
  const double seconds = seconds_since(start);
  numbers.emplace_back("step_seconds", seconds);
  const std::string speed = workload_.units.name + "_per_second";
  numbers.emplace_back(speed, static_cast<double>(units_per_step()) / seconds);
  if (const auto real = feeder_->counted()) numbers.emplace_back("real_" + speed, static_cast<double>(*real) / seconds);
  numbers.emplace_back("data_seconds", feeder_->waited_seconds());
  if (cluster_->mesh().p > 1) numbers.emplace_back("bubble", results.waiting);
  ++steps_done_;
  return numbers;
}

/// The next step's loss scale, by what this one gave. Numbers: the scale that this step had, and what came of it.
void Training::follow_loss_scale(const ClusterResults& results, bool overflows, Numbers& numbers) {
  const auto share = [&](const char* name) {
    const double* found = results.find(name);
    return found ? *found : 0;
  };
  numbers.emplace_back("loss_scale", loss_scale_.scale);
  if (overflows)
    loss_scale_ = after_overflow(loss_scale_);
  else if (loss_scale_range(options_))
    loss_scale_ = after_step(loss_scale_, share("grad_near_overflow"), share("grad_room"),
                             options_.loss_scale_window);
  if (!overflows) numbers.emplace_back("grad_underflow", share("grad_underflow"));
  numbers.emplace_back("skipped_steps", static_cast<double>(loss_scale_.skipped));
}

void Training::fail_not_finite(const std::string& result, const std::vector<ScalarValue>& scalars) {
  const auto first =
      workload_.train->repeatable()
          ? cluster_->find_first_nonfinite(steps_done_, feed_of_step(), scalars)
          : std::optional<std::string>("an unknown node: the samples of a stream cannot be read again");
  std::string remedy = "Lower train.schedule.learning_rate, lengthen its warm-up or set train.clip_norm";
  const std::string& precision = options_.precision;
  if (precision == "f16" || precision == "f8") remedy += "; with " + precision + " also try another train.loss_scale, or bf16";
  throw Error(
      {.what = "'" + result + "' is not finite",
       .where = "step " + std::to_string(steps_done_ + 1),
       .found =
           first ? *first : "no node that made a NaN or an infinity from finite numbers when the step was run again",
       .remedy = remedy},
      ErrorKind::kFailure);
}

NumericsReport Training::check_numerics() {
  const auto& rts = layout_.rts;
  return judge_numerics(cluster_->survey_numerics(steps_done_, feed_of_step(), scalars_of(steps_done_),
                                                  std::max({rts.grads, rts.optimizer, 1})),
                        options_, steps_done_ + 1);
}

Numbers Training::evaluate() {
  return workload_.evaluator ? workload_.evaluator->evaluate(*this) : evaluate_held_out();
}

Numbers Training::evaluate_held_out() {
  const int64_t batches = evaluation_batches(workload_, options_);
  if (batches == 0) return {};
  Feeder feeder(workload_.held_out, *cluster_, evaluation_feed(workload_, options_));
  feeder.begin(0);
  MetricSums sums(workload_.model.metrics, true, true);
  for (const ResultTensors& results : cluster_->run("evaluate", batches, feeder.feed(), {}, {.everywhere = true}))
    sums.add(numbers_of(results));
  return sums.numbers();
}

ReadState Training::reader() const {
  return [this](const StateTensor& state, uint64_t offset, std::span<std::byte> to) {
    cluster_->read_state(state, offset, to);
  };
}

void Training::read_state(const std::string& name, std::span<std::byte> to) const {
  for (const auto& state : compiled_.states)
    if (state.name == name) return cluster_->read_state(state, 0, to);
  throw Error({.what = "the model has no state of this name", .found = "'" + name + "'"});
}

void Training::read_weight(const std::string& name, std::span<std::byte> to) const {
  const HeldForm form = held_form(options_);
  const std::span<float> values(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
  HeldBytes held;
  held.weight.resize(values.size() * size_of(form.dtype));
  read_state(name, held.weight);
  if (form.split) held.low.resize(values.size() * size_of(kU16)), read_state(low_half_of(name), held.low);
  release(held, form, values);
}

void Training::set_weights(const std::function<void(const SetWeight& set)>& weights) {
  weights([&](const std::string& name, std::span<const float> values) {
    for (const StateTensor& weight : workload_.model.weights) {
      if (weight.name != name) continue;
      if (std::ssize(values) != weight.type.elements())
        throw Error({.what = "a weight gets another number of values than it has",
                     .where = "'" + name + "'",
                     .found = std::to_string(values.size()),
                     .expected = std::to_string(weight.type.elements())});
      if (cluster_->holds(weight)) write_weight(weight, values, 0);
      return;
    }
    throw Error({.what = "the model has no weight of this name", .found = "'" + name + "'"});
  });
  cluster_->run_derive();
}

std::filesystem::path Training::save(const std::filesystem::path& folder, int64_t keep) const {
  CheckpointInfo info{.step = steps_done_,
                            .samples = steps_done_ * samples_per_step(),
                            .recipe_hash = workload_.recipe_identity,
                      .model_identity = identity_,
                      .model_name = workload_.model.name,
                            .data_hash = workload_.data_identity,
                            .kernel_class = kernel_class(),
                            .version = version(),
                            .weights_hash = "",
                            .loss_scale = {}};
  if (has_automatic_loss_scale()) info.loss_scale = loss_scale_;
  const SaveOptions options{.keep = static_cast<int>(keep > 0 ? keep : options_.checkpoint.keep)};
  if (!cluster_->leads()) {
    read_as_saved(compiled_.states, reader(), options);
    return {};
  }
  try {
    return save_checkpoint(folder, info, compiled_.states, reader(), options);
  } catch (const Error& error) {
    // The other ranks still wait to give what they hold.
    if (cluster_->ranks() > 1) cluster_->stop(error.what());
    throw;
  }
}

void Training::export_weights(const std::filesystem::path& path) const {
  check_exportable(options_, path.string());
  model::export_weights(path, workload_.model.weights,
                        [this](const std::string& name, std::span<std::byte> bytes) { read_weight(name, bytes); });
}

std::string Training::weights_hash() const {
  const std::string hash = train::weights_hash(compiled_.states, reader()).hex();
  return cluster_->leads() ? hash : "";
}

}  // namespace ramet::train

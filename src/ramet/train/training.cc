#include "ramet/train/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/process_memory.h"
#include "ramet/base/rounding.h"
#include "ramet/base/version.h"
#include "ramet/kernel/devices.h"
#include "ramet/model/array_file.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/model/step_outputs.h"
#include "ramet/train/all_ranks.h"
#include "ramet/train/evaluate.h"
#include "ramet/train/evolve.h"
#include "ramet/train/facts.h"
#include "ramet/train/groups.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/inputs.h"
#include "ramet/train/loss_parts.h"
#include "ramet/train/model_passes.h"
#include "ramet/train/open_cluster.h"
#include "ramet/train/scaling.h"
#include "ramet/transport/mpi_transport.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::train {
Training::Training(Workload workload, TrainOptions options, const Layout& layout, const Where& where)
    : workload_(std::move(workload)), options_(std::move(options)), asked_layout_(layout), profiled_(where.profile) {
  std::exception_ptr fault;
  std::string text;
  try {
    compile(layout, where);
  } catch (const std::exception& error) {
    fault = std::current_exception();
    text = error.what();
  }
  if (where.mpi) where.mpi->agree(text);
  if (fault) std::rethrow_exception(fault);
  cluster_ = open_cluster(std::move(compiled_.stages), options_, layout_, where, waiting_limit(compiled_));
  compiled_.stages.clear();
  if (rows_)
    cluster_->set_rows(
        or_end_all(*cluster_, [&] { return std::make_unique<RowTables>(rows_->tables, layout_.streaming); }));
  const Mesh& mesh = cluster_->mesh();
  for (int device = 0; device < mesh.devices(); ++device) {
    const Executable& exe = cluster_->stages()[static_cast<size_t>(mesh.position(device).stage)];
    planned_bytes_ += exe.planned_bytes() + (layout_.streams_to_files() ? 0 : exe.streaming_bytes);
  }
  threads_ = local_threads(*cluster_);
  loader_.emplace(*cluster_, options_, threads_, where.progress);
  host_ = or_end_all(*cluster_, [&] {
    return train::host_memory(workload_, options_, cluster_->stages(), cluster_->local_devices());
  });
  if (rows_) host_.tables += rows_->host_bytes(layout_);
}

void Training::compile(const Layout& layout, const Where& where) {
  check_inputs();
  workload_.model = apply_model_passes(std::move(workload_.model), options_);
  layout_ = fitted_layout(layout, workload_.model, options_, where.layout_source, workload_.remarks);
  identity_ = workload_.model.identity().hex();
  if (layout_.offload.rows) {
    rows_ = make_row_window(workload_, options_, layout_, where.layout_source, where.mpi ? where.mpi->ranks() : 1);
    compiled_ = compile_workload(rows_->model, options_, layout_, where);
    rows_->model = {};
    if (rows_->source) workload_.train = rows_->source;
    take_whole_states(rows_->tables, compiled_.states);
  } else {
    compiled_ = compile_workload(workload_.model, options_, layout_, where);
  }
  // Where memory counts, the compiler's own code makes room before devices take theirs.
  if (where.device_memory_share > 0) leave_library_pages();
}

Training::~Training() = default;

/// All that is wrong with the data's tensors, before anything is compiled.
void Training::check_inputs() {
  inputs_ = checked_inputs(workload_.model);
  if (workload_.train) check_signature(inputs_, workload_.train->signature(options_.micro_batch), "the training data");
  if (workload_.held_out)
    check_signature(inputs_, workload_.held_out->signature(options_.micro_batch), "the held-out data");
  if (workload_.train) workload_.train = train::check_inputs(workload_.train, inputs_, options_.micro_batch);
  if (workload_.held_out) workload_.held_out = train::check_inputs(workload_.held_out, inputs_, options_.micro_batch);
}

void Training::initialize() {
  // Memory of a device is zero at first; files, and memory of a transport between devices, need not be.
  const bool zeroed = std::exchange(fresh_, false) && cluster_->mesh().devices() == 1 && !layout_.streams_to_files();
  std::vector<StateTensor> drawn;
  for (const auto& state : compiled_.states)
    if (state.kind != StateKind::kWeight && state.kind != StateKind::kConstant && cluster_->holds(state) &&
        !(zeroed && state.init.kind == StateInit::Kind::kZeros))
      drawn.push_back(state);
  or_end_all(*cluster_, [&] {
    loader_->begin("setting the optimizer's states", drawn);
    for (const auto& state : drawn) loader_->write_first(state);
    loader_->write_first_weights(workload_.model, workload_.init_from);
  });
  cluster_->run_derive();
  steps_done_ = 0;
  loss_scale_ = first_loss_scale(options_);
}

std::string Training::restore(const Checkpoint& checkpoint) {
  std::string warnings = check_origin(checkpoint, workload_, identity_, kernel_class());
  const CheckpointInfo& info = checkpoint.info();
  const auto refuse = [&](const std::string& what, const std::string& found, const std::string& expected,
                          const std::string& remedy) {
    throw Error(
        {.what = what, .where = checkpoint.path().string(), .found = found, .expected = expected, .remedy = remedy});
  };
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
  fresh_ = false;
  loader_->load(checkpoint, compiled_.states, true);
  // States that are not saved begin with their first values.
  for (const StateTensor& state : compiled_.states)
    if (state.kind == StateKind::kKept && cluster_->holds(state)) loader_->write_first(state);
  cluster_->run_derive();
  steps_done_ = info.step;
  loss_scale_ = info.loss_scale.value_or(first_loss_scale(options_));
  whole_ = true;
  if (stream)
    warnings += "the data is a stream, which was said to begin at sample " + std::to_string(info.samples) +
                ": whether these are the samples of an unbroken run nobody has checked\n";
  return warnings;
}

const ClusterFeed& Training::feed_of_step() {
  if (!feeder_)
    feeder_ = or_end_all(*cluster_, [&] {
      return std::make_unique<Feeder>(workload_.train, *cluster_, training_feed(workload_, options_));
    });
  feeder_->begin(steps_done_);
  bring_rows();
  return feeder_->feed();
}

void Training::bring_rows() {
  if (!rows_) return;
  const RowsOfStep rows = rows_->source->rows_of(steps_done_), next = rows_->source->rows_of(steps_done_ + 1);
  const bool whole = std::exchange(whole_, false);  // rows that cannot be written are lost
  cluster_->bring_rows(rows, next);
  whole_ = whole;
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
  not_finite_.clear();
  const std::vector<ScalarValue> scalars = scalars_of(steps_done_, given);  // before a batch is taken: it may throw
  const ClusterResults& results = [&]() -> const ClusterResults& {
    try {
      const Wanted wanted{.names = model::step_outputs(workload_.model.forward), .everywhere = true};
      return cluster_->run_step(steps_done_, feed_of_step(), scalars, wanted);
    } catch (...) {
      whole_ = whole_ && !cluster_->stopped();
      throw;
    }
  }();
  results_ = &results;
  const std::string without_items =
      results.not_finite.empty() ? "" : metric_without_items(loss_parts(workload_.model, options_), results.micro);
  const bool overflows = without_items.empty() && has_automatic_loss_scale() && results.not_finite == "grad_norm" &&
                         !results.states_changed && loss_scale_.scale > kLeastLossScale;
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
  add_evolve_numbers(workload_.model, results, numbers);
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
    loss_scale_ = after_step(loss_scale_, share("grad_near_overflow"), share("grad_room"), options_.loss_scale_window);
  if (!overflows) numbers.emplace_back("grad_underflow", share("grad_underflow"));
  numbers.emplace_back("skipped_steps", static_cast<double>(loss_scale_.skipped));
}

void Training::fail_not_finite(const std::string& result, const std::vector<ScalarValue>& scalars) {
  not_finite_ = result;
  const auto first = workload_.train->repeatable()
                         ? cluster_->find_first_nonfinite(steps_done_, feed_of_step(), scalars)
                         : std::optional<std::string>("an unknown node: the samples of a stream cannot be read again");
  std::string remedy = "Lower train.schedule.learning_rate, lengthen its warm-up or set train.clip_norm";
  const std::string& precision = options_.precision;
  if (precision == "f16" || precision == "f8")
    remedy += "; with " + precision + " also try another train.loss_scale, or bf16";
  throw Error(
      {.what = "'" + result + "' is not finite",
       .where = "step " + std::to_string(steps_done_ + 1),
       .found =
           first ? *first : "no node that made a NaN or an infinity from finite numbers when the step was run again",
       .remedy = remedy},
      ErrorKind::kFailure);
}

NumericsReport Training::check_numerics() {
  refuse_rows(layout_, "layout", "a check of numerics, which looks at all elements of weights and states,");
  const auto& rts = layout_.rts;
  return judge_numerics(cluster_->survey_numerics(steps_done_, feed_of_step(), scalars_of(steps_done_),
                                                  std::max({rts.grads, rts.optimizer, 1})),
                        options_, steps_done_ + 1);
}

Numbers Training::evaluate() { return train::evaluate(*cluster_, workload_, options_); }

Numbers Training::evaluate_held_out() { return train::evaluate_held_out(*cluster_, workload_, options_); }

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
  if (form.split) held.low.resize(values.size() * size_of(DType::kU16)), read_state(low_half_of(name), held.low);
  release(held, form, values);
}

void Training::set_weights(const std::function<void(const SetWeight& set)>& weights) {
  const std::vector<StateTensor> published = workload_.model.published();
  const std::vector<SparseWeight> sparse = sparse_weights(workload_.model);
  weights([&](const std::string& name, std::span<const float> values) {
    for (const SparseWeight& weight : sparse) {
      if (weight.name != name || std::ssize(values) != weight.grid.rows() * weight.grid.columns()) continue;
      std::vector<int32_t> index(static_cast<size_t>(weight.index.type.elements()));
      read_state(weight.index.name, std::as_writable_bytes(std::span(index)));
      const std::vector<float> stored = gather_stored(weight.grid, index, values);
      if (cluster_->holds(weight.values)) loader_->write_whole(weight.values, std::as_bytes(std::span(stored)));
      return;
    }
    for (const StateTensor& weight : published) {
      if (weight.name != name) continue;
      if (std::ssize(values) != weight.type.elements())
        throw Error({.what = "a weight gets another number of values than it has",
                     .where = "'" + name + "'",
                     .found = std::to_string(values.size()),
                     .expected = std::to_string(weight.type.elements())});
      if (cluster_->holds(weight)) loader_->write_whole(weight, std::as_bytes(values));
      return;
    }
    throw Error({.what = "the model has no weight of this name", .found = "'" + name + "'"});
  });
  cluster_->run_derive();
}

std::vector<const StateTensor*> Training::saved_states() const {
  std::vector<const StateTensor*> saved;
  for (const StateTensor& state : compiled_.states) {
    const bool kept = state.kind == StateKind::kWeight || state.kind == StateKind::kOptimizer ||
                      state.kind == StateKind::kPattern || state.kind == StateKind::kDeferred ||
                      state.kind == StateKind::kChained;
    if (kept && !state.low_half) saved.push_back(&state);
  }
  return saved;
}

void Training::write_state(const StateTensor& state, std::span<const std::byte> bytes) {
  fresh_ = false;
  if (cluster_->holds(state)) loader_->write_whole(state, bytes);
}

void Training::states_written() { cluster_->run_derive(); }

void Training::set_steps_done(int64_t steps) {
  if (steps < 0)
    throw Error({.what = "a negative number of steps", .where = "steps done", .found = std::to_string(steps)});
  steps_done_ = steps;
  whole_ = true;
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
  // When that fails, the other ranks still wait to send their states.
  return or_end_all(*cluster_, [&] { return save_checkpoint(folder, info, compiled_.states, reader(), options); });
}

void Training::export_weights(const std::filesystem::path& path) const {
  check_exportable(options_, path.string());
  const auto read = [this](const std::string& name, std::span<std::byte> bytes) {
    const std::vector<StateTensor>& states = workload_.model.states;
    const bool is_state =
        std::any_of(states.begin(), states.end(), [&](const StateTensor& each) { return each.name == name; });
    is_state ? read_state(name, bytes) : read_weight(name, bytes);
  };
  model::export_weights(path, dense_published(workload_.model), dense_reader(workload_.model, read));
}

std::string Training::weights_hash() const {
  const std::string hash = train::weights_hash(compiled_.states, reader()).hex();
  return cluster_->leads() ? hash : "";
}

}  // namespace ramet::train

#include "ramet/train/trainer.h"

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
#include "ramet/kernel/kernel.h"
#include "ramet/model/hugging_face.h"
#include "ramet/text/loader.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/initialize.h"
#include "ramet/train/scaling.h"
#include "ramet/train/schedule.h"
#include "ramet/train/task_predictor.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::train {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Adds up the results of micro-batches and tells them as metrics. Losses are means over the words that they count
/// ("X_loss" by "X_count", "loss" by "count" where there is one); "X_correct" and "X_count" make "X_accuracy".
class ResultSums {
 public:
  void add(const NamedNumbers& results) {
    const std::map<std::string, double> batch(results.begin(), results.end());
    ++batches_;
    for (const auto& [name, value] : batch) {
      sums_[name] += value;
      const auto count = batch.find(count_name(name));
      if (is_loss(name) && count != batch.end()) weighted_[name] += value * count->second;
    }
  }

  /// `weighted`: by words (evaluation); otherwise the mean over micro-batches, which is what was trained on.
  Numbers numbers(bool weighted) const {
    Numbers result;
    double total = 0;
    for (const auto& [name, sum] : sums_)
      if (is_loss(name)) {
        const auto by_words = weighted_.find(name);
        double mean = sum / static_cast<double>(batches_);
        if (weighted && by_words != weighted_.end())
          mean = by_words->second / std::max(1.0, sums_.at(count_name(name)));
        if (name != "loss") total += mean;
        result.emplace_back(name, mean);
      }
    // A loss of parts is the sum of its parts, each by its own words.
    if (weighted && result.size() > 1)
      for (auto& [name, value] : result)
        if (name == "loss") value = total;
    std::stable_partition(result.begin(), result.end(), [](const auto& number) { return number.first == "loss"; });
    for (const auto& [name, sum] : sums_)
      if (name.ends_with("correct")) {
        const std::string prefix = name.substr(0, name.size() - std::strlen("correct"));
        const auto count = sums_.find(prefix + "count");
        if (count != sums_.end()) result.emplace_back(prefix + "accuracy", sum / std::max(1.0, count->second));
      }
    return result;
  }

 private:
  static bool is_loss(const std::string& name) { return name == "loss" || name.ends_with("_loss"); }
  static std::string count_name(const std::string& loss) {
    return loss.substr(0, loss.size() - std::strlen("loss")) + "count";
  }

  std::map<std::string, double> sums_, weighted_;
  int64_t batches_ = 0;
};

/// Tokens of these batches that are no padding; nothing when they do not say, or are not all here.
std::optional<int64_t> real_tokens(const std::vector<Batch>& batches) {
  int64_t sum = 0;
  for (const Batch& batch : batches) {
    const auto mask = std::find_if(batch.tensors.begin(), batch.tensors.end(), [](const NamedTensor& tensor) {
      return tensor.name == "attention_mask" || tensor.name == "segment_ids";
    });
    if (mask == batch.tensors.end()) return std::nullopt;
    const auto* numbers = reinterpret_cast<const int32_t*>(mask->bytes.data());
    sum += mask->type.elements() - std::count(numbers, numbers + mask->type.elements(), 0);
  }
  return sum;
}

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

/// Puts those tensors of a batch that the program reads.
void put_batch(const Batch& batch, const Executable& exe, bool evaluation, FeedSink& sink) {
  for (const auto& tensor : batch.tensors)
    if (exe.has_feed(tensor.name, evaluation)) sink.set(tensor.name, tensor.type, tensor.bytes.data());
}

}  // namespace

double number_of(const Numbers& numbers, const std::string& name) {
  for (const auto& [key, value] : numbers)
    if (key == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

/// What the next steps read.
struct Trainer::Data {
  Data(const Preparation& preparation, int64_t step, const Cluster& cluster)
      : loader(preparation.train, step * preparation.samples_per_step(), preparation.recipe.train.micro_batch,
               static_cast<int>(preparation.recipe.data.prefetch), -1,
               [&cluster, count = preparation.recipe.train.accumulation](int64_t number) {
                 return cluster.reads_micro_batch(number % count);
               }) {}
  Loader loader;
};

Trainer::Trainer(Preparation preparation, const TrainerOptions& options) : preparation_(std::move(preparation)) {
  compiled_ = compile_recipe(preparation_, options);
  progress_ = options.progress;
  ClusterOptions how;
  how.mpi = options.mpi;
  how.streaming = preparation_.layout.streaming;
  how.profile = options.profile;
  how.bits = preparation_.recipe.train.bits == "fast" ? ExactBits::kFast : ExactBits::kExact;
  how.time_limit = options.time_limit.count() > 0 ? options.time_limit : waiting_limit(compiled_);
  cluster_ = std::make_unique<Cluster>(std::move(compiled_.stages), cpu_backend(), how);
  compiled_.stages.clear();
  const Mesh& mesh = cluster_->mesh();
  for (int device = 0; device < mesh.devices(); ++device) {
    const Executable& exe = cluster_->stages()[static_cast<size_t>(mesh.position(device).stage)];
    planned_bytes_ += exe.planned_bytes() + (preparation_.layout.streams_to_files() ? 0 : exe.streaming_bytes);
  }
  for (const int device : cluster_->local_devices())
    threads_ += cluster_->stages()[static_cast<size_t>(mesh.position(device).stage)].threads;
  const TaskSet* task = preparation_.task.get();
  if (task && task->dev() && task->dev()->labelled() && cluster_->leads()) {
    task_ = std::make_unique<TaskPredictor>(preparation_.recipe, preparation_.tokenizer, threads_);
    planned_bytes_ += task_->planned_bytes();
  }
}

Trainer::~Trainer() = default;

void Trainer::write_state(const StateTensor& state, std::span<const std::byte> bytes) {
  cluster_->write_state(state, 0, bytes);
}

/// Elements [first, first + values) of a weight, as it is held.
void Trainer::write_weight(const StateTensor& weight, std::span<const float> values, int64_t first) {
  const HeldForm form = held_form(preparation_.recipe);
  const HeldBytes held = hold(values, form);
  StateTensor state = weight;
  state.type.dtype = form.dtype;
  cluster_->write_state(state, static_cast<uint64_t>(first) * size_of(form.dtype), held.weight);
  if (!form.split) return;
  state.name = low_half_of(weight.name);
  state.type.dtype = kU16;
  cluster_->write_state(state, static_cast<uint64_t>(first) * size_of(kU16), held.low);
}

/// Piece by piece, so that a weight of any size takes little memory beside its own.
void Trainer::write_initial(const StateTensor& state) {
  constexpr int64_t kPiece = 1 << 20;  // elements
  const bool weight = state.kind == StateKind::kWeight;
  if (!weight_of_low_half(state.name, state.type.dtype).empty()) return;  // written with its weight
  ThreadTeam team(threads_);
  std::vector<float> values;
  const int64_t elements = state.type.elements();
  for (int64_t first = 0; first < elements; first += kPiece) {
    values.resize(static_cast<size_t>(std::min(kPiece, elements - first)));
    initialize_state(state, static_cast<uint64_t>(preparation_.recipe.train.seed),
                     std::as_writable_bytes(std::span(values)), team, first);
    if (weight)
      write_weight(state, values, first);
    else
      cluster_->write_state(state, static_cast<uint64_t>(first) * size_of(state.type.dtype),
                            hold(values, {state.type.dtype, false}).weight);
    told(static_cast<int64_t>(values.size() * size_of(state.type.dtype)));
  }
}

void Trainer::begin(std::string what, const std::vector<StateTensor>& states) {
  doing_ = std::move(what);
  done_bytes_ = all_bytes_ = 0;
  for (const StateTensor& state : states)
    if (cluster_->holds(state)) all_bytes_ += state.type.bytes();
}

void Trainer::told(int64_t bytes) {
  done_bytes_ += bytes;
  if (progress_) progress_(doing_, done_bytes_, all_bytes_);
}

/// All numbers of an f32 weight.
void Trainer::write_whole_weight(const StateTensor& weight, std::span<const std::byte> bytes) {
  write_weight(weight, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)}, 0);
}

void Trainer::load(const Checkpoint& checkpoint, const std::vector<StateTensor>& states, bool as_held) {
  begin("reading the checkpoint", states);
  try {
    checkpoint.load(
        states,
        [&](const StateTensor& state, std::span<const std::byte> bytes) {
          if (as_held)
            write_state(state, bytes);
          else
            write_whole_weight(state, bytes);
          told(state.type.bytes());
        },
        [&](const StateTensor& state) { return cluster_->holds(state); });
  } catch (const Error& error) {
    // What is damaged may be a tensor that the other ranks do not read.
    if (cluster_->ranks() > 1) cluster_->stop(error.what());
    throw;
  }
}

void Trainer::initialize() {
  const std::string& file = preparation_.recipe.model.init_from;
  std::vector<StateTensor> drawn;
  for (const auto& state : compiled_.states)
    if ((state.kind != StateKind::kWeight || file.empty()) && cluster_->holds(state)) drawn.push_back(state);
  begin(file.empty() ? "drawing the first weights" : "setting the optimizer's states", drawn);
  for (const auto& state : drawn) write_initial(state);
  std::map<std::string, const StateTensor*> weights;
  for (const auto& weight : preparation_.model.weights) weights[weight.name] = &weight;
  if (!file.empty() && std::filesystem::is_directory(file) && !has_weights(file)) {
    const Checkpoint checkpoint(checkpoint_of(file));
    std::vector<StateTensor> loaded;
    for (const auto& weight : preparation_.model.weights)
      if (is_task_head(weight.name) && !checkpoint.has(weight.name))
        write_initial(weight);
      else
        loaded.push_back(weight);
    load(checkpoint, loaded, false);
  } else if (!file.empty()) {
    check_importable(preparation_.recipe);
    begin("importing the weights", preparation_.model.weights);
    const WeightMatch match = import_weights(
        file, preparation_.model.weights, [&](const std::string& name, std::span<const std::byte> bytes) {
          if (!cluster_->holds(*weights.at(name))) return;
          write_whole_weight(*weights.at(name), bytes);
          told(static_cast<int64_t>(bytes.size()));
        });
    for (const std::string& name : match.drawn)
      if (cluster_->holds(*weights.at(name))) write_initial(*weights.at(name));
  }
  cluster_->run_derive();
  steps_done_ = 0;
  loss_scale_ = first_loss_scale(preparation_.recipe);
  data_.reset();
}

std::string Trainer::restore(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  const std::string recipe = recipe_hash(preparation_.recipe).hex();
  const auto refuse = [&](const std::string& what, const std::string& found, const std::string& expected,
                          const std::string& remedy) {
    throw Error(
        {.what = what, .where = checkpoint.path().string(), .found = found, .expected = expected, .remedy = remedy});
  };
  if (info.recipe_hash != recipe)
    refuse("the checkpoint was made with another recipe", "recipe " + info.recipe_hash, recipe,
           "To begin a new run from its weights, set model.init_from to it");
  if (info.data_hash != preparation_.data_hash)
    refuse("the checkpoint was made with other data", "corpus " + info.data_hash, preparation_.data_hash,
           "Point data.corpus to the corpus of that run");
  if (info.samples != info.step * preparation_.samples_per_step())
    refuse("the checkpoint's step and data position contradict each other",
           std::to_string(info.samples) + " samples at step " + std::to_string(info.step), "", "");
  load(checkpoint, compiled_.states, true);
  cluster_->run_derive();
  steps_done_ = info.step;
  loss_scale_ = info.loss_scale.value_or(first_loss_scale(preparation_.recipe));
  whole_ = true;
  data_.reset();
  std::string warnings;
  const std::string& kernels = kernel_class();
  if (info.kernel_class != kernels)
    warnings += "the checkpoint was made with kernels of class " + info.kernel_class + ", this is " + kernels +
                ": the run goes on, but its bits are not those of an unbroken run\n";
  if (info.version != version())
    warnings += "the checkpoint was made by Ramet " + info.version + ", this is " + version() + "\n";
  return warnings;
}

ClusterFeed Trainer::feed_of(const std::vector<Batch>& batches, bool evaluation) const {
  return [&batches, evaluation](int64_t micro, const Executable& exe, FeedSink& sink) {
    put_batch(batches[static_cast<size_t>(micro)], exe, evaluation, sink);
  };
}

std::vector<ScalarValue> Trainer::scalars_of(int64_t step) const {
  const Recipe& recipe = preparation_.recipe;
  // Moments have seen the updates that were made, schedules the steps.
  const int64_t updates = step - loss_scale_.skipped;
  const auto correction = [&](double beta) {
    return recipe.train.optimizer.bias_correction ? bias_correction(beta, updates) : 1;
  };
  const std::vector<ScalarValue> all = {{"learning_rate", learning_rate_at(recipe, step)},
                                        {"correction1", correction(recipe.train.optimizer.beta1)},
                                        {"correction2", correction(recipe.train.optimizer.beta2)},
                                        {"second_decay", rising_decay(recipe.train.optimizer.decay_rate, updates)},
                                        {"loss_scale", loss_scale_.scale},
                                        {"inverse_loss_scale", 1 / loss_scale_.scale}};
  std::vector<ScalarValue> wanted;
  for (const auto& scalar : all)
    for (const Executable& exe : cluster_->stages())
      if (exe.has_scalar(scalar.name)) {
        wanted.push_back(scalar);
        break;
      }
  return wanted;
}

const std::vector<Batch>& Trainer::next_batches() {
  if (data_ && !next_.empty()) return next_;
  next_.clear();
  if (!data_) data_ = std::make_unique<Data>(preparation_, steps_done_, *cluster_);
  try {
    for (int64_t i = 0; i < preparation_.recipe.train.accumulation; ++i) next_.push_back(data_->loader.next());
  } catch (const Error& error) {
    // The other ranks may have had no such trouble, and would wait for this one.
    if (cluster_->ranks() > 1) cluster_->stop(error.what());
    next_.clear();
    throw;
  }
  return next_;
}

Numbers Trainer::step() {
  const auto start = Clock::now();
  const double waited_before = data_ ? data_->loader.waited_seconds() : 0;
  next_batches();
  const std::vector<Batch> batches = std::exchange(next_, {});
  const double waited = data_->loader.waited_seconds() - waited_before;
  const ClusterResults& results = [&]() -> const ClusterResults& {
    try {
      return cluster_->run_step(steps_done_, feed_of(batches, false), scalars_of(steps_done_));
    } catch (...) {
      whole_ = whole_ && !cluster_->stopped();
      throw;
    }
  }();
  const bool overflows = has_automatic_loss_scale() && results.not_finite == "grad_norm" && !results.states_changed &&
                         loss_scale_.scale > kLeastLossScale;
  if (!results.not_finite.empty() && !overflows) {
    whole_ = whole_ && !results.states_changed;
    data_.reset();
    fail_not_finite(results.not_finite, batches);
  }
  ResultSums sums;
  for (const NamedNumbers& micro : results.micro) sums.add(micro);
  Numbers numbers = sums.numbers(false);
  if (const double* norm = results.find("grad_norm"); norm && !overflows) numbers.emplace_back("grad_norm", *norm);
  if (const double* share = results.find("gradient_underflow")) numbers.emplace_back("gradient_underflow", *share);
  if (has_automatic_loss_scale()) follow_loss_scale(results, overflows, numbers);
  numbers.emplace_back("learning_rate", learning_rate_at(preparation_.recipe, steps_done_));
  const double seconds = seconds_since(start);
  numbers.emplace_back("step_seconds", seconds);
  numbers.emplace_back("tokens_per_second", static_cast<double>(preparation_.tokens_per_step()) / seconds);
  if (const auto tokens = real_tokens(batches))
    numbers.emplace_back("real_tokens_per_second", static_cast<double>(*tokens) / seconds);
  numbers.emplace_back("data_seconds", waited);
  if (cluster_->mesh().p > 1) numbers.emplace_back("bubble", results.waiting);
  ++steps_done_;
  return numbers;
}

/// The next step's loss scale, by what this one gave. Numbers: the scale that this step had, and what came of it.
void Trainer::follow_loss_scale(const ClusterResults& results, bool overflows, Numbers& numbers) {
  const auto share = [&](const char* name) {
    const double* found = results.find(name);
    return found ? *found : 0;
  };
  numbers.emplace_back("loss_scale", loss_scale_.scale);
  if (overflows)
    loss_scale_ = after_overflow(loss_scale_);
  else if (loss_scale_range(preparation_.recipe))
    loss_scale_ = after_step(loss_scale_, share("grad_near_overflow"), share("grad_room"),
                             preparation_.recipe.train.loss_scale_window);
  if (!overflows) numbers.emplace_back("grad_underflow", share("grad_underflow"));
  numbers.emplace_back("skipped_steps", static_cast<double>(loss_scale_.skipped));
}

void Trainer::fail_not_finite(const std::string& result, const std::vector<Batch>& batches) {
  const auto first = cluster_->find_first_nonfinite(steps_done_, feed_of(batches, false), scalars_of(steps_done_));
  std::string remedy = "Lower train.schedule.learning_rate, lengthen its warm-up or set train.clip_norm";
  const std::string& precision = preparation_.recipe.train.precision;
  if (precision == "f16" || precision == "f8") remedy += "; with " + precision + " also try another train.loss_scale, or bf16";
  throw Error(
      {.what = "'" + result + "' is not finite",
       .where = "step " + std::to_string(steps_done_ + 1),
       .found =
           first ? *first : "no node that made a NaN or an infinity from finite numbers when the step was run again",
       .remedy = remedy},
      ErrorKind::kFailure);
}

Numbers Trainer::evaluate_task() {
  const TaskSplit* const split = preparation_.task->dev().get();
  if (!split || !split->labelled()) return {};
  std::vector<std::byte> bytes;
  for (const StateTensor& weight : preparation_.model.weights) {
    bytes.resize(static_cast<size_t>(weight.type.bytes()));
    read_weight(weight.name, bytes);
    if (task_) task_->write(weight, bytes);
  }
  if (!task_) return {};
  try {
    task_->ready();
    const std::vector<TaskOutputs> outputs = {task_->predict(*split)};
    return task_numbers(preparation_.recipe, *split, outputs);
  } catch (const Error& error) {
    if (cluster_->ranks() > 1) cluster_->stop(error.what());
    throw;
  }
}

NumericsReport Trainer::check_numerics() {
  const std::vector<Batch>& batches = next_batches();
  const auto& rts = preparation_.layout.rts;
  return judge_numerics(cluster_->survey_numerics(steps_done_, feed_of(batches, false), scalars_of(steps_done_),
                                                  std::max({rts.grads, rts.optimizer, 1})),
                        preparation_.recipe, steps_done_ + 1);
}

Numbers Trainer::evaluate() {
  if (preparation_.task) return evaluate_task();
  int64_t batches = preparation_.recipe.train.evaluation.batches;
  const int64_t micro_batch = preparation_.recipe.train.micro_batch;
  if (!preparation_.held_out || batches == 0) return {};
  // Every held-out sample at most once, as far as whole batches go.
  if (preparation_.held_out_samples > 0)
    batches = std::min(batches, std::max<int64_t>(1, preparation_.held_out_samples / micro_batch));
  const int64_t width = cluster_->evaluation_width();
  Loader loader(preparation_.held_out, 0, micro_batch, 2, batches, [&](int64_t number) {
    return cluster_->evaluates_micro_batch(number % width, std::min(width, batches - number / width * width));
  });
  ResultSums sums;
  for (int64_t done = 0; done < batches;) {
    std::vector<Batch> round;
    for (int64_t i = 0; i < std::min(batches - done, width); ++i) round.push_back(loader.next());
    const auto count = static_cast<int64_t>(round.size());
    for (const NamedNumbers& results : cluster_->evaluate(count, feed_of(round, true))) sums.add(results);
    done += count;
  }
  Numbers numbers = sums.numbers(true);
  const bool masked = preparation_.recipe.model.kind != "gpt2";
  numbers.emplace_back("perplexity", std::exp(number_of(numbers, masked ? "mlm_loss" : "loss")));
  return numbers;
}

ReadState Trainer::reader() const {
  return [this](const StateTensor& state, uint64_t offset, std::span<std::byte> to) {
    cluster_->read_state(state, offset, to);
  };
}

void Trainer::read_state(const std::string& name, std::span<std::byte> to) const {
  for (const auto& state : compiled_.states)
    if (state.name == name) return cluster_->read_state(state, 0, to);
  throw Error({.what = "the model has no state of this name", .found = "'" + name + "'"});
}

void Trainer::read_weight(const std::string& name, std::span<std::byte> to) const {
  const HeldForm form = held_form(preparation_.recipe);
  const std::span<float> values(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
  HeldBytes held;
  held.weight.resize(values.size() * size_of(form.dtype));
  read_state(name, held.weight);
  if (form.split) held.low.resize(values.size() * size_of(kU16)), read_state(low_half_of(name), held.low);
  release(held, form, values);
}

std::filesystem::path Trainer::save(const std::filesystem::path& folder, int64_t keep) const {
  CheckpointInfo info{.step = steps_done_,
                            .samples = steps_done_ * preparation_.samples_per_step(),
                            .recipe_hash = recipe_hash(preparation_.recipe).hex(),
                            .data_hash = preparation_.data_hash,
                            .kernel_class = kernel_class(),
                            .version = version(),
                            .weights_hash = "",
                            .loss_scale = {}};
  if (has_automatic_loss_scale()) info.loss_scale = loss_scale_;
  const SaveOptions options{.keep = static_cast<int>(keep > 0 ? keep : preparation_.recipe.train.checkpoint.keep)};
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

void Trainer::export_weights(const std::filesystem::path& path) const {
  check_exportable(preparation_.recipe, path.string());
  model::export_weights(path, preparation_.model.weights,
                        [this](const std::string& name, std::span<std::byte> bytes) { read_weight(name, bytes); });
}

std::string Trainer::weights_hash() const {
  const std::string hash = train::weights_hash(compiled_.states, reader()).hex();
  return cluster_->leads() ? hash : "";
}

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(middle), values.end());
  return values[middle];
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

}  // namespace

TrainingResult train(Trainer& trainer, const TrainingPlan& plan, TrainingObserver& observer) {
  const Recipe& recipe = trainer.preparation().recipe;
  const int64_t last = plan.stop_at > 0 ? plan.stop_at : recipe.train.steps;
  if (!trainer.preparation().train)
    throw Error({.what = "the task has no file to train on",
                 .where = recipe.where("task.kind"),
                 .remedy = "Set task.train, or name a folder that has it in task.data"});
  TrainingResult result;
  int64_t evaluated = -1, saved = -1;
  const bool task = trainer.preparation().task != nullptr;
  // Only the leading rank knows the metrics; what it decides is told to all.
  const auto keep_best = [&] {
    const Numbers& now = result.last_evaluation;
    const bool better =
        !now.empty() && (result.best_evaluation.empty() || now[0].second > result.best_evaluation[0].second);
    if (better) result.best_evaluation = now, result.best_steps = trainer.steps_done();
    const bool saves = trainer.any(better && !plan.best.empty());
    if (saves && trainer.steps_done() < last) trainer.save(plan.best, 1);
  };
  const auto evaluate = [&] {
    result.last_evaluation = trainer.evaluate();
    evaluated = trainer.steps_done();
    if (!result.last_evaluation.empty()) observer.on_evaluation(trainer.steps_done(), result.last_evaluation);
    if (task) keep_best();
  };
  const auto save = [&] {
    result.checkpoint = trainer.save(plan.checkpoints);
    saved = trainer.steps_done();
    observer.on_checkpoint(trainer.steps_done(), result.checkpoint);
  };
  // All ranks stop after the same step, whichever of them was told.
  const auto stopped = [&] { return trainer.any(plan.stop && plan.stop->load()); };

  std::vector<double> seconds;
  if (trainer.steps_done() == 0 && !task) evaluate();
  while (trainer.steps_done() < last && !stopped()) {
    try {
      if (plan.check_every > 0 && (seconds.empty() || is_due(plan.check_every, trainer.steps_done() + 1)))
        observer.on_numerics(trainer.check_numerics());
      result.last_step = trainer.step();
    } catch (const Error&) {
      // Nothing that was learned is lost: the state before the bad step is saved, unless a device is lost and its part
      // with it.
      if (trainer.whole() && !trainer.cluster().stopped() && trainer.steps_done() > 0 && saved != trainer.steps_done())
        save();
      throw;
    }
    seconds.push_back(number_of(result.last_step, "step_seconds"));
    observer.on_step(trainer.steps_done(), result.last_step);
    if (is_due(recipe.train.evaluation.every, trainer.steps_done())) evaluate();
    if (is_due(recipe.train.checkpoint.every, trainer.steps_done())) save();
  }
  result.interrupted = trainer.steps_done() < last;
  if (evaluated != trainer.steps_done() && !result.interrupted) evaluate();
  if (saved != trainer.steps_done()) save();
  // The best is the last: one checkpoint of it is enough.
  if (!plan.best.empty() && result.best_steps == trainer.steps_done()) remove_folder(plan.best);
  result.steps = trainer.steps_done();
  if (seconds.size() > 1) seconds.erase(seconds.begin());  // the first step meets cold caches
  result.step_seconds = median(std::move(seconds));
  if (result.step_seconds > 0)
    result.tokens_per_second = static_cast<double>(trainer.preparation().tokens_per_step()) / result.step_seconds;
  return result;
}

}  // namespace ramet::train

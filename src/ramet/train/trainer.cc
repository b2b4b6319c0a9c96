#include "ramet/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/version.h"
#include "ramet/data/loader.h"
#include "ramet/kernel/kernel.h"
#include "ramet/model/hugging_face.h"
#include "ramet/runtime/process.h"
#include "ramet/train/initialize.h"
#include "ramet/train/schedule.h"
#include "ramet/train/step.h"

namespace ramet {
namespace {

constexpr int64_t kLeftToOthers = 8;  // one part in so many of the memory at hand, where a smaller program can spare it

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Adds up the results of micro-batches and tells them as metrics. Losses are means over the words that they count
/// ("X_loss" by "X_count", "loss" by "count" where there is one); "X_correct" and "X_count" make "X_accuracy".
class ResultSums {
 public:
  void add(std::span<const TensorView> results) {
    std::map<std::string, double> batch;
    for (const auto& result : results)
      if (result.type->shape.rank() == 0) batch[std::string(result.name)] = result.get();
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

CompileOptions compile_options(const Recipe& recipe, const TrainerOptions& options) {
  const Layout layout = parse_layout(recipe.layout, layout_source(recipe));
  CompileOptions result;
  result.threads = options.threads > 0 ? options.threads : layout.threads > 0 ? layout.threads : available_processors();
  result.device_memory = options.device_memory > 0 ? options.device_memory : layout.device_memory;
  if (layout.recompute) {
    result.recompute = *layout.recompute;
  } else if (recipe.train.recompute != "auto") {
    result.recompute = parse_recompute(recipe.train.recompute);
  } else if (result.device_memory > 0) {
    result.recompute.mode = RecomputeOptions::Mode::kFit;
    result.recompute.byte_limit = result.device_memory;
  }
  return result;
}

void refuse_several_devices(const Preparation& preparation) {
  if (preparation.layout.is_single()) return;
  throw Error({.what = "this version runs one device with all in its memory; other layouts can be planned only",
               .where = layout_source(preparation.recipe),
               .found = "'" + preparation.recipe.layout + "'",
               .expected = "p, t, r and phases of 1, and no offload",
               .remedy = "`ramet plan --layout` shows its schedule"});
}

Executable compile_step(const Preparation& preparation, const TrainerOptions& options) {
  CompileOptions compiling = compile_options(preparation.recipe, options);
  const StepGraph step = make_training_step(preparation.model, preparation.recipe);
  Executable executable = compile(step, cpu_backend(), compiling);
  const int64_t available = available_memory(), limit = available - available / kLeftToOthers;
  if (options.device_memory > 0 || executable.planned_bytes() <= limit) return executable;
  compiling.device_memory = limit;
  try {
    return compile(step, cpu_backend(), compiling);
  } catch (const Error&) {
    return executable;  // for a plan to show what is needed; to run it is refused with both sizes
  }
}

/// What the next steps read.
struct Trainer::Data {
  Data(const Preparation& preparation, int64_t step)
      : loader(preparation.train, step * preparation.samples_per_step(), preparation.recipe.train.micro_batch,
               static_cast<int>(preparation.recipe.data.prefetch)) {}
  Loader loader;
};

Trainer::Trainer(Preparation preparation, const TrainerOptions& options) : preparation_(std::move(preparation)) {
  refuse_several_devices(preparation_);
  const auto start = Clock::now();
  Executable executable = compile_step(preparation_, options);
  threads_ = executable.threads;
  compile_seconds_ = seconds_since(start);
  engine_ = std::make_unique<Engine>(std::move(executable), cpu_backend(), threads_);
  if (options.profile) engine_->profile(true);
}

Trainer::~Trainer() = default;

std::vector<StateTensor> Trainer::states() const {
  // Weights in canonical order, then the optimizer's: the order of the executable is the compiler's own business.
  std::vector<StateTensor> result = preparation_.model.weights;
  for (const auto& place : engine_->executable().states)
    if (place.tensor.kind == StateKind::kOptimizer) result.push_back(place.tensor);
  return result;
}

void Trainer::initialize() {
  const auto seed = static_cast<uint64_t>(preparation_.recipe.train.seed);
  ThreadTeam team(threads_);
  const std::string& file = preparation_.recipe.model.init_from;
  for (const auto& state : states()) {
    if (state.kind == StateKind::kWeight && !file.empty()) continue;
    engine_->fill_state(state.name, state.type,
                        [&](std::span<std::byte> bytes) { initialize_state(state, seed, bytes, team); });
  }
  const auto write = [&](const std::string& name, std::span<const std::byte> bytes) {
    engine_->write_state(
        name, engine_->executable().states[static_cast<size_t>(engine_->executable().find_state(name))].tensor.type,
        bytes.data());
  };
  if (!file.empty() && std::filesystem::is_directory(file))
    Checkpoint(file).load(preparation_.model.weights, [&](const StateTensor& state, std::span<const std::byte> bytes) {
      write(state.name, bytes);
    });
  else if (!file.empty())
    import_weights(file, preparation_.model.weights, write);
  engine_->run_derive();
  steps_done_ = 0;
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
  checkpoint.load(states(), [&](const StateTensor& state, std::span<const std::byte> bytes) {
    engine_->write_state(state.name, state.type, bytes.data());
  });
  engine_->run_derive();
  steps_done_ = info.step;
  whole_ = true;
  data_.reset();
  std::string warnings;
  const std::string& kernels = engine_->executable().kernel_class;
  if (info.kernel_class != kernels)
    warnings += "the checkpoint was made with kernels of class " + info.kernel_class + ", this is " + kernels +
                ": the run goes on, but its bits are not those of an unbroken run\n";
  if (info.version != version())
    warnings += "the checkpoint was made by Ramet " + info.version + ", this is " + version() + "\n";
  return warnings;
}

Feed Trainer::feed_of(const std::vector<Batch>& batches) const {
  const int64_t per_lane = engine_->executable().micro_batches_per_lane;
  return [this, &batches, per_lane](int64_t lane, int64_t micro, FeedSink& sink) {
    put_batch(batches[static_cast<size_t>(lane * per_lane + micro)], engine_->executable(), false, sink);
  };
}

std::vector<ScalarValue> Trainer::scalars_of(int64_t step) const {
  const Recipe& recipe = preparation_.recipe;
  const std::vector<ScalarValue> all = {{"learning_rate", learning_rate_at(recipe, step)},
                                        {"correction1", bias_correction(recipe.optimizer.beta1, step)},
                                        {"correction2", bias_correction(recipe.optimizer.beta2, step)}};
  std::vector<ScalarValue> wanted;
  const Executable& exe = engine_->executable();
  for (const auto& scalar : all)
    if (exe.has_scalar(scalar.name)) wanted.push_back(scalar);
  return wanted;
}

Numbers Trainer::step() {
  if (!data_) data_ = std::make_unique<Data>(preparation_, steps_done_);
  const auto start = Clock::now();
  const double waited_before = data_->loader.waited_seconds();
  std::vector<Batch> batches;
  for (int64_t i = 0; i < preparation_.recipe.train.accumulation; ++i) batches.push_back(data_->loader.next());
  const double waited = data_->loader.waited_seconds() - waited_before;
  const StepResults& results = engine_->run_step(steps_done_, feed_of(batches), scalars_of(steps_done_));
  if (!results.not_finite.empty()) {
    whole_ = whole_ && !results.states_changed;
    data_.reset();
    fail_not_finite(results.not_finite, batches);
  }
  ResultSums sums;
  for (int64_t i = 0; i < results.micro_batches(); ++i) sums.add(results.micro(i));
  Numbers numbers = sums.numbers(false);
  if (const TensorView* norm = results.find("grad_norm")) numbers.emplace_back("grad_norm", norm->get());
  numbers.emplace_back("learning_rate", learning_rate_at(preparation_.recipe, steps_done_));
  const double seconds = seconds_since(start);
  numbers.emplace_back("step_seconds", seconds);
  numbers.emplace_back("tokens_per_second", static_cast<double>(preparation_.tokens_per_step()) / seconds);
  numbers.emplace_back("data_seconds", waited);
  ++steps_done_;
  return numbers;
}

void Trainer::fail_not_finite(const std::string& result, const std::vector<Batch>& batches) {
  const auto first = engine_->find_first_nonfinite(steps_done_, feed_of(batches), scalars_of(steps_done_));
  std::string remedy = "Lower train.schedule.learning_rate, lengthen its warm-up or set train.clip_norm";
  if (preparation_.recipe.train.precision == "f16") remedy += "; with f16 also try another train.loss_scale, or bf16";
  throw Error(
      {.what = "'" + result + "' is not finite",
       .where = "step " + std::to_string(steps_done_ + 1),
       .found = first ? first->text()
                      : "no node that made a NaN or an infinity from finite numbers when the step was run again",
       .remedy = remedy},
      ErrorKind::kFailure);
}

Numbers Trainer::evaluate() {
  int64_t batches = preparation_.recipe.evaluation.batches;
  const int64_t micro_batch = preparation_.recipe.train.micro_batch;
  if (!preparation_.held_out || batches == 0) return {};
  // Every held-out sample at most once, as far as whole batches go.
  if (preparation_.held_out_samples > 0)
    batches = std::min(batches, std::max<int64_t>(1, preparation_.held_out_samples / micro_batch));
  Loader loader(preparation_.held_out, 0, micro_batch, 2, batches);
  const Executable& exe = engine_->executable();
  ResultSums sums;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = loader.next();
    sums.add(engine_->evaluate([&](int64_t, int64_t, FeedSink& sink) { put_batch(batch, exe, true, sink); }));
  }
  Numbers numbers = sums.numbers(true);
  if (preparation_.recipe.model.kind == "gpt2")
    numbers.emplace_back("perplexity", std::exp(number_of(numbers, "loss")));
  return numbers;
}

void Trainer::read_state(const StateTensor& state, uint64_t offset, std::span<std::byte> to) const {
  std::memcpy(to.data(), engine_->state(state.name).data + offset, to.size());
}

std::filesystem::path Trainer::save(const std::filesystem::path& folder) const {
  const CheckpointInfo info{.step = steps_done_,
                            .samples = steps_done_ * preparation_.samples_per_step(),
                            .recipe_hash = recipe_hash(preparation_.recipe).hex(),
                            .data_hash = preparation_.data_hash,
                            .kernel_class = engine_->executable().kernel_class,
                            .version = version(),
                            .weights_hash = ""};
  return save_checkpoint(
      folder, info, states(),
      [this](const auto& state, uint64_t offset, std::span<std::byte> to) { read_state(state, offset, to); },
      {.keep = static_cast<int>(preparation_.recipe.checkpoint.keep)});
}

void Trainer::export_weights(const std::filesystem::path& path) const {
  ramet::export_weights(path, preparation_.model.weights, [this](const std::string& name, std::span<std::byte> bytes) {
    engine_->read_state(name, bytes);
  });
}

std::string Trainer::weights_hash() const {
  return ramet::weights_hash(states(), [this](const auto& state, uint64_t offset,
                                              std::span<std::byte> to) { read_state(state, offset, to); })
      .hex();
}

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(middle), values.end());
  return values[middle];
}

bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

}  // namespace

TrainingResult train(Trainer& trainer, const TrainingPlan& plan, TrainingObserver& observer) {
  const Recipe& recipe = trainer.preparation().recipe;
  const int64_t last = plan.stop_at > 0 ? plan.stop_at : recipe.train.steps;
  TrainingResult result;
  int64_t evaluated = -1, saved = -1;
  const auto evaluate = [&] {
    result.last_evaluation = trainer.evaluate();
    evaluated = trainer.steps_done();
    if (!result.last_evaluation.empty()) observer.on_evaluation(trainer.steps_done(), result.last_evaluation);
  };
  const auto save = [&] {
    result.checkpoint = trainer.save(plan.checkpoints);
    saved = trainer.steps_done();
    observer.on_checkpoint(trainer.steps_done(), result.checkpoint);
  };
  const auto stopped = [&] { return plan.stop && plan.stop->load(); };

  std::vector<double> seconds;
  if (trainer.steps_done() == 0) evaluate();
  while (trainer.steps_done() < last && !stopped()) {
    try {
      result.last_step = trainer.step();
    } catch (const Error&) {
      // Nothing that was learned is lost: the state before the bad step is saved.
      if (trainer.whole() && trainer.steps_done() > 0 && saved != trainer.steps_done()) save();
      throw;
    }
    seconds.push_back(number_of(result.last_step, "step_seconds"));
    observer.on_step(trainer.steps_done(), result.last_step);
    if (is_due(recipe.evaluation.every, trainer.steps_done())) evaluate();
    if (is_due(recipe.checkpoint.every, trainer.steps_done())) save();
  }
  result.interrupted = stopped() && trainer.steps_done() < last;
  if (evaluated != trainer.steps_done() && !result.interrupted) evaluate();
  if (saved != trainer.steps_done()) save();
  result.steps = trainer.steps_done();
  if (seconds.size() > 1) seconds.erase(seconds.begin());  // the first step meets cold caches
  result.step_seconds = median(std::move(seconds));
  if (result.step_seconds > 0)
    result.tokens_per_second = static_cast<double>(trainer.preparation().tokens_per_step()) / result.step_seconds;
  return result;
}

}  // namespace ramet

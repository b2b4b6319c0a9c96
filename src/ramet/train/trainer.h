#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/program/compile.h"
#include "ramet/runtime/engine.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/prepare.h"

namespace ramet {

/// Named numbers, in the order in which they are shown.
using Numbers = std::vector<std::pair<std::string, double>>;
/// The number of that name, or NaN.
double number_of(const Numbers& numbers, const std::string& name);

/// How and where to run: nothing here changes a bit of any weight.
struct TrainerOptions {
  int threads = 0;            ///< 0: all available processors
  int64_t device_memory = 0;  ///< bytes that the program may take; 0: no limit
  bool profile = false;
};

/// A recipe compiled and in memory, ready to train, to evaluate, to save and to go on.
class Trainer {
 public:
  /// Compiles the recipe and takes all memory. Weights are not set yet.
  Trainer(Preparation preparation, const TrainerOptions& options);
  ~Trainer();

  /// Random weights (or those of model.init_from), optimizer states of zero; step 0.
  void initialize();
  /// Goes to where a checkpoint stands. Throws Error when it is of another recipe or other data; returns warnings
  /// (another kernel class or version), one a line.
  std::string restore(const Checkpoint& checkpoint);
  /// One training step on the next samples. Metrics: loss, its parts and accuracies, grad_norm, learning_rate,
  /// step_seconds, tokens_per_second, data_seconds (waited for data). When a number is not finite, throws Error
  /// (kFailure) naming the first node that made one; the weights stay those before the step where that is possible
  /// (`whole`).
  Numbers step();
  /// Loss, its parts and accuracies over the recipe's held-out batches, each weighted by the words it counts;
  /// "perplexity" for gpt2. Empty when nothing is held out.
  Numbers evaluate();
  /// Saves a checkpoint; returns its path.
  std::filesystem::path save(const std::filesystem::path& folder) const;
  /// Weights with Hugging Face's names, as one file.
  void export_weights(const std::filesystem::path& path) const;

  int64_t steps_done() const { return steps_done_; }
  bool whole() const { return whole_; }  ///< false once a step failed after it had begun to change states
  const Preparation& preparation() const { return preparation_; }
  const Executable& executable() const { return engine_->executable(); }
  Engine& engine() { return *engine_; }
  double compile_seconds() const { return compile_seconds_; }
  std::string weights_hash() const;

 private:
  struct Data;
  Feed feed_of(const std::vector<Batch>& batches) const;
  std::vector<ScalarValue> scalars_of(int64_t step) const;
  void read_state(const StateTensor& state, uint64_t offset, std::span<std::byte> to) const;
  [[noreturn]] void fail_not_finite(const std::string& result, const std::vector<Batch>& batches);
  std::vector<StateTensor> states() const;

  Preparation preparation_;
  int threads_;
  double compile_seconds_ = 0;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Data> data_;
  int64_t steps_done_ = 0;
  bool whole_ = true;
};

/// The compile options that a recipe, its layout and a command line mean together: the command line overrules the
/// layout, the layout the recipe.
CompileOptions compile_options(const Recipe& recipe, const TrainerOptions& options);
/// Throws Error for layouts that need more than one device's program: these can be planned, not yet run.
void refuse_several_devices(const Preparation& preparation);

/// The training step of a recipe, compiled for this machine. When no limit is given and the program would take nearly all
/// memory at hand or more, it is compiled once more for a little less than there is; the first is returned where that is not possible.
Executable compile_step(const Preparation& preparation, const TrainerOptions& options);

/// Hears what a training run does; all calls come from the training thread.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void on_step(int64_t steps_done, const Numbers& metrics) = 0;
  virtual void on_evaluation(int64_t steps_done, const Numbers& metrics) = 0;
  virtual void on_checkpoint(int64_t steps_done, const std::filesystem::path& path) = 0;
};

struct TrainingPlan {
  int64_t stop_at = 0;                      ///< steps in all; the recipe's where 0
  std::filesystem::path checkpoints;        ///< folder
  const std::atomic<bool>* stop = nullptr;  ///< set: finish the step, save, and end
};

struct TrainingResult {
  int64_t steps = 0;
  Numbers last_step, last_evaluation;
  double step_seconds = 0;       ///< median; without the first step where there are more
  double tokens_per_second = 0;  ///< at the median step
  bool interrupted = false;
  std::filesystem::path checkpoint;
};

/// The training loop: evaluate, step, evaluate and save as the recipe says, until done or stopped.
TrainingResult train(Trainer& trainer, const TrainingPlan& plan, TrainingObserver& observer);

}  // namespace ramet

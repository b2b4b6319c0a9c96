#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/runtime/cluster.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/compile_recipe.h"
#include "ramet/train/loss_scale.h"
#include "ramet/train/numerics.h"

namespace ramet::train {

class TaskPredictor;

/// Named numbers, in the order in which they are shown.
using Numbers = NamedNumbers;
/// The number of that name, or NaN.
double number_of(const Numbers& numbers, const std::string& name);

/// A recipe compiled for its layout and in memory, ready to train, to evaluate, to save and to go on. Under MPI every
/// rank has one, and all make the same calls in the same order; what they return is the same on all ranks but for
/// times.
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
  /// step_seconds, tokens_per_second, real_tokens_per_second (bert's, without padding), data_seconds (waited for data), and with several stages bubble (share of their
  /// time in which they waited for each other). When a number is not finite, throws Error (kFailure) naming the first
  /// node that made one; the weights stay those before the step where that is possible
  /// (`whole`).
  /// With an automatic loss scale (train/loss_scale.h) there are loss_scale, skipped_steps and grad_underflow too, and a
  /// step whose gradients overflow is no error: it changes nothing but the scale, and counts as a step done.
  Numbers step();
  /// A task: its metrics on the file to evaluate on, the one that decides first, and the loss; on the leading rank,
  /// empty on others. Else: loss, its parts and accuracies over the recipe's held-out batches, each weighted by the words
  /// it counts; "perplexity" (bert: of the masked words). Empty when nothing is held out.
  Numbers evaluate();
  /// Runs the next step without changing anything, and looks at the exponents of weights, optimizer states, gradients
  /// and activations. Costs a step and reads every tensor once more.
  NumericsReport check_numerics();
  /// Saves a checkpoint; returns its path. With many ranks the leading one writes, what others hold comes to it in
  /// pieces. `keep` checkpoints stay in the folder; 0: as many as the recipe says.
  std::filesystem::path save(const std::filesystem::path& folder, int64_t keep = 0) const;
  /// Weights with Hugging Face's names, as one file.
  void export_weights(const std::filesystem::path& path) const;

  int64_t steps_done() const { return steps_done_; }
  const LossScale& loss_scale() const { return loss_scale_; }  ///< of the next step, where it is automatic
  bool whole() const { return whole_; }  ///< false once a step failed after it had begun to change states
  const Preparation& preparation() const { return preparation_; }
  const Cluster& cluster() const { return *cluster_; }
  const CompiledRecipe& compiled() const { return compiled_; }
  const std::string& kernel_class() const { return cluster_->stages()[0].kernel_class; }
  int threads() const { return threads_; }  ///< of all devices of this process
  /// Memory that all devices take, with streaming memory in RAM.
  int64_t planned_bytes() const { return planned_bytes_; }
  /// Bytes of a whole weight or optimizer state, by its logical name.
  void read_state(const std::string& name, std::span<std::byte> to) const;
  /// On the leading rank; others give an empty text.
  std::string weights_hash() const;
  /// Whether anyone of all ranks says yes.
  bool any(bool yes) const { return cluster_->any(yes); }

 private:
  struct Data;
  Numbers evaluate_task();
  ClusterFeed feed_of(const std::vector<Batch>& batches, bool evaluation) const;
  std::vector<ScalarValue> scalars_of(int64_t step) const;
  bool has_automatic_loss_scale() const { return preparation_.recipe.train.loss_scale.automatic; }
  void follow_loss_scale(const ClusterResults& results, bool overflows, Numbers& numbers);
  const std::vector<Batch>& next_batches();
  void write_initial(const StateTensor& state);
  /// Elements from `first` on of an f32 weight, as the recipe holds it.
  void write_weight(const StateTensor& weight, std::span<const float> values, int64_t first);
  void write_whole_weight(const StateTensor& weight, std::span<const std::byte> bytes);
  void read_weight(const std::string& name, std::span<std::byte> to) const;
  /// Brings what this process holds of `states` from a checkpoint: states as they are held, or f32 weights.
  void load(const Checkpoint& checkpoint, const std::vector<StateTensor>& states, bool as_held);
  /// For TrainerOptions::progress: what is about to be done for the states of this process, and that so many bytes of
  /// it are.
  void begin(std::string what, const std::vector<StateTensor>& states);
  void told(int64_t bytes);
  void write_state(const StateTensor& state, std::span<const std::byte> bytes);
  ReadState reader() const;
  [[noreturn]] void fail_not_finite(const std::string& result, const std::vector<Batch>& batches);

  Preparation preparation_;
  std::function<void(std::string_view, int64_t, int64_t)> progress_;
  std::string doing_;  ///< what `progress_` hears of
  int64_t done_bytes_ = 0, all_bytes_ = 0;
  int threads_ = 0;
  int64_t planned_bytes_ = 0;
  CompiledRecipe compiled_;  ///< without its stages, which the cluster has
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Data> data_;
  std::unique_ptr<TaskPredictor> task_;  ///< answers for the evaluation of a task; on the leading rank
  std::vector<Batch> next_;  ///< of the next step, where they have been looked at already
  int64_t steps_done_ = 0;
  LossScale loss_scale_;
  bool whole_ = true;
};

/// Hears what a training run does; all calls come from the training thread.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void on_step(int64_t steps_done, const Numbers& metrics) = 0;
  virtual void on_evaluation(int64_t steps_done, const Numbers& metrics) = 0;
  virtual void on_checkpoint(int64_t steps_done, const std::filesystem::path& path) = 0;
  virtual void on_numerics(const NumericsReport&) {}
};

struct TrainingPlan {
  int64_t stop_at = 0;                      ///< steps in all; the recipe's where 0
  std::filesystem::path checkpoints;        ///< folder
  std::filesystem::path best;               ///< folder for the one checkpoint of the best evaluation; empty: none
  const std::atomic<bool>* stop = nullptr;  ///< set: finish the step, save, and end
  int64_t check_every = 0;                  ///< check numerics before the first step and every so many; 0: never
};

struct TrainingResult {
  int64_t steps = 0;
  Numbers last_step, last_evaluation;
  double step_seconds = 0;       ///< median; without the first step where there are more
  double tokens_per_second = 0;  ///< at the median step
  bool interrupted = false;
  std::filesystem::path checkpoint;
  Numbers best_evaluation;     ///< of a task, evaluated more than once: the one with the best first metric
  int64_t best_steps = 0;      ///< and after how many steps it was
};

/// The training loop: evaluate, step, evaluate and save as the recipe says, until done or stopped. A task is not
/// evaluated before its first step; whenever its first metric is the best so far, a checkpoint goes to `plan.best`.
TrainingResult train(Trainer& trainer, const TrainingPlan& plan, TrainingObserver& observer);

}  // namespace ramet::train

#pragma once

#include <functional>
#include <map>
#include <stop_token>

#include "ramet/data.h"
#include "ramet/log.h"
#include "ramet/model.h"
#include "ramet/optimizer.h"

namespace ramet::v0 {

/// The type in which matrix products are computed. Weights and sums stay f32.
enum class Precision { kF32, kBF16, kF16, kF8 };

/// How a model is trained. The first group of options decides the numbers. The second decides where and when they are
/// computed, and changes no bit of a loss or a weight.
struct TrainOptions {
  // --- what decides the numbers ---
  Optimizer optimizer = AdamW{};
  std::vector<Group> groups{};
  Schedule schedule{};
  Precision precision = Precision::kF32;
  int64_t steps = 1000;       ///< of a whole run: end of the schedule and of `fit`
  int64_t micro_batches = 1;  ///< of a step; its gradient is the mean of theirs
  /// Gradients are `lanes` sums over micro-batches, and each product's contraction is `chunks` sums; balanced trees add
  /// them. Replicas (r) divide the lanes, tensor shards (t) the chunks: larger numbers allow more layouts and cost a
  /// little time. `lanes` must divide `micro_batches`.
  int64_t lanes = 1, chunks = 1;
  double max_gradient_norm = 0;    ///< gradients of a larger norm are scaled down to it; 0: never
  double loss_scale = 1;           ///< factor on the loss before differentiation; 0: automatic (for kF16)
  bool loss_mean_of_step = false;  ///< the loss is the mean over all items of a step, not of its micro-batches' means
  Precision moments = Precision::kF32;  ///< of the optimizer; kBF16 (SGD, Adam, LAMB): rounded stochastically
  uint64_t seed = 0;                    ///< of initial weights and dropout

  // --- where and when ---
  std::string layout{};       ///< such as "p=2 phases=2 offload=optimizer" (docs/layouts.md); "": one device
  int threads = 0;            ///< of all devices together; 0: as the layout says, else all processors
  int64_t device_memory = 0;  ///< bytes that each device may use; 0: what is available
  /// Where device_memory is 0: this share (of 1) of the bytes that a device would use without a limit, or the fewest
  /// for which activations that are computed again take up to a twelfth of the time of both passes. 0: no limit.
  double device_memory_share = 0;
  std::string device{};  ///< kind of devices, such as "cpu"; "": the default

  /// Each weight is updated as soon as its gradient is there, so gradients are not all in memory at once. Needs one
  /// micro-batch a step, no max_gradient_norm and a fixed loss_scale. A step with a gradient that is not finite then
  /// leaves weights of both steps: go on from a checkpoint.
  bool update_in_backward = false;

  // --- for `fit` ---
  int64_t evaluate_every = 0, save_every = 0;  ///< steps; 0: at the end. Step 0 is evaluated too
  int64_t evaluation_batches = 0;              ///< most micro-batches of held-out samples; 0: all
  int64_t keep = 2;                            ///< number of checkpoints to keep
};

/// Metrics or scalar results by name, in the order of declaration (but "loss" first).
class RAMET_API Metrics {
 public:
  Metrics() = default;
  explicit Metrics(std::vector<std::pair<std::string, double>> all) : all_(std::move(all)) {}
  /// The number of that name; NaN when it is not defined. Throws Error, with the known names, when there is none.
  double operator[](std::string_view name) const;
  bool has(std::string_view name) const;
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  bool empty() const { return all_.empty(); }

 private:
  std::vector<std::pair<std::string, double>> all_;
};

/// The result of a step.
struct StepResult {
  int64_t step = 0;  ///< steps done, including this one
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double seconds = 0;
  bool skipped = false;  ///< gradients overflowed under an automatic loss scale: no weight changed
  Metrics metrics;       ///< of the model
  /// Those that the model was asked for (TorchModule::step_outputs), computed before the update: the samples of the
  /// step in order; of an output without samples an entry for each micro-batch, where there are several. Empty after a
  /// step that was skipped.
  Arrays outputs{};
};

/// Learning rates of one step, instead of the schedule's.
struct StepOptions {
  std::optional<double> rate{};
  std::map<std::string, double> group_rates{};  ///< by group name
};

/// What `fit` does besides training. An exception of a callback ends `fit` after the step; `fit` then rethrows it.
struct FitOptions {
  int64_t until_step = 0;     ///< last step to run; 0: TrainOptions::steps
  std::string checkpoints{};  ///< folder to save checkpoints in; "": nothing is saved
  std::stop_token stop{};     ///< on request, `fit` finishes the step, saves and returns
  std::function<void(const StepResult&)> on_step{};
  std::function<void(int64_t step, const Metrics&)> on_evaluation{};
  /// Gets the numbers of every step and evaluation, and the files of the plan (docs/runs.md). The program may log to it
  /// as well; it outlives `fit`, and does not end with it.
  Run* run = nullptr;
};

struct FitResult {
  int64_t steps = 0;        ///< steps done in all
  bool stopped = false;     ///< ended early, by FitOptions::stop
  Metrics last_evaluation;  ///< on held-out samples
  std::string checkpoint;   ///< path of the last one; "": none
};

/// The memory of a compiled training.
struct MemoryPlan {
  std::vector<int64_t> device_bytes{};  ///< of one device of each pipeline stage
  int64_t streaming_bytes = 0;          ///< of all devices together, in host memory or files
  std::string text{};                   ///< for people
  std::string svg{};                    ///< a picture: the memory of each stage over the time of a step
};

/// A model compiled for a layout and in memory, with its initial weights. Evaluation and prediction change no weight.
/// Only one thread at a time may call it.
class RAMET_API Training {
 public:
  /// Compiles the model and allocates all memory. Without `train`, the caller passes samples to step(). Throws Error
  /// when the layout does not fit the model, or the program does not fit in memory; the message then says which parts
  /// need how much.
  Training(const Model& model, const TrainOptions& options, const Data& train = {}, const Data& held_out = {});
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  /// Samples of a step: Model::micro_batch times TrainOptions::micro_batches.
  int64_t samples_per_step() const;
  int64_t steps_done() const;

  /// One step on these samples: samples_per_step() for each input. Only for a Training without training data. Throws
  /// Error, and changes no weight, when the arrays do not match the inputs and when the loss is not finite.
  StepResult step(const NamedViews& samples, const StepOptions& options = {});
  /// One step on the next samples of the training data; throws Error when there is none.
  StepResult step(const StepOptions& options = {});
  /// Runs steps, evaluations and checkpoints until the end, or until it is stopped. Needs training data.
  FitResult fit(const FitOptions& options = {});

  /// The model's metrics, without dropout, on the held-out data or on these samples (whole micro-batches).
  Metrics evaluate();
  Metrics evaluate(const NamedViews& samples);
  /// The model's outputs for any number of samples, in the order of the samples. Inputs that the outputs do not depend
  /// on may be left out.
  Arrays predict(const NamedViews& samples);
  /// Runs a program on request on whole micro-batches of samples; without samples once, when it has no inputs.
  Arrays run(const std::string& program, const NamedViews& samples = {});
  /// The scalar results that a program of each_steps() had in the last step; empty when it did not run in that step.
  Metrics results(const std::string& program) const;

  /// Saves all that training needs to resume as FOLDER/step-NNNNNNNN, whole or not at all. Returns the path.
  std::string save(const std::string& folder);
  /// Resumes from a checkpoint of any layout: a path that save() returned, or the newest one in a folder that save()
  /// was given. Throws Error for another model or other data. Returns warnings, one a line.
  std::string restore(const std::string& checkpoint);

  /// Gets or sets the numbers of a weight, row-major. Throws Error for an unknown name or a wrong number of elements.
  std::vector<float> weight(const std::string& name) const;
  void set_weight(const std::string& name, std::span<const float> numbers);
  /// Names of all states that a checkpoint holds: weights, statistics, memories, patterns, and "optimizer.NAME.WEIGHT"
  /// for each weight that is trained (docs/optimizers.md).
  std::vector<std::string> states() const;
  /// Gets the numbers of a state, or sets those of some; weights are f32, however they are held. Error for an unknown
  /// name and for numbers of another type or number; no state is set then.
  Array state(const std::string& name) const;
  void set_states(const NamedViews& states);
  /// Continues as after this many steps: bias corrections, the schedule and random numbers follow the number of steps.
  void set_steps_done(int64_t steps);
  /// Writes all weights to one safetensors file.
  void save_weights(const std::string& path) const;
  /// Reads weights from a file (safetensors or PyTorch) with the model's names and shapes.
  void load_weights(const std::string& path);
  /// Hash of all learned states. Equal bits give equal hashes, on any layout.
  std::string weights_hash() const;

  /// What each device of the compiled program holds in memory, as text.
  std::string plan() const;
  /// The same, as numbers and as a picture, too.
  MemoryPlan memory() const;
  const Model& model() const;
  const TrainOptions& options() const;

 private:
  struct RAMET_PRIVATE State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0

#pragma once

#include <functional>
#include <map>
#include <stop_token>

#include "ramet/data.h"
#include "ramet/log.h"
#include "ramet/model.h"
#include "ramet/optimizer.h"

namespace ramet::v0 {

/// In which type products are computed; weights stay f32, and so do sums.
enum class Precision { kF32, kBF16, kF16, kF8 };

/// How a model is trained. The first table decides the numbers, the second where and when they are computed: nothing in
/// it changes a bit of a loss or a weight.
struct TrainOptions {
  // --- what decides the numbers ---
  Optimizer optimizer = AdamW{};
  std::vector<Group> groups{};
  Schedule schedule{};
  Precision precision = Precision::kF32;
  int64_t steps = 1000;       ///< of a whole run: the schedule's end, and that of `fit`
  int64_t micro_batches = 1;  ///< of a step: gradients are their mean
  /// Sums that a step's micro-batches, and the contraction of each product, are made of; balanced trees join them.
  /// Replicas (r) share lanes and tensor shards (t) share chunks: more of them let in more layouts, and cost a little.
  int64_t lanes = 1, chunks = 1;
  double max_gradient_norm = 0;  ///< longer gradients are shortened to this norm; 0: never
  double loss_scale = 1;         ///< of the loss before it is differentiated; 0: found while training (for kF16)
  bool loss_mean_of_step =
      false;          ///< the loss is the mean over all items of a step, not the mean of micro-batches' means
  uint64_t seed = 0;  ///< of first weights and of dropout

  // --- where and when ---
  std::string layout{};       ///< docs/layouts.md: "p=2 phases=2 offload=optimizer"; "": one device
  int threads = 0;            ///< of all devices together; 0: the layout's, or all processors
  int64_t device_memory = 0;  ///< bytes that each device may take; 0: what there is
  std::string device{};       ///< kind of the devices: "cpu"; "": the default

  // --- for `fit` ---
  int64_t evaluate_every = 0, save_every = 0;  ///< steps; 0: at the end alone
  int64_t evaluation_batches = 0;              ///< micro-batches of held-out samples, at most; 0: all
  int64_t keep = 2;                            ///< checkpoints that are kept
};

/// Numbers by name, in the order in which the model declares them.
class RAMET_API Metrics {
 public:
  Metrics() = default;
  explicit Metrics(std::vector<std::pair<std::string, double>> all) : all_(std::move(all)) {}
  /// The number of that name; throws Error naming those there are. NaN: not defined.
  double operator[](std::string_view name) const;
  bool has(std::string_view name) const;
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  bool empty() const { return all_.empty(); }

 private:
  std::vector<std::pair<std::string, double>> all_;
};

/// What a step gave.
struct StepResult {
  int64_t step = 0;  ///< steps done with this one
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double seconds = 0;
  bool skipped = false;  ///< gradients overflowed under a loss scale that is being found: nothing changed
  Metrics metrics;       ///< the model's
};

/// Rates of one step, instead of the schedule's.
struct StepOptions {
  std::optional<double> rate{};
  std::map<std::string, double> group_rates{};  ///< by name of the group
};

/// What `fit` does beside training. What a callback throws ends `fit` after the step, and is thrown by it.
struct FitOptions {
  int64_t until_step = 0;     ///< 0: TrainOptions::steps
  std::string checkpoints{};  ///< folder that is saved to; "": nothing is saved
  std::stop_token stop{};     ///< asked: the step is finished, saved, and `fit` returns
  std::function<void(const StepResult&)> on_step{};
  std::function<void(int64_t step, const Metrics&)> on_evaluation{};
  /// Gets the numbers of every step and evaluation, and the files of the plan (docs/runs.md). The program may log to it
  /// as well; it outlives `fit`, and does not end with it.
  Run* run = nullptr;
};

struct FitResult {
  int64_t steps = 0;        ///< done in all
  bool stopped = false;     ///< by FitOptions::stop
  Metrics last_evaluation;  ///< of held-out samples
  std::string checkpoint;   ///< the last one; "": none
};

/// A model compiled for a layout and in memory, with drawn weights. A step changes weights, and nothing else does.
/// One thread at a time calls it.
class RAMET_API Training {
 public:
  /// Compiles and takes all memory. `train` and `held_out` may be empty: then steps get their samples from the caller.
  /// Throws Error when the layout does not fit the model, or the program does not fit in memory: with what needs how
  /// much.
  Training(const Model& model, const TrainOptions& options, const Data& train = {}, const Data& held_out = {});
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  /// Samples of a step: those of a micro-batch times micro-batches.
  int64_t samples_per_step() const;
  int64_t steps_done() const;

  /// One step on these samples, samples_per_step() of each input. Throws Error, and changes nothing, for arrays that
  /// are not what the model reads and when the loss is not finite.
  StepResult step(const NamedViews& samples, const StepOptions& options = {});
  /// One step on the next samples of the training data.
  StepResult step(const StepOptions& options = {});
  /// Steps, evaluations and checkpoints, to the end or until it is stopped.
  FitResult fit(const FitOptions& options = {});

  /// The model's metrics without dropout: on the held-out data, or on these samples (whole micro-batches of them).
  Metrics evaluate();
  Metrics evaluate(const NamedViews& samples);
  /// The model's outputs for any number of samples, in their order.
  Arrays predict(const NamedViews& samples);
  /// A program on request, by name, on whole micro-batches of samples (none: once, for a program without inputs).
  Arrays run(const std::string& program, const NamedViews& samples = {});
  /// The scalars that a program which runs in steps gave in the last step; empty where it did not run.
  Metrics results(const std::string& program) const;

  /// Saves all that training needs to go on to FOLDER/step-NNNNNNNN, whole or not at all; returns its path.
  std::string save(const std::string& folder);
  /// Goes to where a checkpoint stands: a folder that save() returned, or the newest in a folder that save() was given.
  /// It may come from any layout. Returns warnings, one a line.
  std::string restore(const std::string& checkpoint);

  /// A weight's numbers, and other ones for it.
  std::vector<float> weight(const std::string& name) const;
  void set_weight(const std::string& name, std::span<const float> numbers);
  /// All weights as one file of safetensors.
  void save_weights(const std::string& path) const;
  /// Weights of a file (safetensors, or what PyTorch saves) with the model's names and shapes.
  void load_weights(const std::string& path);
  /// Hash of all that the model has learned: equal for equal bits, whatever the layout.
  std::string weights_hash() const;

  /// What each device holds, by the compiled program, as text.
  std::string plan() const;
  const Model& model() const;
  const TrainOptions& options() const;

 private:
  struct RAMET_PRIVATE State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::train {

/// A number, the word "auto", or neither yet.
struct NumberOrAuto {
  std::optional<double> number;
  bool automatic = false;

  bool empty() const { return !number && !automatic; }
  friend bool operator==(const NumberOrAuto&, const NumberOrAuto&) = default;
};

/// How an update is made of gradients; docs/optimizers.md says what each number does.
struct OptimizerOptions {
  std::string kind = "adamw", state = "f32";
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01, momentum = 0.9;
  bool nesterov = false, in_backward = false, bias_correction = true;
  std::string trust = "all";
  double weight_norm_cap = 0, trust_coefficient = 1e-3;
  bool factored = true, relative_step = false, scale_parameter = true, first_moment = false;
  std::optional<double> rate_decay, first_sum;  ///< absent: 0
  double clip_threshold = 1, decay_rate = 0.8, square_epsilon = 1e-30, scale_epsilon = 1e-3;
};

/// Weights with options of their own (docs/optimizers.md). Unset options are those of all weights.
struct GroupOptions {
  std::string name;                     ///< in errors and of its scalars (train/step_scalars.h); "" takes "groupN"
  std::vector<std::string> weights;     ///< names of weights, or patterns: * stands for any text, ? for one character
  bool frozen = false;                  ///< not trained: no gradient, no states, and the bits that it began with
  std::optional<double> rate;           ///< factor of the learning rate
  std::optional<double> learning_rate;  ///< the highest, instead of the schedule's, whose end falls in proportion
  std::optional<double> weight_decay;   ///< of all weights of the group, also of biases and norms
  std::optional<double> beta1, beta2, epsilon, momentum;
  friend bool operator==(const GroupOptions&, const GroupOptions&) = default;
};

/// The learning rate of each step (train/learning_rate.h).
struct LearningRateOptions {
  std::string kind = "linear";
  double learning_rate = 1e-4, end = 0, power = 1;
  int64_t warmup_steps = 0;
  std::optional<int64_t> steps, warmup_samples, base_batch;
  std::optional<double> warmup_share;
  std::string scaling = "auto";
};

/// When the model is evaluated on held-out samples, and on how many micro-batches.
struct EvaluationOptions {
  int64_t every = 0, batches = 16;
};

/// When the run is saved, and how many checkpoints are kept.
struct CheckpointOptions {
  int64_t every = 0, keep = 2;
};

/// How a model is trained: all that decides the numbers of a run besides the model and its data, and when a run is
/// evaluated and saved. Nothing here knows where the model came from.
struct TrainOptions {
  int64_t seeds = 1;
  int64_t steps = 1000, micro_batch = 16, accumulation = 1, lanes = 1, chunks = 1, seed = 0;
  std::string precision = "bf16", bits = "exact", recompute = "none";
  std::string weights = "f32", accumulators = "f32";
  std::optional<int64_t> samples;  ///< the same as `steps`, which `complete_recipe` finds
  std::optional<double> epochs;    ///< likewise, by the corpus
  NumberOrAuto loss_scale;
  int64_t loss_scale_window = 200;
  double loss_scale_start = 65536;
  double clip_norm = 1.0;
  std::string sums = "auto";
  std::string scaling = "none";
  std::optional<double> residual_tau;
  double attention_multiplier = 1, residual_multiplier = 1, attention_residual_multiplier = 1, logits_multiplier = 1;
  /// How the loss of a step is averaged. "micro": the mean of its micro-batches' means. "step": the mean over all items
  /// of the step, each part of the loss by its own denominator (Metric::parts).
  std::string loss_mean = "micro";
  OptimizerOptions optimizer;
  std::vector<GroupOptions> groups;  ///< a weight belongs to the first that names it
  LearningRateOptions schedule;
  EvaluationOptions evaluation;
  CheckpointOptions checkpoint;
};

}  // namespace ramet::train

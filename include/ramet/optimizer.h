#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ramet/version.h"

namespace ramet::v0 {

// Optimizers; docs/optimizers.md explains each number. Weight decay applies to weights with WeightOptions::decays,
// unless a group sets it for its own weights.

struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  bool bias_correction = true;
};
/// Adam with L2: weight decay is a part of the gradient.
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool bias_correction = true;
};
struct Sgd {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
struct Lamb {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01;
  bool bias_correction = true;
};
struct Lars {
  double momentum = 0.9, weight_decay = 0, trust_coefficient = 1e-3;
};
struct Lion {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
struct Adafactor {
  double weight_decay = 0, clip_threshold = 1, decay_rate = 0.8;
  bool factored = true, relative_step = false, scale_parameter = true, first_moment = false;
};
/// PyTorch's RMSprop; `centered` divides by the root of a variance.
struct Rmsprop {
  double alpha = 0.99, epsilon = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
};
/// PyTorch's Adagrad: in step t the rate is divided by 1 + rate_decay (t - 1); sums of squares begin with `first_sum`.
struct Adagrad {
  double rate_decay = 0, first_sum = 0, epsilon = 1e-10, weight_decay = 0;
};
using Optimizer = std::variant<AdamW, Adam, Sgd, Lamb, Lars, Lion, Adafactor, Rmsprop, Adagrad>;

/// Weights with options of their own. Options that are not set stay those of all weights. A weight belongs to the first
/// group that names it.
struct Group {
  std::string name{};                    ///< for errors and StepOptions::group_rates; "": "groupN", from 1
  std::vector<std::string> weights{};    ///< names or patterns: * stands for any text, ? for one character
  bool frozen = false;                   ///< not trained: no gradient and no optimizer states
  std::optional<double> rate{};          ///< factor on the learning rate
  std::optional<double> weight_decay{};  ///< of all weights of the group, biases and norms included
  std::optional<double> beta1{}, beta2{}, epsilon{}, momentum{};
};

/// The learning rate of each step, unless the caller gives one. It rises linearly to `learning_rate` over the warm-up.
/// Then kConstant keeps it; the other kinds go to `end`, which they reach after `steps` steps.
struct Schedule {
  enum class Kind { kConstant, kLinear, kCosine, kPolynomial };
  Kind kind = Kind::kConstant;
  double learning_rate = 1e-3, end = 0, power = 1;
  int64_t warmup_steps = 0;
  int64_t steps = 0;  ///< length of the schedule; 0: TrainOptions::steps
};

}  // namespace ramet::v0

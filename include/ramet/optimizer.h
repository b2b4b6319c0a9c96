#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ramet/version.h"

namespace ramet::v0 {

// How an update is made of gradients; docs/optimizers.md says what each number does. Weight decay counts for the
// weights that decay (WeightOptions), unless a group says otherwise.

struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  bool bias_correction = true;
};
/// With weight decay in the gradient.
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
using Optimizer = std::variant<AdamW, Adam, Sgd, Lamb, Lars, Lion, Adafactor>;

/// Weights that are trained otherwise than the others. What is not set is as for all. A weight belongs to the first
/// group that names it.
struct Group {
  std::string name{};                    ///< in errors, and of its rate in StepOptions; "" takes "groupN"
  std::vector<std::string> weights{};    ///< names, or patterns: * stands for any text, ? for one character
  bool frozen = false;                   ///< not trained: no gradient and no states
  std::optional<double> rate{};          ///< factor of the learning rate
  std::optional<double> weight_decay{};  ///< of all weights of the group, also of biases and norms
  std::optional<double> beta1{}, beta2{}, epsilon{}, momentum{};
};

/// The learning rate of each step where the caller gives none: it climbs from 0 over the warm-up to `learning_rate`,
/// then falls to `end` by the last of `steps`.
struct Schedule {
  enum class Kind { kConstant, kLinear, kCosine, kPolynomial };
  Kind kind = Kind::kConstant;
  double learning_rate = 1e-3, end = 0, power = 1;
  int64_t warmup_steps = 0;
  int64_t steps = 0;  ///< that the schedule is made for; 0: TrainOptions::steps
};

}  // namespace ramet::v0

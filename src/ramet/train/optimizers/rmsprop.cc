#include "ramet/ops/build_elementwise.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

bool has_momentum(const OptimizerOptions& options, const StateTensor&) { return options.momentum != 0; }

/// The mean of values that a state keeps, with one more value.
Tensor mean_with(Tensor mean, Tensor value, double decay) { return add(scale(mean, decay), scale(value, 1 - decay)); }

/// PyTorch's formulas. A variance below 0 comes from rounding alone.
void build(WeightUpdate& update, bool centered) {
  const OptimizerOptions& options = update.options();
  const Tensor gradient = update.decayed_gradient(), weight = update.value(), square = update.state("v");
  const Tensor next_square = mean_with(square, multiply(gradient, gradient), options.beta2);
  Tensor mean, next_mean, variance = next_square;
  if (centered) {
    mean = update.state("mean");
    next_mean = mean_with(mean, gradient, options.beta2);
    variance = relu(subtract(next_square, multiply(next_mean, next_mean)));
  }
  Tensor move = divide(gradient, add_scalar(sqrt(variance), options.epsilon));
  const Tensor momentum = update.state("momentum");
  if (momentum.valid()) move = add(scale(momentum, options.momentum), move);
  std::map<std::string, Tensor> states = {{"v", update.unless_overflow(next_square, square)}};
  if (centered) states["mean"] = update.unless_overflow(next_mean, mean);
  if (momentum.valid()) states["momentum"] = update.unless_overflow(move, momentum);
  update.write(update.unless_overflow(subtract(weight, multiply(move, update.rate())), weight), states);
}

const OptimizerState kSquare = {.name = "v", .doc = "mean of squares of gradients", .narrow = false};
const OptimizerState kMomentum = {.name = "momentum", .doc = "unless momentum is 0", .kept = has_momentum};

}  // namespace

OptimizerDef rmsprop_optimizer() {
  return {.name = "rmsprop",
          .doc = "steps over the root of a mean of squares, by PyTorch's formulas; its alpha is beta2",
          .states = {kSquare, kMomentum},
          .works_in_f32 = true,
          .build = [](WeightUpdate& update) { build(update, false); }};
}

OptimizerDef centered_rmsprop_optimizer() {
  return {.name = "centered_rmsprop",
          .doc = "rmsprop over the root of a variance",
          .states = {kSquare, {.name = "mean", .doc = "mean of gradients", .narrow = false}, kMomentum},
          .works_in_f32 = true,
          .build = [](WeightUpdate& update) { build(update, true); }};
}

}  // namespace ramet::train

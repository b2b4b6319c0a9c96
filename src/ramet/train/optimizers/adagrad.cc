#include "ramet/ops/build_elementwise.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

void build(WeightUpdate& update) {
  const Tensor gradient = update.decayed_gradient(), weight = update.value(), sum = update.state("sum");
  const Tensor next_sum = add(sum, multiply(gradient, gradient));
  const Tensor rate = multiply(update.rate(), update.scalar("rate_factor"));
  const Tensor move = divide(multiply(gradient, rate), add_scalar(sqrt(next_sum), update.options().epsilon));
  update.write(update.unless_overflow(subtract(weight, move), weight),
               {{"sum", update.unless_overflow(next_sum, sum)}});
}

}  // namespace

OptimizerDef adagrad_optimizer() {
  return {.name = "adagrad",
          .doc = "steps over the root of the sum of all squares (Duchi et al. 2011), by PyTorch's formulas",
          .states = {{.name = "sum",
                      .doc = "sum of squares of gradients",
                      .narrow = false,
                      .first = [](const OptimizerOptions& options) { return options.first_sum.value_or(0); }}},
          .scalars = {{.name = "rate_factor",
                       .value =
                           [](const OptimizerOptions& options, int64_t updates) {
                             return 1 / (1 + static_cast<double>(updates) * options.rate_decay.value_or(0));
                           }}},
          .works_in_f32 = true,
          .keeps_untouched = [](const OptimizerOptions&) { return true; },
          .build = build};
}

}  // namespace ramet::train

#include "ramet/train/optimizers/moments.h"

#include "ramet/base/plain_math.h"
#include "ramet/ops/build_sparse.h"

namespace ramet::train {

std::vector<OptimizerState> two_moments() {
  return {{.name = "m", .doc = "mean of gradients"}, {.name = "v", .doc = "mean of their squares"}};
}

std::vector<OptimizerScalar> bias_corrections() {
  const auto correction1 = [](const OptimizerOptions& options, int64_t updates) {
    return options.bias_correction ? bias_correction(options.beta1, updates) : 1;
  };
  const auto correction2 = [](const OptimizerOptions& options, int64_t updates) {
    return options.bias_correction ? bias_correction(options.beta2, updates) : 1;
  };
  return {{.name = "correction1", .value = correction1}, {.name = "correction2", .value = correction2}};
}

void build_with_moments(WeightUpdate& update, AdamStep step, bool decoupled) {
  const OptimizerOptions& options = update.options();
  const Tensor m = update.state("m"), v = update.state("v");
  const AdamOptions adam_options{.beta1 = options.beta1,
                                 .beta2 = options.beta2,
                                 .epsilon = options.epsilon,
                                 .weight_decay = update.weight_decay(),
                                 .decoupled = decoupled,
                                 .norm_cap = options.weight_norm_cap};
  if (update.births().valid()) {
    const AdamResult next = adam_by_own_steps(update.value(), update.gradient(), m, v,
                                              {.births = update.births(),
                                               .updates = update.updates(),
                                               .rate = update.rate(),
                                               .grad_scale = update.grad_scale()},
                                              adam_options, update.form());
    return update.write(next.weight, {{"m", next.m}, {"v", next.v}}, next.low);
  }
  const AdamScalars scalars{.rate = update.rate(),
                            .correction1 = update.scalar("correction1"),
                            .correction2 = update.scalar("correction2"),
                            .grad_scale = update.grad_scale()};
  const AdamResult next = step(update.value(), update.gradient(), m, v, scalars, adam_options, update.form());
  update.write(next.weight, {{"m", next.m}, {"v", next.v}}, next.low);
}

}  // namespace ramet::train

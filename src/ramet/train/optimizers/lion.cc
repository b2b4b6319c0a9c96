#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

void build(WeightUpdate& update) {
  const OptimizerOptions& options = update.options();
  const LionResult next = lion(update.value(), update.gradient(), update.state("m"), update.rate(), update.grad_scale(),
                               {.beta1 = options.beta1, .beta2 = options.beta2, .weight_decay = update.weight_decay()});
  update.write(next.weight, {{"m", next.m}});
}

}  // namespace

OptimizerDef lion_optimizer() {
  return {.name = "lion",
          .doc = "steps by the sign of a mean of gradients (Chen et al., arXiv 2302.06675)",
          .states = {{.name = "m", .doc = "mean of gradients"}},
          .works_in_f32 = true,
          .build = build};
}

}  // namespace ramet::train

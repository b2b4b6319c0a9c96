#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

bool has_momentum(const OptimizerOptions& options, const StateTensor&) { return options.momentum != 0; }

void build(WeightUpdate& update) {
  const OptimizerOptions& options = update.options();
  const Tensor momentum = update.state("momentum");
  const SgdResult next =
      sgd(update.value(), update.gradient(), momentum, update.rate(), update.grad_scale(),
          {.momentum = options.momentum, .weight_decay = update.weight_decay(), .nesterov = options.nesterov},
          update.form());
  update.write(next.weight, {{"momentum", next.momentum}}, next.low);
}

}  // namespace

OptimizerDef sgd_optimizer() {
  return {.name = "sgd",
          .doc = "gradient descent with momentum, by PyTorch's formulas",
          .states = {{.name = "momentum", .doc = "unless momentum is 0", .kept = has_momentum}},
          .wants_true_size = true,
          .keeps_untouched = [](const OptimizerOptions& options) { return options.momentum == 0; },
          .build = build};
}

}  // namespace ramet::train

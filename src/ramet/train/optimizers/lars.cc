#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

bool has_momentum(const OptimizerOptions& options, const StateTensor&) { return options.momentum != 0; }

void build(WeightUpdate& update) {
  const OptimizerOptions& options = update.options();
  const Tensor momentum = update.state("momentum");
  const SgdResult next = lars(update.value(), update.gradient(), momentum, update.rate(), update.grad_scale(),
                              {.momentum = options.momentum,
                               .weight_decay = update.weight_decay(),
                               .trust_coefficient = update.is_of_decay() ? options.trust_coefficient : 0,
                               .norm_cap = options.weight_norm_cap});
  update.write(next.weight, {{"momentum", next.momentum}});
}

}  // namespace

OptimizerDef lars_optimizer() {
  return {.name = "lars",
          .doc = "momentum with steps as long as each weight's norm says (You et al., arXiv 1708.03888)",
          .states = {{.name = "momentum", .doc = "unless momentum is 0", .kept = has_momentum}},
          .works_in_f32 = true,
          .wants_true_size = true,
          .proportional = [](const OptimizerOptions&) { return true; },
          .build = build};
}

}  // namespace ramet::train

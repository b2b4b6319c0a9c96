#include "ramet/train/optimizers/moments.h"

namespace ramet::train {
namespace {

void build(WeightUpdate& update) {
  const bool adapts = update.options().trust == "all" || update.is_of_decay();
  build_with_moments(update, adapts ? lamb : adam, true);
}

}  // namespace

OptimizerDef lamb_optimizer() {
  return {.name = "lamb",
          .doc = "Adam with steps as long as each weight's norm says (You et al., arXiv 1904.00962)",
          .states = two_moments(),
          .scalars = bias_corrections(),
          .root_of_batch = true,
          .proportional = [](const OptimizerOptions&) { return true; },
          .build = build};
}

}  // namespace ramet::train

#include "ramet/train/optimizers/moments.h"

namespace ramet::train {

OptimizerDef adamw_optimizer() {
  return {.name = "adamw",
          .doc = "Adam with weight decay apart from the gradient (Loshchilov and Hutter, arXiv 1711.05101)",
          .states = two_moments(),
          .scalars = bias_corrections(),
          .fits_u_mup = true,
          .own_steps = true,
          .build = [](WeightUpdate& update) { build_with_moments(update, adam, true); }};
}

}  // namespace ramet::train

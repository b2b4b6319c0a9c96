#include "ramet/train/optimizers/moments.h"

namespace ramet::train {

OptimizerDef adam_optimizer() {
  return {.name = "adam",
          .doc = "Adam (Kingma and Ba, arXiv 1412.6980), weight decay in the gradient",
          .states = two_moments(),
          .scalars = bias_corrections(),
          .wants_true_size = true,
          .fits_u_mup = true,
          .own_steps = true,
          .build = [](WeightUpdate& update) { build_with_moments(update, adam, false); }};
}

}  // namespace ramet::train

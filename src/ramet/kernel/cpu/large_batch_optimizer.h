#pragma once

#include <cstdint>

namespace ramet::kernel::cpu {

/// One stretch of elements, all f32; outputs may lie over their inputs. `g` is the gradient, or a step; `m` may be null.
struct StepArguments {
  int64_t count = 0;
  const float *w = nullptr, *g = nullptr, *m = nullptr;
  float *w_out = nullptr, *m_out = nullptr;
  float grad_scale = 1, rate = 0, weight_decay = 0;
  float keep = 1;  ///< what w is multiplied by
  float beta1 = 0, one_less_beta1 = 0, one_less_beta2 = 0;
};

struct StepLoops {
  using Loop = void (*)(const StepArguments&);
  Loop lion, lars, adafactor;
  Loop average;  ///< w is the average, g the value, one_less_beta1 its share
};
const StepLoops& step_loops();

}  // namespace ramet::kernel::cpu

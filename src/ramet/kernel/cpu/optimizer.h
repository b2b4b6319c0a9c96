#pragma once

#include <cstdint>

namespace ramet::kernel::cpu {

/// One stretch of elements, all f32; outputs may lie over their inputs.
struct UpdateArguments {
  int64_t count = 0;
  const float *w = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  float *w_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  float grad_scale = 1, rate = 0, weight_decay = 0;
  float momentum = 0;
  bool nesterov = false;
  float beta2 = 0, one_less_beta1 = 0, one_less_beta2 = 0, epsilon = 0;
  float inverse_correction1 = 1, inverse_correction2 = 1;
  /// Where elements count their own steps: the number of updates when each began, the updates now, and both
  /// reciprocals by the number of steps up to `last_steps`, of which all later ones are 1.
  const float *birth = nullptr, *inverses1 = nullptr, *inverses2 = nullptr;
  float updates = 0;
  int32_t last_steps1 = 0, last_steps2 = 0;
  float keep = 1;  ///< decoupled decay: what w is multiplied by
};

struct UpdateLoops {
  using Loop = void (*)(const UpdateArguments&);
  Loop sgd;  ///< momentum state in m (null: none)
  Loop adam;
  Loop lamb_direction;  ///< u to w_out
  Loop lamb_apply;      ///< g is u; rate has the trust ratio in it
  /// Adds the squares of up to 4096 elements to an exact sum (ops/exact_sum.h), which stays canonical.
  void (*squares)(const float* from, int64_t count, int64_t* sum);
  /// How many are not 0 and of less magnitude than `least`.
  int64_t (*count_small)(const float* from, int64_t count, float least);
};
const UpdateLoops& update_loops();

}  // namespace ramet::kernel::cpu

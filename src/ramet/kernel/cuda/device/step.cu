// Lion, LARS, Adafactor's last step and moving averages, in the order of operations of
// kernel/cpu/large_batch_optimizer.cc.

#include "states.cuh"
#include "step_arguments.h"

namespace ramet_device {

/// What a step does of one element: w and m become those of the next step.
template <class Step>
__device__ __forceinline__ void take_steps(const StepArguments& a, bool whole, const Step& step) {
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    if (!whole) {
      keep_group<F32>(a.w, a.w_out, group);
      if (a.m) keep_group<F32>(a.m, a.m_out, group);
      continue;
    }
    float w[kGroup], g[kGroup], m[kGroup] = {};
    load_state<F32, kPlain>(a.w, group, w);
    load_state<F32, kPlain>(a.g, group, g);
    if (a.m) load_state<F32, kPlain>(a.m, group, m);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) step(w[k], g[k], m[k]);
    store_state<F32, kPlain, false>(w, a.w_out, group, {}, 1u);
    if (a.m) store_state<F32, kPlain, false>(m, a.m_out, group, {}, 1u);
  }
}

RAMET_KERNEL(256, lion, StepArguments, a) {
  const float scale = *a.grad_scale, rate = *a.rate, keep = 1.0f - rate * a.weight_decay;
  take_steps(a, is_finite(scale), [&](float& w, float g, float& m) {
    const float gradient = scale * g;
    const float direction = __fmaf_rn(a.beta1, m, a.one_less_beta1 * gradient);
    w = keep * w - (direction == 0.0f ? 0.0f : copysignf(rate, direction));
    m = __fmaf_rn(a.one_less_beta2, gradient - m, m);
  });
}

RAMET_KERNEL(256, lars, StepArguments, a) {
  const float scale = *a.grad_scale, norm_w = __fsqrt_rn(*a.squares_w), norm_g = scale * __fsqrt_rn(*a.squares_g);
  const float counts = a.cap > 0.0f && a.cap < norm_w ? a.cap : norm_w;
  const bool adapts = a.coefficient > 0.0f && norm_w > 0.0f && norm_g > 0.0f;
  const float ratio = adapts ? __fdiv_rn(a.coefficient * counts, norm_g + a.weight_decay * norm_w) : 1.0f;
  const float rate = *a.rate * ratio;
  take_steps(a, is_finite(scale), [&](float& w, float g, float& m) {
    float step = rate * __fmaf_rn(a.weight_decay, w, scale * g);
    if (a.m) m = step = __fmaf_rn(a.beta1, m, step);
    w = w - step;
  });
}

/// Of a sum of squares, as the host has it: a root in double.
__device__ __forceinline__ float root_mean(float squares, double elements) {
  return static_cast<float>(__dsqrt_rn(__ddiv_rn(static_cast<double>(squares), elements)));
}

RAMET_KERNEL(256, adafactor_apply, StepArguments, a) {
  const float root_w = root_mean(*a.squares_w, a.elements), root_u = root_mean(*a.squares_g, a.elements);
  const float rate = *a.rate * (a.least > 0.0f ? (a.least < root_w ? root_w : a.least) : 1.0f);
  const float over = __fdiv_rn(root_u, a.clip);
  const float own_rate = a.clip > 0.0f ? __fdiv_rn(rate, 1.0f < over ? over : 1.0f) : rate;
  const float keep = 1.0f - rate * a.weight_decay;
  take_steps(a, is_finite(*a.grad_scale), [&](float& w, float u, float& m) {
    float step = own_rate * u;
    if (a.m) m = step = __fmaf_rn(a.beta1, m, a.one_less_beta1 * step);
    w = __fmaf_rn(keep, w, -step);
  });
}

RAMET_KERNEL(256, moving_average, StepArguments, a) {
  const float share = 1.0f - *a.rate;
  take_steps(a, is_finite(*a.grad_scale),
             [&](float& average, float value, float&) { average = __fmaf_rn(share, value - average, average); });
}

}  // namespace ramet_device

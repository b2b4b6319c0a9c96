// Updates of weights by their gradients, in f32 whatever the states are held in; in the order of operations of
// kernel/cpu/optimizer.cc. Compiled with Weight, Gradient, Moment and Square as types of convert.cuh, and with kHalves
// and kRandom (0 or 1): whether the weight is split in two halves, and whether states are rounded by random bits.

#include "exact_sum.cuh"
#include "states.cuh"

namespace ramet_device {

constexpr bool kSplitWeight = kHalves != 0, kDrawn = kRandom != 0;

using Source = DrawSource<kDrawn>;

/// kRoundingFactor of ops/rounding.h to the power of an output's number.
__device__ __forceinline__ constexpr unsigned rounding_factor(int output) {
  return output == 0 ? 1u : rounding_factor(output - 1) * 0x9E37u & 0xffffu;
}

struct Moments {
  float m[kGroup], v[kGroup];
};

/// Moments and directions of Adam from its gradients.
struct Adam {
  float one_less_beta1, beta2, one_less_beta2, epsilon, inverse1, inverse2;
  __device__ __forceinline__ explicit Adam(const UpdateArguments& a)
      : one_less_beta1(a.one_less_beta1),
        beta2(a.beta2),
        one_less_beta2(a.one_less_beta2),
        epsilon(a.epsilon),
        inverse1(__fdiv_rn(1.0f, *a.correction1)),
        inverse2(__fdiv_rn(1.0f, *a.correction2)) {}
  /// The moment and the square become those of the next step.
  __device__ __forceinline__ float direction(float gradient, float& m, float& v) const {
    m = __fmaf_rn(one_less_beta1, gradient - m, m);
    v = __fmaf_rn(beta2, v, one_less_beta2 * (gradient * gradient));
    const float root = __fsqrt_rn(v * inverse2);
    return __fdiv_rn(m * inverse1, root + epsilon);
  }
};

RAMET_KERNEL(256, sgd, UpdateArguments, a) {
  const float scale = *a.grad_scale, rate = *a.rate;
  const bool whole = is_finite(scale);
  const Source source(a.rounding);
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    if (!whole) {
      keep_weight<Weight, kSplitWeight>(a.w, a.low, a.w_out, a.low_out, group);
      if (a.m) keep_group<Moment>(a.m, a.m_out, group);
      continue;
    }
    float w[kGroup], g[kGroup], m[kGroup] = {};
    load_weight<Weight, kSplitWeight>(a.w, a.low, group, w);
    load_state<Gradient, kPlain>(a.g, group, g);
    if (a.m) load_state<Moment, kMoment>(a.m, group, m);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) {
      float step = __fmaf_rn(a.weight_decay, w[k], scale * g[k]);
      if (a.m) {
        m[k] = __fmaf_rn(a.momentum, m[k], step);
        step = a.nesterov ? __fmaf_rn(a.momentum, m[k], step) : m[k];
      }
      w[k] = __fmaf_rn(-rate, step, w[k]);
    }
    const Draws draws = source.of(group);
    store_weight<Weight, kSplitWeight, kDrawn>(w, a.w_out, a.low_out, group, draws);
    if (a.m) store_state<Moment, kMoment, kDrawn>(m, a.m_out, group, draws, rounding_factor(1));
  }
}

RAMET_KERNEL(256, adam, UpdateArguments, a) {
  const float scale = *a.grad_scale, rate = *a.rate;
  const bool whole = is_finite(scale);
  const float keep = a.decoupled ? 1.0f - rate * a.weight_decay : 1.0f, decay = a.decoupled ? 0.0f : a.weight_decay;
  const Adam adam(a);
  const Source source(a.rounding);
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    if (!whole) {
      keep_weight<Weight, kSplitWeight>(a.w, a.low, a.w_out, a.low_out, group);
      keep_group<Moment>(a.m, a.m_out, group);
      keep_group<Square>(a.v, a.v_out, group);
      continue;
    }
    float w[kGroup], g[kGroup], m[kGroup], v[kGroup];
    load_weight<Weight, kSplitWeight>(a.w, a.low, group, w);
    load_state<Gradient, kPlain>(a.g, group, g);
    load_state<Moment, kMoment>(a.m, group, m);
    load_state<Square, kSquare>(a.v, group, v);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) {
      const float gradient = __fmaf_rn(decay, w[k], scale * g[k]);
      const float direction = adam.direction(gradient, m[k], v[k]);
      w[k] = __fmaf_rn(-rate, direction, w[k] * keep);
    }
    const Draws draws = source.of(group);
    store_weight<Weight, kSplitWeight, kDrawn>(w, a.w_out, a.low_out, group, draws);
    store_state<Moment, kMoment, kDrawn>(m, a.m_out, group, draws, rounding_factor(1));
    store_state<Square, kSquare, kDrawn>(v, a.v_out, group, draws, rounding_factor(2));
  }
}

/// A group of lamb_direction: the weights, and the direction, 0 where nothing may change.
__device__ __forceinline__ void lamb_group(const UpdateArguments& a, const Adam& adam, const Source& source,
                                           float scale, const Group& group, float (&w)[kGroup], float (&u)[kGroup]) {
  load_weight<Weight, kSplitWeight>(a.w, a.low, group, w);
  if (!is_finite(scale)) {
    keep_group<Moment>(a.m, a.m_out, group);
    keep_group<Square>(a.v, a.v_out, group);
    return;
  }
  float m[kGroup], v[kGroup];
  load_state<Gradient, kPlain>(a.g, group, u);
  load_state<Moment, kMoment>(a.m, group, m);
  load_state<Square, kSquare>(a.v, group, v);
  RAMET_UNROLL
  for (int k = 0; k < kGroup; ++k) {
    const float direction = adam.direction(scale * u[k], m[k], v[k]);
    u[k] = k < group.count ? __fmaf_rn(a.weight_decay, w[k], direction) : 0.0f;
  }
  const Draws draws = source.of(group);
  store_state<Moment, kMoment, kDrawn>(m, a.m_out, group, draws, rounding_factor(0));
  store_state<Square, kSquare, kDrawn>(v, a.v_out, group, draws, rounding_factor(1));
}

RAMET_KERNEL(256, lamb_direction, UpdateArguments, a) {
  RAMET_SHARED(unsigned, digits, 2 * kExactIntegers);
  clear_sums(digits, 2);
  SquareSum squares_u(digits), squares_w(digits + kExactIntegers);
  const float scale = *a.grad_scale;
  const Adam adam(a);
  const Source source(a.rounding);
  const Index lane = threadIdx.x % 32u;
  for (Index warp = first_index() - lane; warp * kGroup < a.count; warp += index_step()) {
    const Group group((warp + lane) * kGroup, a.count);
    float w[kGroup], u[kGroup] = {};
    lamb_group(a, adam, source, scale, group, w, u);
    write_group<F32>({{u[0], u[1], u[2], u[3]}}, a.u_out, group);
    squares_u.add(u);
    squares_w.add(w);
  }
  squares_u.flush();
  squares_w.flush();
  __syncthreads();
  const Index each = static_cast<Index>(gridDim.x) * kExactIntegers;
  write_sum(digits, a.partials, a.squares_u_out);
  write_sum(digits + kExactIntegers, a.partials + each, a.squares_w_out);
}

RAMET_KERNEL(256, lamb_apply, UpdateArguments, a) {
  const float norm_u = __fsqrt_rn(*a.squares_u), norm_w = __fsqrt_rn(*a.squares_w);
  const float rate = *a.rate * (norm_u > 0.0f && norm_w > 0.0f ? __fdiv_rn(norm_w, norm_u) : 1.0f);
  const bool whole = is_finite(*a.grad_scale);
  const Source source(a.rounding);
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    const Group group(first, a.count);
    if (!whole) {
      keep_weight<Weight, kSplitWeight>(a.w, a.low, a.w_out, a.low_out, group);
      continue;
    }
    float w[kGroup], u[kGroup];
    load_weight<Weight, kSplitWeight>(a.w, a.low, group, w);
    load_state<Gradient, kPlain>(a.g, group, u);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) w[k] = __fmaf_rn(-rate, u[k], w[k]);
    store_weight<Weight, kSplitWeight, kDrawn>(w, a.w_out, a.low_out, group, source.of(group));
  }
}

}  // namespace ramet_device

#pragma once

namespace ramet_device {

/// Where a node that rounds stochastically has its random bits (ops/rounding.h, RoundingDraw).
struct RoundingArguments {
  const long long* counter;  ///< step and micro-batch
  long long logical;         ///< elements of the logical tensor, which number the draws
  unsigned key0, key1, tensor;
};

/// A node that changes states. `w` is the weight, `g` the gradient (of lamb_apply: the direction), `m` and `v` the
/// moments. Pointers that a node has no use for are null.
struct UpdateArguments {
  long long count;
  const void *w, *low, *g, *m, *v;
  void *w_out, *low_out, *m_out, *v_out;
  float* u_out;                                                                        ///< of lamb_direction
  const float *rate, *grad_scale, *correction1, *correction2, *squares_u, *squares_w;  ///< scalars
  float momentum, weight_decay, beta2, one_less_beta1, one_less_beta2, epsilon;
  int nesterov, decoupled;
  RoundingArguments rounding;
  unsigned* partials;                        ///< of the sums of lamb_direction, when there are several blocks
  long long *squares_u_out, *squares_w_out;  ///< of lamb_direction
};

/// scale term, added to a sum if there is one.
struct NarrowArguments {
  long long count;
  float scale;
  const void *sum, *term;
  void* out;
  RoundingArguments rounding;
};

/// An f32 number and its halves.
struct HalvesArguments {
  long long count;
  void *whole, *high, *low;
};

/// A sum over a tensor.
struct SumArguments {
  long long count;
  const void* from;
  float least;  ///< of count_underflow
  unsigned* partials;
  long long* result;
};

/// Adds the partial sums of `blocks` blocks; a block of this grid a sum.
struct FinishArguments {
  int blocks;
  const unsigned* partials[2];
  long long* results[2];
};

constexpr int kMostSums = 480;
/// The sum of `count` sums.
struct ExactSumArguments {
  int count;
  const long long* sums[kMostSums];
  long long* result;
};

struct FromExactArguments {
  const long long* sum;
  float* result;
};

}  // namespace ramet_device

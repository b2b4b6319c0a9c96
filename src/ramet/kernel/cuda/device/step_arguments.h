#pragma once

namespace ramet_device {

/// A step of an optimizer for large batches, all in f32. `g` is the gradient, or the direction; without a moment `m` is
/// null.
struct StepArguments {
  long long count;
  const float *w, *g, *m;
  float *w_out, *m_out;
  const float *rate, *grad_scale, *squares_w, *squares_g;  ///< scalars; squares_g are those of `g`, whatever that is
  float weight_decay, beta1, one_less_beta1, one_less_beta2;
  float coefficient, cap, least, clip;
  double elements;
};

}  // namespace ramet_device

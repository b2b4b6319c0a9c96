#pragma once

#include <cstdint>
#include <utility>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Norms over channels, of tensors [N, C], [N, C, space...], or with `channels_last` [N, space..., C]. Gains and biases
// are [C], or invalid: then 1 and 0. All arithmetic is f32; the result has a's type. The backward pass reads `a` and
// vectors of statistics, no normalised copy.

/// A normalised tensor and the statistics of the micro-batch.
struct BatchNorm {
  Tensor output;
  Tensor mean,
      variance;  ///< f32[C]; the variance is that of the elements, not an estimate (it divides by their number)
};
/// (a - mean) / sqrt(variance + epsilon) * gain + bias, with mean and variance over samples and space of the
/// micro-batch (Ioffe and Szegedy, arXiv 1502.03167): the form of training. Refused where a channel has one element.
BatchNorm batch_norm(Tensor a, Tensor gain, Tensor bias, double epsilon, bool channels_last = false);
/// The same with given statistics, f32[C]: the form of evaluation, with running statistics.
Tensor batch_norm_apply(Tensor a, Tensor gain, Tensor bias, Tensor mean, Tensor variance, double epsilon,
                        bool channels_last = false);
/// Statistics of each sample over the space and C / groups neighbouring channels (Wu and He, arXiv 1803.08494).
Tensor group_norm(Tensor a, Tensor gain, Tensor bias, int64_t groups, double epsilon, bool channels_last = false);
/// Statistics of each sample and channel over the space (Ulyanov et al., arXiv 1607.08022).
Tensor instance_norm(Tensor a, Tensor gain, Tensor bias, double epsilon, bool channels_last = false);

/// a (k + alpha mean(a^2))^-beta, with the mean over `size` neighbouring channels, channels beyond the ends counting as
/// zeros (Krizhevsky et al. 2012, section 3.3). `before` of the neighbours have lower numbers; -1: size / 2 as in
/// PyTorch (ONNX: (size - 1) / 2). a has a space.
Tensor local_response_norm(Tensor a, int64_t size, double alpha, double beta, double k, bool channels_last = false,
                           int64_t before = -1);

/// Mean and variance f32, [1, C, 1...]: over samples and space; with `groups` [N, groups, 1...]: of each sample, over
/// the space and C / groups neighbouring channels. They have a's rank; with channels_last, channels are last.
std::pair<Tensor, Tensor> channel_moments(Tensor a, int64_t groups = 0, bool channels_last = false);
/// Mean and variance f32 [N, 1, C] of the first `used` rows of each sample of a [N, R, C]; used i32 [N] is cut to
/// 0 .. R. Samples without rows have zeros.
std::pair<Tensor, Tensor> used_channel_moments(Tensor a, Tensor used);
/// f32 [N, rows, 1]: 1 for the first `used` rows of each sample, 0 for the others.
Tensor use_mask(Tensor used, int64_t rows);
/// f32 [N, 1, 1]: the first `used` of so many rows of each sample, and at least 1: what sums over them are divided by.
Tensor rows_in_use(Tensor used, int64_t rows);
/// (a - mean) scale + bias, all three f32 of a's rank, [1 or N, C, 1...]: an element-wise op that maps are fused with.
Tensor normalize_channels(Tensor a, Tensor mean, Tensor scale, Tensor bias, bool channels_last = false);

}  // namespace ramet::ops

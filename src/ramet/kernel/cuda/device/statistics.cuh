#pragma once

// Statistics of chunks of a row of logits, as ops/softmax_statistics.h.

#include "joins.cuh"
#include "math.cuh"

namespace ramet_device {

constexpr int kStatistics = 4, kChunkMost = 0, kChunkSum = 1, kChunkLogit = 2, kChunkLabel = 3;

/// The greatest logit m and the sum of exp(x - m).
struct SoftmaxSum {
  float most, sum;
};

__device__ __forceinline__ SoftmaxSum joined(const SoftmaxSum& a, const SoftmaxSum& b) {
  if (a.most == b.most) return {a.most, a.sum + b.sum};
  if (a.most > b.most) return {a.most, a.sum + b.sum * exp_negative(b.most - a.most)};
  return {b.most, a.sum * exp_negative(a.most - b.most) + b.sum};
}

/// Of a row's chunks, joined along the balanced tree.
__device__ __forceinline__ SoftmaxSum sum_of_row(const float* statistics, int chunks) {
  return tree_of<SoftmaxSum>(
      0, chunks,
      [&](Index chunk) {
        return SoftmaxSum{statistics[chunk * kStatistics + kChunkMost], statistics[chunk * kStatistics + kChunkSum]};
      },
      joined);
}

/// exp(reference - log-sum-exp of the row).
__device__ __forceinline__ float share(const SoftmaxSum& all, float reference) {
  return __fdiv_rn(exp_negative(reference - all.most), all.sum);
}

}  // namespace ramet_device

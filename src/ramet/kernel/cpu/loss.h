#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"

namespace ramet::kernel::cpu {

/// Logits [rows, chunks, width] of one of the vector types, statistics [rows, chunks, kStatistics].
struct LossArguments {
  int64_t chunks = 1, width = 0;
  const int64_t* classes = nullptr;  ///< of each chunk: its first logits, up to `width`; the others are padding
  const void* logits = nullptr;
  const int32_t* labels = nullptr;       ///< local classes, -1: ignored or elsewhere
  const float* slopes = nullptr;         ///< of gradients: dstatistics
  const float* statistics_in = nullptr;  ///< of gradients
  float* statistics = nullptr;
  void* gradient = nullptr;  ///< may be the logits
};

/// Statistics [rows, chunks, kStatistics] to what rows give, or to their slopes.
struct JoinArguments {
  int64_t chunks = 1;
  const float* statistics = nullptr;
  float* lse = nullptr;            ///< [rows], or none
  float* losses = nullptr;         ///< [rows]: log-sum-exp less the logit of the label, 0 where the row is ignored
  uint8_t* states = nullptr;       ///< [rows]: 0 ignored, 1 wrong, 2 the label is the first of the greatest logits
  float factor = 0;                ///< dloss / count
  const float* dlse = nullptr;     ///< [rows], of the gradient of single rows
  const float* dlosses = nullptr;  ///< [rows], likewise
  float* slopes = nullptr;         ///< may be the statistics
};

/// Each works on rows [begin, end).
struct LossLoops {
  using Loop = void (*)(const LossArguments&, int64_t begin, int64_t end);
  using Join = void (*)(const JoinArguments&, int64_t begin, int64_t end);
  Loop statistics, statistics_grad;
  Join join, join_grad;
  Join rows_grad;  ///< with a slope of its own for each row
};
/// For f32, bf16 or f16 logits, for the instruction set at hand.
const LossLoops& loss_loops(DType dtype);

}  // namespace ramet::kernel::cpu

#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"
#include "ramet/kernel/cpu/reduce.h"

namespace ramet::kernel::cpu {

/// Rows [count, width] of one of the vector types; gain, bias and statistics are f32.
struct NormArguments {
  int64_t width = 0;
  float epsilon = 0;
  const void* dy = nullptr;  ///< of gradients
  const void* a = nullptr;
  void* out = nullptr;  ///< the rows that come out; may be a (or dy)
  const float* gain = nullptr;
  const float* bias = nullptr;
  float* mean = nullptr;  ///< [count]
  float* rstd = nullptr;  ///< [count]
  /// Of gradients: the rows of a chunk, and the sums for gain and bias of the block at hand, [width].
  ChunkedRows chunked;
  int64_t chunk = 0;
  float* gain_sums = nullptr;
  float* bias_sums = nullptr;
};

/// Each works on rows [begin, end): of gradients, one block of a chunk.
struct NormLoops {
  using Loop = void (*)(const NormArguments&, int64_t begin, int64_t end);
  Loop layer_norm, rms_norm, layer_norm_grad, rms_norm_grad, softmax, log_softmax;
  /// Sums for gain (and bias) over all rows of the call, one chain each, of columns [begin, end).
  Loop layer_norm_sums, rms_norm_sums;
};
/// For f32, bf16 or f16 rows, for the instruction set at hand.
const NormLoops& norm_loops(DType dtype);

}  // namespace ramet::kernel::cpu

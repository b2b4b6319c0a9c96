#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"

namespace ramet::cpu {

/// Logits [rows, classes] of one of the vector types.
struct LossArguments {
  int64_t classes = 0;
  const void* logits = nullptr;
  const int32_t* labels = nullptr;
  float* lse = nullptr;        ///< [rows]; of the gradient: read
  float* losses = nullptr;     ///< [rows]: lse - logit of the label, 0 where the row is ignored
  uint8_t* correct = nullptr;  ///< [rows]: whether the label is the first of the greatest logits
  float factor = 0;            ///< dloss / count
  void* gradient = nullptr;    ///< may be the logits
};

/// Each works on rows [begin, end).
struct LossLoops {
  using Loop = void (*)(const LossArguments&, int64_t begin, int64_t end);
  Loop forward, backward;
};
/// For f32, bf16 or f16 logits, for the instruction set at hand.
const LossLoops& loss_loops(DType dtype);

}  // namespace ramet::cpu

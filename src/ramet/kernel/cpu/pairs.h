#pragma once

// Loops over pairs of rows and columns, for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>

#include "ramet/ops/pair_distance.h"

namespace ramet::kernel::cpu {

/// One group's operands, f32. `w` is null where there are no weights.
struct PairCall {
  ops::PairForm form;
  const float *g = nullptr, *a = nullptr, *b = nullptr, *w = nullptr;
  float *out = nullptr, *weight_out = nullptr;
};

}  // namespace ramet::kernel::cpu

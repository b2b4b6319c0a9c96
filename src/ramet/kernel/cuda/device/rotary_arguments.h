#pragma once

#include "divider.h"

namespace ramet_device {

/// Op `rotary` (ops/rotary.h).
struct RotaryArguments {
  const void* a;
  const float *cosine, *sine;
  void* out;
  long long packs;  ///< in all: of pairs, then of what is not rotated, in each head
  Divider head_packs, heads, sequence;
  long long pairs, head_size, sample_stride;
  float sign;  ///< of the sines
};

}  // namespace ramet_device

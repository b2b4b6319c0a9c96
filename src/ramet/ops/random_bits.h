#pragma once

#include <cmath>
#include <cstdint>

#include "ramet/base/rng.h"

namespace ramet::ops {

// What dropout means, for every backend. An element of logical index e (micro-batch included) is kept when its 16
// random bits, RandomStream(seed, kDropout, step, tensor).bits16(e), are >= dropout_threshold(rate); kept ones are
// multiplied by dropout_scale(rate).

/// Draws below this drop the element: the rate in steps of 2^-16.
inline uint32_t dropout_threshold(double rate) { return static_cast<uint32_t>(std::lround(rate * 65536.0)); }

/// What kept elements are multiplied by: 1 / (1 - rate), rounded to f32.
inline float dropout_scale(double rate) { return static_cast<float>(1.0 / (1.0 - rate)); }

/// The dropout of one node in one micro-batch; `counter` is {step, micro-batch index}.
struct DropoutDraw {
  RandomStream stream;
  uint32_t threshold;
  float scale;
  uint64_t first;  ///< logical index of element 0

  DropoutDraw(double rate, int64_t seed, int64_t tensor, const int64_t* counter, int64_t elements)
      : stream(static_cast<uint64_t>(seed), RandomPurpose::kDropout, static_cast<uint64_t>(counter[0]),
               static_cast<uint64_t>(tensor)),
        threshold(dropout_threshold(rate)),
        scale(dropout_scale(rate)),
        first(static_cast<uint64_t>(counter[1]) * static_cast<uint64_t>(elements)) {}

  /// What element `index` of the tensor is multiplied by: 0 or `scale`.
  float factor(int64_t index) const {
    return stream.bits16(first + static_cast<uint64_t>(index)) >= threshold ? scale : 0.0f;
  }
};

}  // namespace ramet::ops

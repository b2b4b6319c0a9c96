#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"
#include "ramet/base/rng.h"
#include "ramet/ops/rounding.h"

namespace ramet::kernel::cpu {

/// Most halves that `draw` may write beyond the asked ones.
inline constexpr int64_t kDrawSlack = 8 * 16 + 8;

/// Conversions between f32 and the other floating types (base/rounding.h), the same bits on every processor.
struct RoundingLoops {
  /// f32 -> f16, bf16 or f8, to nearest even, or with `draws`, 16 random bits an element, stochastic.
  void (*narrow)(DType to_type, const float* from, int64_t count, void* to, const uint16_t* draws, bool saturate);
  /// Any floating type -> f32.
  void (*widen)(DType from_type, const void* from, int64_t count, float* to);
  /// state_stored (ops/rounding.h) of f32 numbers, rounded as `narrow` does, and state_value of the stored numbers.
  void (*narrow_state)(DType to_type, StateRole role, const float* from, int64_t count, void* to, const uint16_t* draws,
                       bool saturate);
  void (*widen_state)(DType from_type, StateRole role, const void* from, int64_t count, float* to);
  void (*split)(const float* from, int64_t count, uint16_t* high, uint16_t* low);
  void (*join)(const uint16_t* high, const uint16_t* low, int64_t count, float* to);
  /// stream.bits16(first + i) for i in [0, count): the answer begins where the returned pointer says, within `room` of
  /// count + kDrawSlack.
  const uint16_t* (*draw)(const RandomStream& stream, uint64_t first, int64_t count, uint16_t* room);
  /// How a further output is computed from draws (ops/rounding.h).
  void (*multiply_draws)(uint16_t factor, const uint16_t* draws, int64_t count, uint16_t* to);
};
const RoundingLoops& rounding_loops();

}  // namespace ramet::kernel::cpu

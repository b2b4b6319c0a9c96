#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/base/rounding.h"
#include "ramet/ir/op.h"

namespace ramet::ops {

// How ops write narrow floats (base/rounding.h has the arithmetic), for every backend. An op that rounds has the
// attributes of `rounding_attributes` and, when it draws, the scalar "counter" i64[2] = {step, micro-batch index} as
// its last input. Element e, being its index in the logical tensor, is rounded by 16 bits of Philox (seed, kRounding,
// step, tensor), number micro-batch x elements + e: the same on any layout. Outputs share an element's bits: output o
// takes their product with kRoundingFactor^o.

inline TensorType counter_type() { return {DType::kI64, Shape{2}}; }

/// The attributes "rounding", "seed" and "tensor".
std::vector<AttributeSpec> rounding_attributes();

/// Whether the node draws: "rounding" is "stochastic". Checks the attributes, and that the last input is the counter
/// then; throws Error naming the node.
bool rounds_stochastically(const NodeSignature& node);

/// Odd, so that products are as evenly spread as the bits themselves; near 2^16 over the golden ratio, whose multiples
/// lie so apart (Knuth, TAOCP 6.4) that outputs round up together as often, to 2e-4, as if each had bits of its own.
inline constexpr uint16_t kRoundingFactor = 0x9E37;
/// kRoundingFactor^output.
constexpr uint16_t rounding_factor(int output) {
  uint16_t factor = 1;
  for (int i = 0; i < output; ++i) factor = static_cast<uint16_t>(factor * kRoundingFactor);
  return factor;
}

/// Facts that a node that draws random numbers needs at run time; `elements` is that of the logical tensor.
struct RoundingDraw {
  uint64_t seed = 0, tensor = 0;
  int64_t step = 0;
  uint64_t first = 0;  ///< number of element 0

  RoundingDraw(const NodeSignature& node, const int64_t* counter, int64_t elements)
      : seed(static_cast<uint64_t>(node.attributes.get_int("seed"))),
        tensor(static_cast<uint64_t>(node.attributes.get_int("tensor"))),
        step(counter[0]),
        first(static_cast<uint64_t>(counter[1]) * static_cast<uint64_t>(elements)) {}
  RandomStream stream() const { return {seed, RandomPurpose::kRounding, static_cast<uint64_t>(step), tensor}; }
};

/// The kind of an optimizer's state, which decides how a narrow type stores it. The range of f16 is smaller than that
/// of f32 at both ends, so f16 stores moments times kHalfStateScale, and the roots of second moments, whose range is
/// that of gradients. bf16 and f32 store all states unchanged.
enum class StateRole : uint8_t { kPlain, kMoment, kSquare };

/// Moments of up to 64, and to 6e-8 with all mantissa bits, fit f16 so.
inline constexpr float kHalfStateScale = 1024;

/// What `stored`, a number of `dtype`, stands for.
template <typename Real>
Real state_value(Real stored, DType dtype, StateRole role) {
  if (dtype != DType::kF16 || role == StateRole::kPlain) return stored;
  const Real value = stored / Real{kHalfStateScale};
  return role == StateRole::kSquare ? value * value : value;
}
/// The number that is rounded to `dtype` to hold `value`.
template <typename Real>
Real state_stored(Real value, DType dtype, StateRole role) {
  if (dtype != DType::kF16 || role == StateRole::kPlain) return value;
  return (role == StateRole::kSquare ? std::sqrt(value) : value) * Real{kHalfStateScale};
}

}  // namespace ramet::ops

#pragma once

#include <cstdint>
#include <string_view>

#include "ramet/base/rng.h"
#include "ramet/ir/op.h"

namespace ramet::ops {

// What op `draw` means, for every backend: random numbers that are drawn anew in every micro-batch. The element of
// logical index e of a tensor of n logical elements is a function of element m n + e of
// RandomStream(seed, kDraw, step, tensor), where {step, m} is the counter and m the index of the micro-batch.

enum class DrawKind : uint8_t {
  kUniform,  ///< in [a, b): a + (b - a) u, with u of 24 bits
  kNormal,   ///< mean a, deviation b
  kInteger   ///< whole numbers from a to b - 1
};

/// The draws of one node.
struct DrawForm {
  DrawKind kind = DrawKind::kUniform;
  double a = 0, b = 1;
  uint64_t seed = 0, tensor = 0;
};
/// Throws Error naming the node when its attributes contradict each other.
DrawForm draw_form(const NodeSignature& node);

/// The draws of one micro-batch; `counter` is {step, index of the micro-batch}, `elements` the logical tensor's.
class Drawing {
 public:
  Drawing(const DrawForm& form, const int64_t* counter, int64_t elements)
      : form_(form),
        stream_(form.seed, RandomPurpose::kDraw, static_cast<uint64_t>(counter[0]), form.tensor),
        first_(static_cast<uint64_t>(counter[1]) * static_cast<uint64_t>(elements)) {}

  /// Numbers of logical elements [index, index + count) as f32.
  void fill(int64_t index, int64_t count, float* to) const;
  /// A whole number, of kind kInteger.
  int64_t integer(int64_t index) const {
    const auto bound = static_cast<uint32_t>(form_.b - form_.a);
    return static_cast<int64_t>(form_.a) + stream_.below(first_ + static_cast<uint64_t>(index), bound);
  }

 private:
  DrawForm form_;
  RandomStream stream_;
  uint64_t first_;
};

}  // namespace ramet::ops

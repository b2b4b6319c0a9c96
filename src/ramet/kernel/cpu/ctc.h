#pragma once

#include <cstdint>

namespace ramet::kernel::cpu {

/// The loops of connectionist temporal classification along the symbols of the extended target. They read and write
/// whole vectors.
struct CtcLoops {
  /// to[i] = add[i] + log(e^from[i] + e^from[i + step] + e^(from[i + 2 step] + skip[i])), step 1 or -1.
  void (*advance)(const float* from, const float* skip, const float* add, int64_t step, int64_t count, float* to);
  /// to[i] = e^(a[i] + b[i] + c).
  void (*shares)(const float* a, const float* b, float c, int64_t count, float* to);
  /// log(e^a + e^b)
  float (*join)(float a, float b);
};
/// For the instruction set at hand.
const CtcLoops& ctc_loops();

}  // namespace ramet::kernel::cpu

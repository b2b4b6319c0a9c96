#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/dtype.h"

namespace ramet::kernel::cpu {

/// The map along the last dimension of space, [inputs, inner] -> [outputs, inner].
struct LineMap {
  int64_t inputs = 0, outputs = 0, inner = 1;
  std::vector<int64_t> starts;
  std::vector<int32_t> taps;
  std::vector<float> weights;
  /// When every output has this many taps (at most 4), each no less than that of the output before, and there is no
  /// inner dimension: `taps` and `weights` are [uniform, outputs], so that vectors of outputs read theirs. 0: they are
  /// lists, as in ops/resize.h.
  int64_t uniform = 0;
};

/// The loops of one type of element.
struct ResampleLoops {
  /// out[i] = sum over rows of weights[row] * rows[row][i], one chain; `count` may be 0.
  void (*combine)(const void* const* rows, const float* weights, int64_t count, int64_t elements, float* out);
  /// A line of f32 mapped to elements of the type; `line` has room for `outputs` floats.
  void (*map_f32)(const float* from, const LineMap& map, float* line, void* out);
  /// The same of a line of the type.
  void (*map)(const void* from, const LineMap& map, float* line, void* out);
};
const ResampleLoops& resample_loops(DType dtype);

}  // namespace ramet::kernel::cpu

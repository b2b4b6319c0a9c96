#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"
#include "ramet/ops/grid_position.h"

namespace ramet::kernel::cpu {

/// Positions that are sampled together.
inline constexpr int64_t kGridBlock = 64;

/// Taps of a block of positions, each list with the positions behind one another.
struct GridBlock {
  int64_t count = 0;  ///< positions in it
  int taps = 0;
  alignas(64) int32_t index[GridTaps<float>::kMost][kGridBlock];
  alignas(64) float weights[GridTaps<float>::kMost][kGridBlock];
  alignas(64) float slopes[3][GridTaps<float>::kMost][kGridBlock];
};

/// A block of positions of one sample. Pointers are to the sample's first element; channels are [first, end).
struct GridCall {
  const GridForm* form = nullptr;
  const void *a = nullptr, *dy = nullptr;
  void* out = nullptr;
  int64_t place = 0;  ///< of the block's first position
  int64_t first = 0, end = 0;
  float* sums = nullptr;  ///< of grid_position_grad: [chunks, 3, kGridBlock]
  int64_t chunks = 1;
};

struct GridLoops {
  void (*sample)(const GridCall&, const GridBlock&);
  void (*sample_grad)(const GridCall&, const GridBlock&);    ///< adds to `out`, f32
  void (*position_grad)(const GridCall&, const GridBlock&);  ///< fills `sums`
};
const GridLoops& grid_loops(DType dtype);

}  // namespace ramet::kernel::cpu

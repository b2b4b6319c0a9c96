#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"

namespace ramet::kernel::cpu {

/// Channels of a tile: the vectors of all instruction sets divide it.
inline constexpr int64_t kChannelTile = 64;

/// Two numbers for each sum: of moments the mean and the sum of squared deviations from it, of gradients sum(dy) and
/// sum(dy (a - mean)).
struct ChannelArguments {
  bool moments = true;
  const void *a = nullptr, *a_end = nullptr;
  const void *dy = nullptr, *dy_end = nullptr;  ///< of gradients
  const float* mean = nullptr;                  ///< of gradients
  bool own_means = false;                       ///< whether each segment (or unit) has means of its own

  // Channels last: segments of rows of all channels.
  int64_t channels = 0, rows = 0;  ///< of a segment
  /// Channels that share a shift: the first number of the first of them, which is taken off before moments, so that
  /// numbers far from zero keep their accuracy.
  int64_t neighbours = 1;
  int64_t supers = 0, tiles = 0;  ///< pieces of a segment: of its rows and of its channels
  float* pieces = nullptr;        ///< [segments, supers, tiles, 2, kChannelTile]

  // Channels first: units of runs of neighbouring elements.
  int64_t runs = 0, run = 0;                  ///< number, and elements of one
  int64_t run_stride = 0, unit_stride = 0;    ///< between runs of a unit, and between units
  int64_t means = 1;                          ///< number of means, which units take in turn
  float *first = nullptr, *second = nullptr;  ///< [units]
};

struct ChannelLoops {
  using Loop = void (*)(const ChannelArguments&, int64_t begin, int64_t end);
  Loop pieces;   ///< channels last: pieces [begin, end)
  Loop combine;  ///< pieces of the same channels, into the first of them; [begin, end) of segments x tiles
  Loop units;    ///< channels first: units [begin, end)
};
/// For f32, bf16 or f16, for the instruction set at hand.
const ChannelLoops& channel_loops(DType dtype);

}  // namespace ramet::kernel::cpu

#pragma once

#include <algorithm>
#include <cstdint>

#include "ramet/base/dtype.h"

namespace ramet::kernel::cpu {

/// Channels of a tile: the vectors of all instruction sets divide it.
inline constexpr int64_t kChannelTile = 64;

/// Two numbers for each sum: of moments the mean, less a shift near it that keeps numbers far from zero accurate, and
/// the sum of squared deviations from the mean; of gradients sum(dy) and sum(dy (a - mean)).
struct ChannelArguments {
  bool moments = true;
  const void *a = nullptr, *a_end = nullptr;
  const void *dy = nullptr, *dy_end = nullptr;  ///< of gradients
  const float* mean = nullptr;                  ///< of gradients
  bool own_means = false;                       ///< whether each segment (or unit) has means of its own
  const int32_t* used = nullptr;                ///< rows in use of each segment; null: all

  // Channels last: segments of rows of all channels.
  int64_t channels = 0, rows = 0;  ///< of a segment
  int64_t supers = 0, tiles = 0;   ///< parts of a segment: of its rows and of its channels
  int64_t group = 1;               ///< tiles of a piece, at most 8
  /// Rows of a segment that are summed.
  int64_t used_rows(int64_t segment) const { return used ? std::clamp<int64_t>(used[segment], 0, rows) : rows; }
  float* pieces = nullptr;  ///< [segments, supers, tiles, 2, kChannelTile]: two numbers
  float* shifts = nullptr;  ///< [segments, tiles, kChannelTile], of moments

  // Channels first: units of runs of neighbouring elements.
  int64_t runs = 0, run = 0;                  ///< number, and elements of one
  int64_t run_stride = 0, unit_stride = 0;    ///< between runs of a unit, and between units
  int64_t means = 1;                          ///< number of means, which units take in turn
  float *first = nullptr, *second = nullptr;  ///< [units]
};

struct ChannelLoops {
  using Loop = void (*)(const ChannelArguments&, int64_t begin, int64_t end);
  Loop shifts;   ///< channels last, of moments: shifts of tiles [begin, end) of segments x tiles
  Loop pieces;   ///< channels last: pieces [begin, end) of segments x supers x groups of tiles
  Loop combine;  ///< pieces of the same channels, into the first of them; [begin, end) of segments x tiles
  Loop units;    ///< channels first: units [begin, end)
};
/// For f32, bf16 or f16, for the instruction set at hand.
const ChannelLoops& channel_loops(DType dtype);

}  // namespace ramet::kernel::cpu

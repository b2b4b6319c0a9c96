#pragma once

// What printed maps (print_map.h) are made of, beside the ops themselves.

#include "map_arguments.h"
#include "map_ops.cuh"
#include "packs.cuh"
#include "philox.cuh"
#include "place.cuh"

namespace ramet_device {

/// Rows whose sum is one chain (ops/reduce_order.h).
constexpr Index kSumRows = 64;

// --- dropout ---

/// The random bits of a dropout step in one micro-batch; keeps the block that it drew last.
class MapDrawing {
 public:
  __device__ __forceinline__ MapDrawing(const MapDraw& draw, const void* counter)
      : stream_{draw.key0, draw.key1, static_cast<unsigned>(static_cast<const long long*>(counter)[0]), draw.tensor},
        first_(static_cast<unsigned long long>(static_cast<const long long*>(counter)[1]) *
               static_cast<unsigned long long>(draw.elements)),
        threshold_(draw.threshold),
        scale_(draw.scale) {}
  /// Draws for the eight elements from `logical` on, a multiple of 8 of a tensor of such a number of elements.
  __device__ __forceinline__ void draw_block(Index logical) {
    words_ = stream_.block((first_ + static_cast<unsigned long long>(logical)) / 8);
  }
  /// What the element `at` of that block is multiplied by.
  __device__ __forceinline__ float factor_in_block(int at) const { return factor(half_of_block(words_, at)); }
  /// What any element is multiplied by.
  __device__ __forceinline__ float factor_of(Index logical) {
    const unsigned long long element = first_ + static_cast<unsigned long long>(logical);
    if (element / 8 != block_) {
      block_ = element / 8;
      words_ = stream_.block(block_);
    }
    const unsigned at = static_cast<unsigned>(element) & 7u;
    const unsigned word = at & 4u ? (at & 2u ? words_.w : words_.z) : (at & 2u ? words_.y : words_.x);
    return factor(at & 1u ? word >> 16 : word & 0xffffu);
  }

 private:
  __device__ __forceinline__ float factor(unsigned bits) const { return bits < threshold_ ? 0.0f : scale_; }

  RandomStream stream_;
  unsigned long long first_, block_ = ~0ull;
  unsigned threshold_;
  float scale_;
  uint4 words_{};
};

// --- sums ---

/// Sums over the rows of a tile of a block's memory, one chain a column, to columns from `first` on of a row of sums.
template <int kColumns>
__device__ __forceinline__ void sum_tile(const float* tile, Index rows, float* sums, Index first, Index columns) {
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kColumns || first + column >= columns) return;
  float sum = tile[column];
  if (rows == kSumRows) {
    RAMET_UNROLL
    for (int row = 1; row < kSumRows; ++row) sum += tile[row * kColumns + column];
  } else {
    for (int row = 1; row < rows; ++row) sum += tile[row * kColumns + column];
  }
  sums[first + column] = sum;
}

/// The sum of the 16 lanes of a half-warp, in the first one's; all lanes of the warp must come here.
__device__ __forceinline__ float sum_of_lanes(float value) {
  RAMET_UNROLL
  for (int width = 8; width > 0; width /= 2) value += __shfl_down_sync(0xffffffffu, value, width, 16);
  return value;
}

}  // namespace ramet_device

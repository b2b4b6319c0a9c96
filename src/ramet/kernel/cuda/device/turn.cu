// Planes turned, bit for bit. Compiled with Unit, an unsigned type, and as strides.cuh asks, of the planes' places.

#include "strides.cuh"

namespace ramet_device {

using Moved = Unit;

constexpr int kTile = 64;
/// Of a tile's row: so that a column's elements lie in different banks.
constexpr int kPitch = kTile + (sizeof(Moved) < 4 ? 4 / static_cast<int>(sizeof(Moved)) : 1);

/// By way of a square in shared memory: both sides are read and written along their neighbours.
RAMET_KERNEL(256, turn, TurnArguments, a) {
  RAMET_SHARED(Moved, tile, kTile * kPitch);
  const Index row_tiles = (a.rows + kTile - 1) / kTile, column_tiles = (a.columns + kTile - 1) / kTile;
  const auto lane = static_cast<int>(threadIdx.x % 32u), warp = static_cast<int>(threadIdx.x / 32u);
  for (Index task = blockIdx.x; task < a.planes * row_tiles * column_tiles; task += gridDim.x) {
    const Index row = task % row_tiles * kTile, column = task / row_tiles % column_tiles * kTile;
    const Offsets plane = offsets_of(a, task / row_tiles / column_tiles);
    const auto* const from = static_cast<const Moved*>(a.from) + plane.from;
    auto* const to = static_cast<Moved*>(a.to) + plane.to;
    RAMET_UNROLL
    for (int c = 0; c < kTile; c += 8) {
      RAMET_UNROLL
      for (int r = 0; r < kTile; r += 32)
        if (column + c + warp < a.columns && row + r + lane < a.rows)
          tile[(c + warp) * kPitch + r + lane] = from[(column + c + warp) * a.from_step + row + r + lane];
    }
    __syncthreads();
    RAMET_UNROLL
    for (int r = 0; r < kTile; r += 8) {
      RAMET_UNROLL
      for (int c = 0; c < kTile; c += 32)
        if (row + r + warp < a.rows && column + c + lane < a.columns)
          to[(row + r + warp) * a.to_step + column + c + lane] = tile[(c + lane) * kPitch + r + warp];
    }
    __syncthreads();
  }
}

}  // namespace ramet_device

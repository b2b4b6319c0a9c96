#pragma once

#include <cstdint>

#include "ramet/base/dtype.h"

namespace ramet::kernel {

/// Most positions and columns of a tile.
inline constexpr int64_t kTilePositions = 14, kTileColumns = 64;

/// Sums of a convolution: any number of positions (`rows`) by `width` columns (a multiple of 16, at most 64), each one
/// chain of multiply-adds over taps and, in each tap, over `units` 32-bit units: f32, or pairs of bf16.
struct ConvolutionTile {
  int64_t rows, width, taps, units;
  const char* const* reads;  ///< reads[tap * reads_stride + row]: where the units of a position begin,
  int64_t reads_stride;
  int64_t reads_offset;  ///< so many bytes behind
  const uint32_t* panel;
  const int64_t* tap_units;  ///< for each tap, where its units x width begin in the panel
  float* sums;               ///< [rows][width], unless `out` is given
  /// Not null: where the `columns` of each row go, rounded to `type` (f32 or bf16), with the bias added.
  char* const* out;
  int64_t out_offset;  ///< bytes
  int64_t columns;
  const float* bias;  ///< of the first column, or null
  DType type;
  /// For results in f32: what follows bias. First, where `adds` says so, the addend of a sum, which lies `addend` bytes
  /// from where the sum goes; then ReLU.
  bool adds = false, relu = false;
  int64_t addend = 0;
  bool fresh = false;   ///< what rows read is in no cache: that of the next ones is fetched while some are summed
  bool stream = false;  ///< whole rows of f32 at multiples of 64 bytes go to memory around the caches
};

/// Positions that a tile of so many columns has at best.
int64_t tile_positions(DType compute, int64_t width);
/// Columns of a panel.
int64_t tile_columns(DType compute);
/// Computes them, tile by tile. `compute` is f32, or bf16 on processors with AVX512_BF16.
void convolution_tile(DType compute, const ConvolutionTile& tile);
void convolution_tile_f32(const ConvolutionTile& tile);
void convolution_tile_bf16(const ConvolutionTile& tile);

/// Products that sum over positions: c [rows, width] += a^T b, a chain of multiply-adds over the strips and, in each
/// strip, over `units` positions (or pairs of them). Strip s reads row a_rows[s] of a and row b_rows[s] of b, which are
/// `a_row` and `b_row` units long; in them, positions are `a_step` and `b_step` units apart.
struct StripTile {
  int64_t rows, width, strips, units;
  const uint32_t* a;
  const uint32_t* b;
  const int64_t* a_rows;
  const int64_t* b_rows;
  int64_t a_row, b_row, a_step, b_step;
  float* c;
  int64_t c_stride;
};
void strip_tile(DType compute, const StripTile& tile);
void strip_tile_f32(const StripTile& tile);
void strip_tile_bf16(const StripTile& tile);

}  // namespace ramet::kernel

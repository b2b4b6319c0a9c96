#pragma once

#include <array>
#include <cstdint>

#include "ramet/ops/convolution.h"

namespace ramet::kernel {

/// The type that a convolution of operands of `dtype` multiplies in: bf16 where the processor multiplies bf16, else
/// f32.
DType convolution_compute(DType dtype);

/// Activations as the tile kernels read them: [samples, space..., blocks, run], where a block is one chunk of one group
/// of channels. `needed` tells whether the operand is not so already, because its channels come first, it is of
/// another type, or a block has an odd number of bf16.
struct StagedActivations {
  DType from = DType::kF32, compute = DType::kF32;
  bool channels_last = false;
  int64_t samples = 0, blocks = 1, block_channels = 0;
  std::array<int64_t, 3> extents{};
  int64_t low = 0, high = 0;  ///< zeros that are written before and behind each row of the last dimension
  bool pairs = true;          ///< whether bf16 are multiplied in pairs of neighbouring channels

  int64_t run() const {
    return pairs && compute == DType::kBF16 ? (block_channels + 1) / 2 * 2 : block_channels;
  }
  int64_t element() const { return compute == DType::kBF16 ? 2 : 4; }
  int64_t pixel_bytes() const { return blocks * run() * element(); }
  int64_t row_pixels() const { return low + extents[2] + high; }
  int64_t rows() const { return samples * extents[0] * extents[1]; }
  int64_t positions() const { return extents[0] * extents[1] * extents[2]; }
  int64_t bytes() const { return rows() * row_pixels() * pixel_bytes(); }
  bool needed() const {
    const bool order = channels_last || positions() == 1 || blocks * block_channels == 1;
    return from != compute || !order || run() != block_channels || low + high > 0;
  }
};
/// Fills rows [begin, end) of the last dimension.
void stage_rows(const StagedActivations& staged, const void* source, int64_t begin, int64_t end, void* out);

/// Writes rows [begin, end) of [samples * channels] rows: out [samples, channels, positions] is in [samples, positions,
/// channels] transposed; elements of 2 or 4 bytes.
void channels_to_front(int64_t channels, int64_t positions, int64_t bytes, const void* in, int64_t begin, int64_t end,
                       void* out);

}  // namespace ramet::kernel

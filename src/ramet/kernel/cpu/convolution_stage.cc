#include "ramet/kernel/cpu/convolution_stage.h"

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::kernel {
namespace {

template <typename T>
void to_front(int64_t channels, int64_t positions, const T* in, int64_t begin, int64_t end, T* out) {
  constexpr int64_t kSquare = 32;
  for (int64_t row = begin; row < end;) {
    const int64_t sample = row / channels, first = row % channels, last = std::min(channels, first + end - row);
    const T* from = in + sample * positions * channels;
    T* to = out + sample * positions * channels;
    for (int64_t p = 0; p < positions; p += kSquare)
      for (int64_t c = first; c < last; c += kSquare)
        for (int64_t j = c; j < std::min(last, c + kSquare); ++j)
          for (int64_t i = p; i < std::min(positions, p + kSquare); ++i) to[j * positions + i] = from[i * channels + j];
    row += last - first;
  }
}

}  // namespace

DType convolution_compute(DType dtype) {
  return dtype == DType::kBF16 && cpu_level() >= CpuLevel::kAvx512Bf16 ? DType::kBF16 : DType::kF32;
}

void stage_rows(const StagedActivations& staged, const void* source, int64_t begin, int64_t end, void* out) {
  const int64_t channels = staged.blocks * staged.block_channels, width = staged.extents[2];
  const int64_t from_size = static_cast<int64_t>(size_of(staged.from)), pixel = staged.blocks * staged.run();
  const bool plain = staged.run() == staged.block_channels;
  const int64_t blocks = plain ? 1 : staged.blocks, of_block = plain ? channels : staged.block_channels;
  const int64_t rows_of_sample = staged.extents[0] * staged.extents[1];
  for (int64_t row = begin; row < end; ++row) {
    char* to = static_cast<char*>(out) + row * staged.row_pixels() * staged.pixel_bytes();
    if (!plain || staged.low + staged.high > 0)
      std::memset(to, 0, static_cast<size_t>(staged.row_pixels() * staged.pixel_bytes()));
    to += staged.low * staged.pixel_bytes();
    const int64_t sample = row / rows_of_sample, at = row % rows_of_sample * width;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t channel = block * of_block;
      const int64_t first = staged.channels_last
                                ? (sample * staged.positions() + at) * channels + channel
                                : (sample * channels + channel) * staged.positions() + at;
      copy_block(static_cast<const char*>(source) + first * from_size, staged.from,
                 staged.channels_last ? channels : staged.positions(), !staged.channels_last, width, of_block,
                 staged.compute, pixel, to + block * staged.run() * staged.element());
    }
  }
}

void channels_to_front(int64_t channels, int64_t positions, int64_t bytes, const void* in, int64_t begin, int64_t end,
                       void* out) {
  if (bytes == 2)
    to_front(channels, positions, static_cast<const uint16_t*>(in), begin, end, static_cast<uint16_t*>(out));
  else
    to_front(channels, positions, static_cast<const uint32_t*>(in), begin, end, static_cast<uint32_t*>(out));
}

}  // namespace ramet::kernel

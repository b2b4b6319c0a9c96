#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/ops/convolution.h"

namespace ramet::kernel {

/// A tap and where it reads: at `offset` from the place that a position starts from, along one dimension.
struct TapRead {
  int64_t tap, offset;
};

/// Positions of a result along one dimension that read the same taps: position i is at first + i * step and reads
/// i * read_step + offset, for each tap. A transposed convolution has a class for each residue modulo the stride.
struct PositionClass {
  int64_t first = 0, step = 1, count = 0, read_step = 1;
  std::vector<TapRead> taps;  ///< in order of offset
};

/// The classes of one dimension, for the result of a convolution or of a transposed one.
std::vector<PositionClass> position_classes(const ConvolutionSpace& space, bool transposed);

/// A class of positions in all three dimensions.
struct PositionBox {
  std::array<PositionClass, 3> dims;
  int64_t positions() const { return dims[0].count * dims[1].count * dims[2].count; }  ///< of one sample
  int64_t taps() const {
    return static_cast<int64_t>(dims[0].taps.size() * dims[1].taps.size() * dims[2].taps.size());
  }
};
std::vector<PositionBox> position_boxes(const ConvolutionForm& form);

/// Positions of a sample as a kernel reads them: [samples, extents, row], `row` elements a position.
struct PixelView {
  const char* data;
  std::array<int64_t, 3> extents;
  int64_t pixel_bytes;
};

/// For positions [begin, end) of a box, counted over all samples, where each of its taps reads: out[tap * stride + i],
/// and `zeros` beyond the borders. Taps are in the order of the dimensions, the last fastest.
void find_reads(const PositionBox& box, const PixelView& view, const char* zeros, int64_t begin, int64_t end,
                int64_t stride, const char** out);
/// For the same positions, their numbers in the result, of extents `extents`, counted over all samples.
void find_results(const PositionBox& box, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end,
                  int64_t* out);

/// A convolution's filter as the tile kernels read it: for each group and each chunk of the summed channels, panels of
/// up to `width` columns (channels of the result), in each tap after tap, in each rows of 32-bit units (f32, or pairs
/// of neighbouring bf16), zeros behind the channels and the columns. Columns of the last panel are padded to 16.
struct BlockedFilter {
  DType compute = DType::kF32;  ///< f32 or bf16
  int64_t groups = 1, filters = 0, channels = 0;  ///< of a group
  int64_t taps = 1, chunks = 1, width = 64;
  bool transposed = false;  ///< sums over filters; columns are channels
  int64_t merged = 1;       ///< so many taps along the last dimension count as one, their channels one after another

  int64_t columns() const { return transposed ? channels : filters; }
  int64_t summed() const { return (transposed ? filters : channels) / chunks; }
  /// Elements of the compute type that a chunk of channels takes at a position: even for bf16.
  int64_t run() const { return compute == DType::kBF16 ? (summed() + 1) / 2 * 2 : summed(); }
  int64_t units() const { return merged * run() / (compute == DType::kBF16 ? 2 : 1); }  ///< of a tap
  int64_t panels() const { return (columns() + width - 1) / width; }
  int64_t panel_width(int64_t panel) const {
    const int64_t left = columns() - panel * width;
    return left >= width ? width : (left + 15) / 16 * 16;
  }
  int64_t chunk_units() const { return taps / merged * units() * ((columns() + 15) / 16 * 16); }
  int64_t panel_units(int64_t panel) const { return taps / merged * units() * panel * width; }  ///< before a panel
  int64_t bytes() const { return groups * chunks * chunk_units() * 4; }
  int64_t items() const { return groups * chunks * panels(); }
  /// "filter bf16 1 64 64 9 1 64 1 plain": type, groups, filters, channels, taps, chunks, width, merged; and back
  /// (nothing on another text).
  std::string format() const;
  static std::optional<BlockedFilter> parse(const std::string& format);
};

/// Fills items [begin, end) of a blocked filter from [groups * filters, channels, taps] of `type`; `logical` is the
/// type that the filter is of: an f32 source is rounded to it first.
void fill_filter(const BlockedFilter& blocked, const void* source, DType type, DType logical, int64_t begin,
                 int64_t end, void* out);

}  // namespace ramet::kernel

// Moments of channels over rows, and the sums that gradients of norms need, as kernel/cpu/channel_norm.cc where all
// channels of a row lie together: sums of blocks of rows, a channel a thread, that meet along the balanced tree.
// Definition: kRowType.

#include "channel_norm_arguments.h"
#include "convert.cuh"

namespace ramet_device {

using RowType = kRowType;
constexpr int kRowsAtOnce = 8;

/// Two numbers of a block: of moments the mean less the shift and the sum of squared deviations from the mean, of
/// gradients sum(dy) and sum(dy (a - mean)).
struct Sums {
  float first, second;
};

/// Calls `visit(value)` for rows [0, count) of a channel.
template <class Visit>
__device__ __forceinline__ void walk_rows(const RowType::Stored* from, Index distance, int count, const Visit& visit) {
  for (int row = 0; row < count; row += kRowsAtOnce) {
    RowType::Stored values[kRowsAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) values[i] = from[(row + i < count ? row + i : count - 1) * distance];
    RAMET_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i)
      if (row + i < count) visit(row + i, RowType::widen(values[i]));
  }
}

/// The sum of a block's rows from `from` on, less `shift` each, and that of their squares.
__device__ __forceinline__ Sums moments_of(const RowType::Stored* from, Index distance, int count, float shift) {
  float sum = 0.0f, square = 0.0f;
  walk_rows(from, distance, count, [&](int, float value) {
    const float off = value - shift;
    sum += off;
    square = __fmaf_rn(off, off, square);
  });
  const float middle = __fdiv_rn(sum, static_cast<float>(count)), rest = __fmaf_rn(-sum, middle, square);
  return {middle, rest < 0.0f ? 0.0f : rest};
}

/// Rows of a segment that are summed.
__device__ __forceinline__ Index rows_of(const ChannelArguments& a, Index segment) {
  if (a.used == nullptr) return a.rows;
  const Index used = a.used[segment];
  return used < 0 ? 0 : used < a.rows ? used : a.rows;
}
__device__ __forceinline__ int rows_of_block(const ChannelArguments& a, Index segment, Index block) {
  const Index left = rows_of(a, segment) - block * kMomentRows;
  return static_cast<int>(left < 0 ? 0 : left < kMomentRows ? left : kMomentRows);
}
__device__ __forceinline__ const RowType::Stored* rows_at(const void* tensor, const ChannelArguments& a, Index segment,
                                                          Index block, Index channel) {
  return static_cast<const RowType::Stored*>(tensor) + (segment * a.rows + block * kMomentRows) * a.channels + channel;
}
/// The first of the two numbers of a block of rows; the other one stands `channels` behind it.
__device__ __forceinline__ float* numbers_of(const ChannelArguments& a, Index segment, Index block, Index channel) {
  return a.blocks + (segment * a.count_of_blocks + block) * 2 * a.channels + channel;
}

__device__ __forceinline__ Sums sums_of(const ChannelArguments& a, Index segment, Index block, Index channel) {
  const auto* dy = rows_at(a.dy, a, segment, block, channel);
  const float mean = a.mean[(a.own_means != 0 ? segment * a.channels : 0) + channel];
  Sums sums{0.0f, 0.0f};
  walk_rows(rows_at(a.a, a, segment, block, channel), a.channels, rows_of_block(a, segment, block), [&](int row, float value) {
    const float slope = RowType::widen(dy[row * a.channels]);
    sums.first += slope;
    sums.second = __fmaf_rn(slope, value - mean, sums.second);
  });
  return sums;
}

/// Joins the sums of `right` elements into those of the `left` elements before them (Chan et al. 1979).
__device__ __forceinline__ Sums joined(const Sums& a, const Sums& b, double left, double right) {
  const double part = right / (left + right);
  const float share = static_cast<float>(part), weight = static_cast<float>(left * part);
  const float off = b.first - a.first;
  return {__fmaf_rn(off, share, a.first), __fmaf_rn(off * off, weight, a.second + b.second)};
}

/// The tree over the blocks of a segment's channels, in place: channels along a warp, pairs of branches by warps.
__device__ __forceinline__ void join_blocks(const ChannelArguments& a) {
  const Index groups = (a.channels + 31) / 32, segment = static_cast<Index>(blockIdx.x) / groups;
  const Index channel = static_cast<Index>(blockIdx.x) % groups * 32 + static_cast<Index>(threadIdx.x % 32);
  const Index warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const Index rows = rows_of(a, segment), blocks = (rows + kMomentRows - 1) / kMomentRows;
  for (Index stride = 1; stride < blocks; stride *= 2) {
    for (Index left = warp * 2 * stride; left + stride < blocks; left += warps * 2 * stride) {
      if (channel >= a.channels) continue;
      float* to = numbers_of(a, segment, left, channel);
      const float* from = numbers_of(a, segment, left + stride, channel);
      const Sums ours{to[0], to[a.channels]}, others{from[0], from[a.channels]};
      const Index begin = (left + stride) * kMomentRows, end = begin + stride * kMomentRows;
      const Sums both = a.moments == 0 ? Sums{ours.first + others.first, ours.second + others.second}
                                       : joined(ours, others, static_cast<double>(stride * kMomentRows),
                                                static_cast<double>((end < rows ? end : rows) - begin));
      to[0] = both.first;
      to[a.channels] = both.second;
    }
    __syncthreads();
  }
}

/// From the numbers of a segment's channels to its sums: of a group the moments of its channels, along a tree.
__device__ __forceinline__ void store_result(const ChannelArguments& a, Index index) {
  const Index sums = a.channels / a.neighbours, segment = index / sums, channel = index % sums * a.neighbours;
  float* numbers = numbers_of(a, segment, 0, channel);
  if (rows_of(a, segment) == 0) {
    a.first[index] = a.second[index] = 0.0f;
    return;
  }
  if (a.moments == 0) {
    a.first[index] = numbers[0];
    a.second[index] = numbers[a.channels];
    return;
  }
  const float* shifts = a.shifts + segment * a.channels + channel;
  const auto rows = static_cast<double>(rows_of(a, segment));
  for (Index stride = 1; stride < a.neighbours; stride *= 2)
    for (Index left = 0; left + stride < a.neighbours; left += 2 * stride) {
      const Index other = left + stride, end = other + stride < a.neighbours ? other + stride : a.neighbours;
      const double ours = rows * static_cast<double>(stride), others = rows * static_cast<double>(end - other);
      const double part = others / (ours + others);
      const float share = static_cast<float>(part), weight = static_cast<float>(ours * part);
      const float off = (shifts[other] - shifts[left]) + (numbers[other] - numbers[left]);
      float* squares = numbers + a.channels;
      numbers[left] = numbers[left] + off * share;
      squares[left] = squares[left] + squares[other] + off * off * weight;
    }
  a.first[index] = shifts[0] + numbers[0];
  a.second[index] = __fdiv_rn(numbers[a.channels], static_cast<float>(rows * static_cast<double>(a.neighbours)));
}

}  // namespace ramet_device

/// The means of the first rows of segments.
RAMET_KERNEL(256, channel_shifts, ramet_device::ChannelArguments, a) {
  using namespace ramet_device;
  for (Index i = first_index(); i < a.segments * a.channels; i += index_step())
    a.shifts[i] = moments_of(rows_at(a.a, a, i / a.channels, 0, i % a.channels), a.channels,
                             rows_of_block(a, i / a.channels, 0), 0.0f)
                      .first;
}

RAMET_KERNEL(256, channel_blocks, ramet_device::ChannelArguments, a) {
  using namespace ramet_device;
  for (Index i = first_index(); i < a.segments * a.count_of_blocks * a.channels; i += index_step()) {
    const Index channel = i % a.channels, block = i / a.channels % a.count_of_blocks;
    const Index segment = i / a.channels / a.count_of_blocks;
    const Sums sums = a.moments == 0 ? sums_of(a, segment, block, channel)
                                     : moments_of(rows_at(a.a, a, segment, block, channel), a.channels,
                                                  rows_of_block(a, segment, block), a.shifts[segment * a.channels + channel]);
    float* to = numbers_of(a, segment, block, channel);
    to[0] = sums.first;
    to[a.channels] = sums.second;
  }
}

RAMET_KERNEL(256, channel_tree, ramet_device::ChannelArguments, a) { ramet_device::join_blocks(a); }

RAMET_KERNEL(256, channel_results, ramet_device::ChannelArguments, a) {
  using namespace ramet_device;
  for (Index i = first_index(); i < a.segments * (a.channels / a.neighbours); i += index_step()) store_result(a, i);
}

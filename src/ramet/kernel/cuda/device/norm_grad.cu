// Gradients of layer norm and RMS norm, as kernel/cpu/normalize.cc: that of the rows, and the sums over rows for gain
// and bias. A block of threads has one block of kReduceRows rows: its threads share columns for the sums, its warps
// rows. Definitions: kRowType, kGainType, kBlockThreads; kRowWidth where sums of columns are kept in registers.

#include "joins.cuh"
#include "rows.cuh"
#include "rows_arguments.h"

#ifndef kRowWidth
#define kRowWidth 0
#endif

namespace ramet_device {

constexpr int kFixedWidth = kRowWidth, kThreads = kBlockThreads, kWarps = kThreads / 32;
using RowType = kRowType;
using RowWord = WordOf<RowType>;

/// Where row `index` of a chunk lies.
__device__ __forceinline__ Index row_of(const RowChunks& chunks, Index chunk, Index index) {
  if (chunks.chunks == 1) return index;
  return (index / chunks.run * chunks.chunks + chunk) * chunks.run + index % chunks.run;
}

/// What is known of each row of the block.
struct BlockRow {
  Index row;
  float mean, rstd;
};

struct ColumnSums {
  Pair gain, bias;
};

__device__ __forceinline__ int width_of(const NormGradArguments& a) { return kFixedWidth > 0 ? kFixedWidth : a.width; }

/// Adds rows [0, count) to the sums of a pair of columns; the first row of a block starts them.
template <bool kCentered>
__device__ __forceinline__ void add_rows(const NormGradArguments& a, const BlockRow* rows, int count, bool start,
                                         int column, ColumnSums& sums) {
  constexpr int kAtOnce = 8;
  const int width = width_of(a), columns = column + 1 < width ? 2 : 1;
  const bool paired = width % 2 == 0;
  for (int first = 0; first < count; first += kAtOnce) {
    RowWord dy[kAtOnce], values[kAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const Index row = rows[first + i < count ? first + i : count - 1].row;
      dy[i] = load_word<RowType>(row_at<RowType>(a.dy, row, width) + column, columns, paired);
      values[i] = load_word<RowType>(row_at<RowType>(a.a, row, width) + column, columns, paired);
    }
    RAMET_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= count) continue;
      const BlockRow& at = rows[first + i];
      const bool starts = start && first + i == 0;
      const Pair slope = PairWord<RowType>::widen(dy[i]), value = PairWord<RowType>::widen(values[i]);
      for (int k = 0; k < 2; ++k) {
        const float off = kCentered ? value.at[k] - at.mean : value.at[k];
        const float term = slope.at[k] * (off * at.rstd);
        sums.gain.at[k] = starts ? term : sums.gain.at[k] + term;
        if (kCentered) sums.bias.at[k] = starts ? slope.at[k] : sums.bias.at[k] + slope.at[k];
      }
    }
  }
}

template <bool kCentered>
__device__ __forceinline__ void store_sums(const NormGradArguments& a, Index task, int column, const ColumnSums& sums) {
  const int width = width_of(a), columns = column + 1 < width ? 2 : 1;
  const bool paired = width % 2 == 0;
  store_pair<F32>(sums.gain, row_at<F32>(static_cast<void*>(a.gain_sums), task, width), column, columns, paired);
  if (kCentered)
    store_pair<F32>(sums.bias, row_at<F32>(static_cast<void*>(a.bias_sums), task, width), column, columns, paired);
}

/// Reads its rows from the cache, so that registers are left for more warps.
/// da = rstd (g - mean(g) - normal mean(g normal)), g = dy gain; RMS norm has no mean.
template <bool kCentered>
__device__ __forceinline__ void row_gradient(const NormGradArguments& a, const BlockRow& at) {
  const int width = width_of(a);
  const bool paired = width % 2 == 0;
  const Row<RowType, 0> slopes(row_at<RowType>(a.dy, at.row, width), width, paired);
  const Row<RowType, 0> values(row_at<RowType>(a.a, at.row, width), width, paired);
  const float mean = at.mean, rstd = at.rstd;
  RowLanes sums(0.0f), dots(0.0f);
  walk_rows(slopes, values, width, [&](int element, int count, Pair slope, Pair value) {
    const Pair gain = load_constant_pair<kGainType>(a.gain, element, count, paired);
    for (int k = 0; k < 2 && k < count; ++k) {
      const float normal = (kCentered ? value.at[k] - mean : value.at[k]) * rstd;
      const float g = slope.at[k] * gain.at[k];
      if (kCentered) sums.lane[k] += g;
      dots.lane[k] = __fmaf_rn(g, normal, dots.lane[k]);
    }
  });
  const float inverse = __fdiv_rn(1.0f, static_cast<float>(width));
  const float mean_g = kCentered ? sums.sum() * inverse : 0.0f, mean_dot = dots.sum() * inverse;
  walk_rows(slopes, values, width, [&](int element, int count, Pair slope, Pair value) {
    const Pair gain = load_constant_pair<kGainType>(a.gain, element, count, paired);
    Pair out;
    for (int k = 0; k < 2; ++k) {
      const float normal = (kCentered ? value.at[k] - mean : value.at[k]) * rstd;
      const float g = slope.at[k] * gain.at[k];
      out.at[k] = rstd * __fmaf_rn(-normal, mean_dot, kCentered ? g - mean_g : g);
    }
    store_pair<RowType>(out, row_at<RowType>(a.out, at.row, width), element, count, paired);
  });
}

/// Sums stay in registers while tiles of rows go by, a row a warp, which are in the cache when their own gradients
/// come.
template <bool kCentered>
__device__ __forceinline__ void walk_tiles(const NormGradArguments& a, Index task, const BlockRow* rows, int count) {
  constexpr int kTile = kWarps, kStrips = (kFixedWidth + 2 * kThreads - 1) / (2 * kThreads);
  ColumnSums sums[kStrips > 0 ? kStrips : 1];
  for (int tile = 0; tile < count; tile += kTile) {
    const int here = count - tile < kTile ? count - tile : kTile;
    if (a.gain_sums != nullptr) {
      RAMET_UNROLL
      for (int strip = 0; strip < kStrips; ++strip) {
        const int column = 2 * (static_cast<int>(threadIdx.x) + strip * kThreads);
        if (column < kFixedWidth) add_rows<kCentered>(a, rows + tile, here, tile == 0, column, sums[strip]);
      }
    }
    __syncthreads();  // the gradient of rows may overwrite what was summed
    const int warp = static_cast<int>(threadIdx.x / 32);
    if (warp < here) row_gradient<kCentered>(a, rows[tile + warp]);
  }
  if (a.gain_sums == nullptr) return;
  RAMET_UNROLL
  for (int strip = 0; strip < kStrips; ++strip) {
    const int column = 2 * (static_cast<int>(threadIdx.x) + strip * kThreads);
    if (column < kFixedWidth) store_sums<kCentered>(a, task, column, sums[strip]);
  }
}

/// Rows of any width: the sums of a strip of columns over all rows of the block, strip by strip, then the rows.
template <bool kCentered>
__device__ __forceinline__ void walk_block(const NormGradArguments& a, Index task, const BlockRow* rows, int count) {
  if (a.gain_sums != nullptr) {
    for (int column = 2 * static_cast<int>(threadIdx.x); column < a.width; column += 2 * kThreads) {
      ColumnSums sums;
      add_rows<kCentered>(a, rows, count, true, column, sums);
      store_sums<kCentered>(a, task, column, sums);
    }
  }
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.x / 32); row < count; row += kWarps) row_gradient<kCentered>(a, rows[row]);
}

template <bool kCentered>
__device__ __forceinline__ void norm_grad_block(const NormGradArguments& a) {
  RAMET_SHARED(BlockRow, rows, kReduceRows);
  const Index task = blockIdx.x, chunk = task / a.chunks.blocks, first = task % a.chunks.blocks * kReduceRows;
  const int count = static_cast<int>(a.chunks.rows - first < kReduceRows ? a.chunks.rows - first : kReduceRows);
  if (static_cast<int>(threadIdx.x) < count) {
    const Index row = row_of(a.chunks, chunk, first + static_cast<int>(threadIdx.x));
    rows[threadIdx.x] = {row, kCentered ? a.mean[row] : 0.0f, a.rstd[row]};
  }
  __syncthreads();
  if constexpr (kFixedWidth > 0)
    walk_tiles<kCentered>(a, task, rows, count);
  else
    walk_block<kCentered>(a, task, rows, count);
}

/// Sums over all rows, a chain a column; a thread has a pair of columns.
template <bool kCentered>
__device__ __forceinline__ void sums_in_order(const NormGradArguments& a) {
  RAMET_SHARED(BlockRow, rows, kReduceRows);
  const int width = width_of(a), column = 2 * static_cast<int>(first_index());
  ColumnSums sums;
  for (Index first = 0; first < a.chunks.rows; first += kReduceRows) {
    const int count = static_cast<int>(a.chunks.rows - first < kReduceRows ? a.chunks.rows - first : kReduceRows);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
      rows[i] = {first + i, kCentered ? a.mean[first + i] : 0.0f, a.rstd[first + i]};
    __syncthreads();
    if (column < width) add_rows<kCentered>(a, rows, count, first == 0, column, sums);
  }
  if (column < width) store_sums<kCentered>(a, 0, column, sums);
}

}  // namespace ramet_device

RAMET_KERNEL(kBlockThreads, layer_norm_grad, ramet_device::NormGradArguments, a) {
  ramet_device::norm_grad_block<true>(a);
}
RAMET_KERNEL(kBlockThreads, rms_norm_grad, ramet_device::NormGradArguments, a) {
  ramet_device::norm_grad_block<false>(a);
}
RAMET_KERNEL(kBlockThreads, layer_norm_sums, ramet_device::NormGradArguments, a) {
  ramet_device::sums_in_order<true>(a);
}
RAMET_KERNEL(kBlockThreads, rms_norm_sums, ramet_device::NormGradArguments, a) {
  ramet_device::sums_in_order<false>(a);
}

// Gradients of layer norm and RMS norm, as kernel/cpu/normalize.cc: that of the rows, and the sums over rows for gain
// and bias. A block of threads has one block of kReduceRows rows: its threads share columns for the sums, its warps
// rows. Definitions: kRowType, kGainType, kBlockThreads; kRowWidth where sums of columns are kept in registers; kStaged
// where rows are copied to shared memory ahead.

#include "fixed_rows.cuh"
#include "joins.cuh"
#include "rows.cuh"
#include "rows_arguments.h"
#include "tensor_core.cuh"

#ifndef kStaged
#define kStaged 0
#endif

namespace ramet_device {

constexpr int kThreads = kBlockThreads;
using RowWord = WordOf<RowType>;
using RowStored = RowType::Stored;
/// The width of rows whose terms stay in registers between the two walks over them.
constexpr int kKeptWidth = kStaged != 0 && kFixedWidth <= 1024 ? kFixedWidth : 0;

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

/// Adds a row to the sums of a pair of columns; the first row of a block starts them.
template <bool kCentered>
__device__ __forceinline__ void add_row(const BlockRow& at, bool starts, RowWord dy, RowWord a, ColumnSums& sums) {
  const Pair slope = PairWord<RowType>::widen(dy), value = PairWord<RowType>::widen(a);
  for (int k = 0; k < 2; ++k) {
    const float off = kCentered ? value.at[k] - at.mean : value.at[k];
    const float term = slope.at[k] * (off * at.rstd);
    sums.gain.at[k] = starts ? term : sums.gain.at[k] + term;
    if (kCentered) sums.bias.at[k] = starts ? slope.at[k] : sums.bias.at[k] + slope.at[k];
  }
}

/// Adds rows [0, count).
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
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < count) add_row<kCentered>(rows[first + i], start && first + i == 0, dy[i], values[i], sums);
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

/// What a pair of a row gives both walks.
struct Terms {
  Pair normal, g;
};

/// da = rstd (g - mean(g) - normal mean(g normal)), g = dy gain; RMS norm has no mean. The rows are near: in the cache
/// or in shared memory.
template <bool kCentered>
__device__ __forceinline__ void row_gradient(const NormGradArguments& a, const BlockRow& at, const RowStored* slope_row,
                                             const RowStored* value_row) {
  const int width = width_of(a);
  const bool paired = width % 2 == 0;
  const float mean = at.mean, rstd = at.rstd;
  const auto terms = [&](int element, int count) {
    const Pair gain = load_constant_pair<kGainType>(a.gain, element, count, paired);
    const Pair slope = load_pair<RowType>(slope_row, element, count, paired);
    const Pair value = load_pair<RowType>(value_row, element, count, paired);
    Terms made;
    for (int k = 0; k < 2; ++k) {
      made.normal.at[k] = (kCentered ? value.at[k] - mean : value.at[k]) * rstd;
      made.g.at[k] = slope.at[k] * gain.at[k];
    }
    return made;
  };
  constexpr bool kKeeps = kKeptWidth > 0;
  Terms kept[kKeeps ? (kKeptWidth + kRowLanes - 1) / kRowLanes : kPairsAtOnce];
  RowLanes sums(0.0f), dots(0.0f);
  for_each_pair<kKeptWidth>(
      width, [&](int element, int count, int step, int slot) { kept[kKeeps ? step : slot] = terms(element, count); },
      [&](int, int count, int step, int slot) {
        const Terms& here = kept[kKeeps ? step : slot];
        for (int k = 0; k < 2 && k < count; ++k) {
          if (kCentered) sums.lane[k] += here.g.at[k];
          dots.lane[k] = __fmaf_rn(here.g.at[k], here.normal.at[k], dots.lane[k]);
        }
      });
  const float inverse = __fdiv_rn(1.0f, static_cast<float>(width));
  const float mean_g = kCentered ? sums.sum() * inverse : 0.0f, mean_dot = dots.sum() * inverse;
  for_each_pair<kKeptWidth>(
      width,
      [&](int element, int count, int, int slot) {
        if (!kKeeps) kept[slot] = terms(element, count);
      },
      [&](int element, int count, int step, int slot) {
        const Terms& here = kept[kKeeps ? step : slot];
        Pair out;
        for (int k = 0; k < 2; ++k) {
          const float g = here.g.at[k];
          out.at[k] = rstd * __fmaf_rn(-here.normal.at[k], mean_dot, kCentered ? g - mean_g : g);
        }
        store_pair<RowType>(out, row_at<RowType>(a.out, at.row, width), element, count, paired);
      });
}
template <bool kCentered>
__device__ __forceinline__ void row_gradient(const NormGradArguments& a, const BlockRow& at) {
  row_gradient<kCentered>(a, at, row_at<RowType>(a.dy, at.row, width_of(a)), row_at<RowType>(a.a, at.row, width_of(a)));
}

/// Columns of a thread: pairs at this distance.
constexpr int kStrips = (kFixedWidth + 2 * kThreads - 1) / (2 * kThreads);
__device__ __forceinline__ int column_of(int strip) { return 2 * (static_cast<int>(threadIdx.x) + strip * kThreads); }

template <bool kCentered>
__device__ __forceinline__ void store_strips(const NormGradArguments& a, Index task, const ColumnSums* sums) {
  RAMET_UNROLL
  for (int strip = 0; strip < kStrips; ++strip)
    if (a.gain_sums != nullptr && column_of(strip) < kFixedWidth)
      store_sums<kCentered>(a, task, column_of(strip), sums[strip]);
}

// --- rows by way of shared memory: while some are worked on, the next ones come ---

constexpr int kStageRows = 8, kRowBytes = kFixedWidth * static_cast<int>(sizeof(RowStored)),
              kRowPieces = kRowBytes / 16;

__device__ __forceinline__ void copy_rows(const NormGradArguments& a, const BlockRow* rows, int count,
                                          unsigned char* stage) {
  constexpr int kPieces = kRowPieces > 0 ? kRowPieces : 1;
  for (int i = static_cast<int>(threadIdx.x); i < count * 2 * kPieces; i += kThreads) {
    const int line = i / kPieces, offset = i % kPieces * 16;
    const auto* from = static_cast<const unsigned char*>(line % 2 == 0 ? a.dy : a.a);
    copy_16_async(stage + line * kRowBytes + offset, from + rows[line / 2].row * kRowBytes + offset, true);
  }
}

template <bool kCentered>
__device__ __forceinline__ void work_on_stage(const NormGradArguments& a, const BlockRow* rows, int count, bool start,
                                              const unsigned char* stage, ColumnSums* sums) {
  const auto line = [&](int index) { return reinterpret_cast<const RowStored*>(stage + index * kRowBytes); };
  RAMET_UNROLL
  for (int strip = 0; strip < kStrips; ++strip) {
    const int column = column_of(strip);
    if (a.gain_sums == nullptr || column >= kFixedWidth) continue;
    RAMET_UNROLL
    for (int i = 0; i < kStageRows; ++i)
      if (i < count)
        add_row<kCentered>(rows[i], start && i == 0, load_word<RowType>(line(2 * i) + column, 2, true),
                           load_word<RowType>(line(2 * i + 1) + column, 2, true), sums[strip]);
  }
  const int warp = static_cast<int>(threadIdx.x / 32);
  if (warp < count) row_gradient<kCentered>(a, rows[warp], line(2 * warp), line(2 * warp + 1));
}

template <bool kCentered>
__device__ __forceinline__ void walk_stages(const NormGradArguments& a, Index task, const BlockRow* rows, int count) {
  constexpr int kStageBytes = kStageRows * 2 * kRowBytes;  // each row of dy, and the row of a
  RAMET_DYNAMIC_SHARED(stages);
  ColumnSums sums[kStrips > 0 ? kStrips : 1];
  const auto rows_from = [&](int first) { return count - first < kStageRows ? count - first : kStageRows; };
  copy_rows(a, rows, rows_from(0), stages);
  commit_copies();
  for (int first = 0; first < count; first += kStageRows) {
    const int stage = first / kStageRows % 2, next = first + kStageRows;
    if (next < count) copy_rows(a, rows + next, rows_from(next), stages + (1 - stage) * kStageBytes);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    work_on_stage<kCentered>(a, rows + first, rows_from(first), first == 0, stages + stage * kStageBytes, sums);
    __syncthreads();  // the next copies come to where these rows are
  }
  store_strips<kCentered>(a, task, sums);
}

// --- rows as they lie ---

/// Sums stay in registers while tiles of rows go by, a row a warp, which are in the cache when their own gradients
/// come.
template <bool kCentered>
__device__ __forceinline__ void walk_tiles(const NormGradArguments& a, Index task, const BlockRow* rows, int count) {
  constexpr int kTile = kThreads / 32;
  ColumnSums sums[kStrips > 0 ? kStrips : 1];
  for (int tile = 0; tile < count; tile += kTile) {
    const int here = count - tile < kTile ? count - tile : kTile;
    RAMET_UNROLL
    for (int strip = 0; strip < kStrips; ++strip)
      if (a.gain_sums != nullptr && column_of(strip) < kFixedWidth)
        add_rows<kCentered>(a, rows + tile, here, tile == 0, column_of(strip), sums[strip]);
    __syncthreads();  // the gradient of rows may overwrite what was summed
    const int warp = static_cast<int>(threadIdx.x / 32);
    if (warp < here) row_gradient<kCentered>(a, rows[tile + warp]);
  }
  store_strips<kCentered>(a, task, sums);
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
  for (int row = static_cast<int>(threadIdx.x / 32); row < count; row += kThreads / 32)
    row_gradient<kCentered>(a, rows[row]);
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
  if constexpr (kStaged != 0)
    walk_stages<kCentered>(a, task, rows, count);
  else if constexpr (kFixedWidth > 0)
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

// Statistics of chunks of logits and their gradient, a warp a chunk of a row, as kernel/cpu/loss.cc. Definitions:
// kRowType; kRowWidth where chunks are kept in registers.

#include "chunk.cuh"

namespace ramet_device {

__device__ __forceinline__ void chunk_statistics(const StatisticsArguments& a, const Chunk& chunk) {
  const int width = kFixedWidth > 0 ? kFixedWidth : a.width;
  const auto* row = row_at<RowType>(a.logits, chunk.task, width);
  const Row<RowType, kFixedWidth> logits(row, width, width % 2 == 0);
  RowLanes most(-infinity()), sums(0.0f);
  walk_row(logits, width, [&](int element, int count, Pair value) {
    const int here = classes_here(element, count, chunk.classes);
    for (int k = 0; k < 2 && k < here; ++k) most.lane[k] = more_of(most.lane[k], value.at[k]);
  });
  const float top = most.most(), shift = shift_of(top);
  bool before = false;
  walk_row(logits, width, [&](int element, int count, Pair value) {
    const int here = classes_here(element, count, chunk.classes);
    for (int k = 0; k < 2 && k < here; ++k) {
      sums.lane[k] += exp_negative(value.at[k] - shift);
      before = before || (value.at[k] == top && element + k < chunk.label);
    }
  });
  const float sum = sums.sum();
  before = __ballot_sync(~0u, before ? 1 : 0) != 0u;
  if (threadIdx.x % 32 == 0) store_statistics(a, chunk, row, top, sum, before);
}

__device__ __forceinline__ void chunk_gradient(const StatisticsArguments& a, const Chunk& chunk) {
  const int width = a.width;
  const bool paired = width % 2 == 0;
  const auto* row = row_at<RowType>(a.logits, chunk.task, width);
  ChunkSlopes slopes(a, chunk);
  if (slopes.rest != 0.0f) {
    int best = first_equal(row, chunk.classes, slopes.top, static_cast<int>(threadIdx.x % 32), 32);
    for (int by = 16; by > 0; by /= 2) {
      const int other = __shfl_xor_sync(~0u, best, by);
      best = other < best ? other : best;
    }
    slopes.best = best;
  }
  __syncwarp();  // the gradient may overwrite logits
  walk_row(Row<RowType, 0>(row, width, paired), width, [&](int element, int count, Pair value) {
    for (int k = 0; k < 2; ++k) value.at[k] = slopes.at(chunk, element + k, value.at[k]);
    store_pair<RowType>(value, row_at<RowType>(a.gradient, chunk.task, width), element, count, paired);
  });
}

}  // namespace ramet_device

RAMET_KERNEL(256, softmax_statistics, ramet_device::StatisticsArguments, a) {
  for (ramet_device::Index task = ramet_device::first_row(); task < a.rows * a.chunks; task += ramet_device::row_step())
    ramet_device::chunk_statistics(a, ramet_device::chunk_of(a, task));
}

RAMET_KERNEL(256, softmax_statistics_grad, ramet_device::StatisticsArguments, a) {
  for (ramet_device::Index task = ramet_device::first_row(); task < a.rows * a.chunks; task += ramet_device::row_step())
    ramet_device::chunk_gradient(a, ramet_device::chunk_of(a, task));
}

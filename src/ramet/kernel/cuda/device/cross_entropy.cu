// What the statistics of logits give: losses of rows, their mean, and the slopes of the statistics; a thread a row.

#include "loss_arguments.h"
#include "statistics.cuh"

namespace ramet_device {

__device__ __forceinline__ void join_row(const JoinArguments& a, Index row) {
  const float* chunk = a.statistics + row * a.chunks * kStatistics;
  const SoftmaxSum all = sum_of_row(chunk, a.chunks);
  const float log_sum = log_of(all.sum);
  float loss = 0.0f;
  int state = 0;
  bool greater_before = false;
  for (int i = 0; i < a.chunks; ++i, chunk += kStatistics) {
    const bool greatest = chunk[kChunkMost] == all.most;
    if (chunk[kChunkLabel] != 0.0f) {
      loss = all.most - chunk[kChunkLogit] + log_sum;
      state = chunk[kChunkLabel] == 2.0f && !greater_before && greatest ? 2 : 1;
    }
    greater_before = greater_before || greatest;
  }
  a.losses[row] = loss;
  if (a.lse != nullptr) a.lse[row] = all.most + log_sum;
  if (a.states != nullptr) a.states[row] = static_cast<unsigned char>(state);
  if (a.counted != nullptr) a.counted[row] = state != 0 ? 1.0f : 0.0f;
}

__device__ __forceinline__ bool has_label(const float* chunk, int chunks) {
  bool has = false;
  for (int i = 0; i < chunks; ++i) has = has || chunk[i * kStatistics + kChunkLabel] != 0.0f;
  return has;
}

__device__ __forceinline__ void store_slopes(float* slopes, float most, float sum, float logit) {
  slopes[kChunkMost] = most;
  slopes[kChunkSum] = sum;
  slopes[kChunkLogit] = logit;
  slopes[kChunkLabel] = 0.0f;
}

/// Of the mean of all rows that have a label.
__device__ __forceinline__ void join_row_grad(const JoinArguments& a, Index row, float factor) {
  const float* chunk = a.statistics + row * a.chunks * kStatistics;
  float* slopes = a.slopes + row * a.chunks * kStatistics;
  const SoftmaxSum all = sum_of_row(chunk, a.chunks);
  const bool counted = has_label(chunk, a.chunks);
  for (int i = 0; i < a.chunks; ++i, chunk += kStatistics, slopes += kStatistics) {
    const float dsum = counted ? share(all, chunk[kChunkMost]) * factor : 0.0f;
    store_slopes(slopes, counted ? dsum * chunk[kChunkSum] : 0.0f, dsum, chunk[kChunkLabel] != 0.0f ? -factor : 0.0f);
  }
}

/// With a slope of its own for each row.
__device__ __forceinline__ void row_grad(const JoinArguments& a, Index row) {
  const float* chunk = a.statistics + row * a.chunks * kStatistics;
  float* slopes = a.slopes + row * a.chunks * kStatistics;
  const SoftmaxSum all = sum_of_row(chunk, a.chunks);
  const float dlse = a.dlse[row], dloss = a.dlosses[row];
  const float slope = has_label(chunk, a.chunks) ? dlse + dloss : dlse;
  for (int i = 0; i < a.chunks; ++i, chunk += kStatistics, slopes += kStatistics) {
    const float dsum = slope == 0.0f ? 0.0f : share(all, chunk[kChunkMost]) * slope;
    store_slopes(slopes, dsum * chunk[kChunkSum], dsum, chunk[kChunkLabel] != 0.0f ? -dloss : 0.0f);
  }
}

constexpr int kMeanThreads = 256;

__device__ __forceinline__ float add(float a, float b) { return a + b; }

/// Losses of a block of rows from `first` on, one after another.
__device__ __forceinline__ float block_sum(const float* losses, Index first, Index rows) {
  constexpr int kAtOnce = 16;
  const Index end = first + kReduceRows < rows ? first + kReduceRows : rows;
  float sum = 0.0f;
  for (Index row = first; row < end; row += kAtOnce) {
    float some[kAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kAtOnce; ++i) some[i] = losses[row + i < end ? row + i : end - 1];
    RAMET_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (row + i < end) sum = row + i == first ? some[i] : sum + some[i];
  }
  return sum;
}

/// Blocks of rows in order, whose sums take the place of their first rows, and the balanced tree over them, of which
/// each thread has a part. In the first thread.
__device__ __forceinline__ float sum_by_tree(float* losses, Index rows) {
  RAMET_SHARED(float, parts, kMeanThreads);
  const Index blocks = (rows + kReduceRows - 1) / kReduceRows;
  for (Index block = threadIdx.x; block < blocks; block += kMeanThreads)
    losses[block * kReduceRows] = block_sum(losses, block * kReduceRows, rows);
  __syncthreads();
  const Index span = tree_span(blocks, kMeanThreads), first = static_cast<Index>(threadIdx.x) * span;
  const Index used = (blocks + span - 1) / span;
  if (static_cast<Index>(threadIdx.x) < used)
    parts[threadIdx.x] = tree_of<float>(
        first, first + span < blocks ? first + span : blocks, [&](Index block) { return losses[block * kReduceRows]; },
        add);
  __syncthreads();
  if (threadIdx.x != 0 || used == 0) return 0.0f;
  return tree_of<float>(0, used, [&](Index i) { return parts[i]; }, add);
}

/// One chain of additions. In the first thread.
__device__ __forceinline__ float sum_in_order(const float* losses, Index rows) {
  RAMET_SHARED(float, part, kMeanThreads);
  float sum = 0.0f;
  for (Index first = 0; first < rows; first += kMeanThreads) {
    const Index row = first + static_cast<Index>(threadIdx.x);
    if (row < rows) part[threadIdx.x] = losses[row];
    __syncthreads();
    const int here = static_cast<int>(rows - first < kMeanThreads ? rows - first : kMeanThreads);
    for (int i = 0; threadIdx.x == 0 && i < here; ++i) sum += part[i];
    __syncthreads();
  }
  return sum;
}

/// The mean over rows that have a label, how many have one, and how many are right; one block.
__device__ __forceinline__ void store_mean(const MeanArguments& a) {
  RAMET_SHARED(int, counts, 2);
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  int counted = 0, right = 0;
  for (Index row = threadIdx.x; row < a.rows; row += kMeanThreads) {
    counted += a.states[row] != 0;
    right += a.states[row] == 2;
  }
  atomicAdd(&counts[0], counted);
  atomicAdd(&counts[1], right);
  const float sum = a.in_order != 0 ? sum_in_order(a.losses, a.rows) : sum_by_tree(a.losses, a.rows);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const float count = static_cast<float>(counts[0]);
  *a.loss = counts[0] > 0 ? __fdiv_rn(sum, count) : 0.0f;
  *a.count = count;
  *a.correct = static_cast<float>(counts[1]);
}

}  // namespace ramet_device

RAMET_KERNEL(256, join_rows, ramet_device::JoinArguments, a) {
  for (ramet_device::Index row = ramet_device::first_index(); row < a.rows; row += ramet_device::index_step())
    ramet_device::join_row(a, row);
}

RAMET_KERNEL(256, join_rows_grad, ramet_device::JoinArguments, a) {
  const float factor = __fdiv_rn(*a.dloss, *a.count);
  for (ramet_device::Index row = ramet_device::first_index(); row < a.rows; row += ramet_device::index_step())
    ramet_device::join_row_grad(a, row, factor);
}

RAMET_KERNEL(256, rows_grad, ramet_device::JoinArguments, a) {
  for (ramet_device::Index row = ramet_device::first_index(); row < a.rows; row += ramet_device::index_step())
    ramet_device::row_grad(a, row);
}

RAMET_KERNEL(256, mean_of_rows, ramet_device::MeanArguments, a) { ramet_device::store_mean(a); }

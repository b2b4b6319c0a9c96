// Statistics of wide chunks of logits and their gradient, a block a chunk of a row: as loss.cu, with the same bits.
// Several warps share what has no order; the sums of exponentials do, and one warp adds them. What is rare - the label,
// the greatest logit where its slope counts, NaN - is no part of the loops. Definitions: kRowType; kPaired, whether
// rows begin at whole pairs.

#include "chunk.cuh"

namespace ramet_device {

constexpr bool kRowsPaired = kPaired != 0;
/// Warps that read; one more adds.
constexpr int kReaders = kWideThreads / 32 - 1;
/// Stretches of kRowLanes that a warp reads at a time.
constexpr int kSteps = 4, kRoundSteps = kReaders * kSteps, kRound = kRoundSteps * kRowLanes;

/// What the warps of a block leave for each other.
struct Shared {
  Pair exponentials[2][kRound / 2];
  float most[kReaders];
  float top, sum;
  int before;
};

__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x / 32); }
__device__ __forceinline__ int first_lane() { return 2 * static_cast<int>(threadIdx.x % 32); }

/// Calls `visit(element, count, value)` for pairs of elements [0, count of them) of a row, kPairsAtOnce of a warp at a
/// time, by `warps` warps in turn.
template <class Visit>
__device__ __forceinline__ void walk_shared(const RowType::Stored* row, int elements, int warps, const Visit& visit) {
  constexpr int kPart = kPairsAtOnce * kRowLanes;
  for (int begin = warp_index() * kPart; begin < elements; begin += warps * kPart) {
    const int part = elements - begin < kPart ? elements - begin : kPart;
    walk_row(Row<RowType, 0>(row + begin, part, kRowsPaired), part,
             [&](int element, int count, Pair value) { visit(begin + element, count, value); });
  }
}

/// The greatest logit, if it is neither 0 nor beside a NaN: then the order counts. By the readers; in shared.most.
__device__ __forceinline__ void find_greatest(const RowType::Stored* row, int classes, Shared& shared) {
  float most = -infinity();
  walk_shared(row, classes, kReaders, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) most = fmaxf(most, value.at[k]);
  });
  for (int by = 16; by > 0; by /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, by));
  if (threadIdx.x % 32 == 0) shared.most[warp_index()] = most;
}

/// The greatest logit as sums over rows are ordered. By one warp.
__device__ __forceinline__ float greatest_in_order(const RowType::Stored* row, int classes) {
  RowLanes most(-infinity());
  walk_row(Row<RowType, 0>(row, classes, kRowsPaired), classes, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) most.lane[k] = more_of(most.lane[k], value.at[k]);
  });
  return most.most();
}

__device__ __forceinline__ float greatest(const RowType::Stored* row, int classes, Shared& shared) {
  if (warp_index() < kReaders) find_greatest(row, classes, shared);
  __syncthreads();
  float top = shared.most[0];
  for (int i = 1; i < kReaders; ++i) top = fmaxf(top, shared.most[i]);
  return top;
}

/// Exponentials of a warp's stretches of a round.
__device__ __forceinline__ void exponentials(const RowType::Stored* row, int classes, int round, float shift,
                                             Pair* to) {
  const int first = warp_index() * kSteps * kRowLanes + first_lane(), begin = round * kRound + first;
  Pair value[kSteps];
  RAMET_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const int element = begin + step * kRowLanes;
    if (element < classes) value[step] = load_pair<RowType>(row, element, element + 1 < classes ? 2 : 1, kRowsPaired);
  }
  RAMET_UNROLL
  for (int step = 0; step < kSteps; ++step)
    to[(first + step * kRowLanes) / 2] = {
        {exp_negative(value[step].at[0] - shift), exp_negative(value[step].at[1] - shift)}};
}

__device__ __forceinline__ void add_round(const Pair* from, int round, int classes, RowLanes& sums) {
  const int begin = round * kRound + first_lane();
  const bool whole = (round + 1) * kRound <= classes;
  RAMET_UNROLL
  for (int step = 0; step < kRoundSteps; ++step) {
    const Pair value = from[step * kRowLanes / 2 + static_cast<int>(threadIdx.x % 32)];
    for (int k = 0; k < 2; ++k)
      if (whole || begin + step * kRowLanes + k < classes) sums.lane[k] += value.at[k];
  }
}

/// The sum of exponentials, in the warp that adds: one round is read while the one before is added.
__device__ __forceinline__ float sum_exponentials(const RowType::Stored* row, int classes, float shift,
                                                  Shared& shared) {
  const int rounds = (classes + kRound - 1) / kRound;
  const bool adds = warp_index() == kReaders;
  RowLanes sums(0.0f);
  for (int round = 0; round <= rounds; ++round) {
    if (!adds && round < rounds) exponentials(row, classes, round, shift, shared.exponentials[round % 2]);
    if (adds && round > 0) add_round(shared.exponentials[(round - 1) % 2], round - 1, classes, sums);
    __syncthreads();
  }
  return adds ? sums.sum() : 0.0f;
}

__device__ __forceinline__ void wide_statistics(const StatisticsArguments& a, const Chunk& chunk) {
  RAMET_SHARED(Shared, all, 1);
  Shared& shared = all[0];
  const auto* row = row_at<RowType>(a.logits, chunk.task, a.width);
  __syncthreads();  // the block may have worked on another chunk
  const float fast = greatest(row, chunk.classes, shared);
  const float sum = sum_exponentials(row, chunk.classes, shift_of(fast), shared);
  if (warp_index() == kReaders) {
    const float top = fast == 0.0f || is_nan(sum) ? greatest_in_order(row, chunk.classes) : fast;
    if (threadIdx.x % 32 == 0) shared.top = top, shared.sum = sum, shared.before = 0;
  }
  __syncthreads();
  const float top = shared.top;
  if (chunk.label >= 0 && logit_at(row, chunk.label) == top &&
      first_equal(row, chunk.label, top, static_cast<int>(threadIdx.x), kWideThreads) < chunk.label)
    shared.before = 1;
  __syncthreads();
  if (threadIdx.x == 0) store_statistics(a, chunk, row, top, shared.sum, shared.before != 0);
}

__device__ __forceinline__ void wide_gradient(const StatisticsArguments& a, const Chunk& chunk) {
  RAMET_SHARED(int, best, 1);
  const auto* row = row_at<RowType>(a.logits, chunk.task, a.width);
  auto* gradient = row_at<RowType>(a.gradient, chunk.task, a.width);
  ChunkSlopes slopes(a, chunk);
  __syncthreads();
  if (threadIdx.x == 0) best[0] = chunk.classes;
  __syncthreads();
  if (slopes.rest != 0.0f)
    atomicMin(&best[0], first_equal(row, chunk.classes, slopes.top, static_cast<int>(threadIdx.x), kWideThreads));
  __syncthreads();
  slopes.best = best[0];
  // What the loop overwrites, where the slopes of these two are other ones.
  const bool has_best = slopes.best < chunk.classes, has_label = chunk.label >= 0;
  const float at_best = has_best ? slopes.at(chunk, slopes.best, logit_at(row, slopes.best)) : 0.0f;
  const float at_label = has_label ? slopes.at(chunk, chunk.label, logit_at(row, chunk.label)) : 0.0f;
  __syncthreads();
  // Without a slope of the sum all are 0, as those of padding.
  const int sloped = slopes.dsum == 0.0f ? 0 : chunk.classes;
  walk_shared(row, sloped, kWideThreads / 32, [&](int element, int count, Pair value) {
    for (int k = 0; k < 2; ++k) value.at[k] = exp_negative(value.at[k] - slopes.shift) * slopes.dsum;
    store_pair<RowType>(value, gradient, element, count, kRowsPaired);
  });
  __syncthreads();
  for (int i = sloped + static_cast<int>(threadIdx.x); i < a.width; i += kWideThreads)
    gradient[i] = RowType::narrow(0.0f);
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (has_best) gradient[slopes.best] = RowType::narrow(at_best);
  if (has_label) gradient[chunk.label] = RowType::narrow(at_label);
}

}  // namespace ramet_device

RAMET_KERNEL(ramet_device::kWideThreads, softmax_statistics, ramet_device::StatisticsArguments, a) {
  for (ramet_device::Index task = blockIdx.x; task < a.rows * a.chunks; task += gridDim.x)
    ramet_device::wide_statistics(a, ramet_device::chunk_of(a, task));
}

RAMET_KERNEL(ramet_device::kWideThreads, softmax_statistics_grad, ramet_device::StatisticsArguments, a) {
  for (ramet_device::Index task = blockIdx.x; task < a.rows * a.chunks; task += gridDim.x)
    ramet_device::wide_gradient(a, ramet_device::chunk_of(a, task));
}

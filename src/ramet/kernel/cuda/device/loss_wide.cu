// Statistics of wide chunks of logits and their gradient, a block a chunk of a row: as loss.cu, with the same bits.
// Several warps share what has no order; the sums of exponentials do, and one warp adds them. Definition: kRowType.

#include "chunk.cuh"

namespace ramet_device {

/// Warps that read; one more adds.
constexpr int kReaders = kWideThreads / 32 - 1;
/// Stretches of kRowLanes that a warp reads at a time.
constexpr int kSteps = 4, kRoundSteps = kReaders * kSteps;

/// What the warps of a block leave for each other.
struct Shared {
  float exponentials[2][kRoundSteps * kRowLanes];
  float most[kReaders * kRowLanes];
  float top;
  int strange;  ///< there is a NaN
  int before;
};

__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x / 32); }
__device__ __forceinline__ int first_lane() { return 2 * static_cast<int>(threadIdx.x % 32); }

/// Joins elements [begin, end) to the greatest of lanes. Gives whether one is NaN.
__device__ __forceinline__ bool join_most(const RowType::Stored* row, int begin, int end, bool paired, RowLanes& most) {
  bool strange = false;
  walk_row(Row<RowType, 0>(row + begin, end - begin, paired), end - begin, [&](int, int count, Pair value) {
    for (int k = 0; k < 2 && k < count; ++k) {
      most.lane[k] = more_of(most.lane[k], value.at[k]);
      strange = strange || is_nan(value.at[k]);
    }
  });
  return strange;
}

/// The greatest logit: each warp has a part of every lane. Where there is a NaN, the order shows, and one warp has all.
__device__ __forceinline__ float greatest(const RowType::Stored* row, int classes, bool paired, Shared& shared) {
  const int steps = (classes + kRowLanes - 1) / kRowLanes, part = (steps + kReaders - 1) / kReaders * kRowLanes;
  const int warp = warp_index(), lane = first_lane();
  if (warp < kReaders) {
    RowLanes most(-infinity());
    const int begin = warp * part < classes ? warp * part : classes;
    const int end = begin + part < classes ? begin + part : classes;
    if (join_most(row, begin, end, paired, most)) shared.strange = 1;
    for (int k = 0; k < 2; ++k) shared.most[warp * kRowLanes + lane + k] = most.lane[k];
  }
  __syncthreads();
  if (warp == 0) {
    RowLanes most(-infinity());
    if (shared.strange != 0) {
      join_most(row, 0, classes, paired, most);
    } else {
      for (int from = 0; from < kReaders; ++from)
        for (int k = 0; k < 2; ++k) most.lane[k] = more_of(most.lane[k], shared.most[from * kRowLanes + lane + k]);
    }
    const float top = most.most();
    if (threadIdx.x == 0) shared.top = top;
  }
  __syncthreads();
  return shared.top;
}

/// Exponentials of a warp's stretches of a round. Gives whether one in front of the label is the greatest logit.
__device__ __forceinline__ bool exponentials(const RowType::Stored* row, const Chunk& chunk, int round, bool paired,
                                             float top, float* to) {
  const int first = warp_index() * kSteps * kRowLanes + first_lane(), begin = round * kRoundSteps * kRowLanes;
  const float shift = shift_of(top);
  Pair value[kSteps];
  RAMET_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const int element = begin + first + step * kRowLanes;
    if (element < chunk.classes)
      value[step] = load_pair<RowType>(row, element, element + 1 < chunk.classes ? 2 : 1, paired);
  }
  bool before = false;
  RAMET_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const int at = first + step * kRowLanes, element = begin + at;
    if (element >= chunk.classes) continue;
    for (int k = 0; k < 2; ++k) {
      to[at + k] = exp_negative(value[step].at[k] - shift);
      before = before || (value[step].at[k] == top && element + k < chunk.label);
    }
  }
  return before;
}

__device__ __forceinline__ void add_round(const float* from, int round, int classes, RowLanes& sums) {
  const int begin = round * kRoundSteps * kRowLanes;
  RAMET_UNROLL
  for (int step = 0; step < kRoundSteps; ++step) {
    const int at = step * kRowLanes + first_lane();
    const Pair value{{from[at], from[at + 1]}};
    for (int k = 0; k < 2; ++k)
      if (begin + at + k < classes) sums.lane[k] += value.at[k];
  }
}

__device__ __forceinline__ void wide_statistics(const StatisticsArguments& a, const Chunk& chunk) {
  RAMET_SHARED(Shared, all, 1);
  Shared& shared = all[0];
  const bool paired = a.width % 2 == 0;
  const auto* row = row_at<RowType>(a.logits, chunk.task, a.width);
  __syncthreads();  // the block may have worked on another chunk
  if (threadIdx.x == 0) shared.strange = shared.before = 0;
  __syncthreads();
  const float top = greatest(row, chunk.classes, paired, shared);
  const int rounds = (chunk.classes + kRoundSteps * kRowLanes - 1) / (kRoundSteps * kRowLanes);
  const bool adds = warp_index() == kReaders;
  RowLanes sums(0.0f);
  // One round is read while the one before is added.
  for (int round = 0; round <= rounds; ++round) {
    if (!adds && round < rounds && exponentials(row, chunk, round, paired, top, shared.exponentials[round % 2]))
      shared.before = 1;
    if (adds && round > 0) add_round(shared.exponentials[(round - 1) % 2], round - 1, chunk.classes, sums);
    __syncthreads();
  }
  if (!adds) return;
  const float sum = sums.sum();
  if (threadIdx.x % 32 == 0) store_statistics(a, chunk, row, top, sum, shared.before != 0);
}

__device__ __forceinline__ void wide_gradient(const StatisticsArguments& a, const Chunk& chunk) {
  RAMET_SHARED(int, best, 1);
  const bool paired = a.width % 2 == 0;
  const auto* row = row_at<RowType>(a.logits, chunk.task, a.width);
  ChunkSlopes slopes(a, chunk);
  __syncthreads();
  if (threadIdx.x == 0) best[0] = chunk.classes;
  __syncthreads();
  if (slopes.rest != 0.0f)
    atomicMin(&best[0],
              first_equal(row, chunk.classes, slopes.top, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)));
  __syncthreads();  // the gradient may overwrite logits
  slopes.best = best[0];
  constexpr int kPart = kPairsAtOnce * kRowLanes;
  for (int begin = warp_index() * kPart; begin < a.width; begin += kWideThreads / 32 * kPart) {
    const int part = a.width - begin < kPart ? a.width - begin : kPart;
    walk_row(Row<RowType, 0>(row + begin, part, paired), part, [&](int element, int count, Pair value) {
      for (int k = 0; k < 2; ++k) value.at[k] = slopes.at(chunk, begin + element + k, value.at[k]);
      store_pair<RowType>(value, row_at<RowType>(a.gradient, chunk.task, a.width), begin + element, count, paired);
    });
  }
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

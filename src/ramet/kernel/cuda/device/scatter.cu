// Sums of updates by row, each row's updates one after another in order of position, in f32. Positions are put in order
// by row first: counted, given places, and the places of each row brought in order; so no float is added out of turn.
// Compiled with Number, the type of indices; Update and Result, types of convert.cuh; kColumns, the columns that a
// thread has at once (a divisor of the width).

#include "convert.cuh"
#include "gather_arguments.h"

namespace ramet_device {

/// Rows with so many updates are summed by a block for a few columns, others by a few threads.
constexpr int kMany = 64;

/// Counts the updates of each row; a position's place is how many came before it, in no order yet.
RAMET_KERNEL(256, scatter_count, ScatterArguments, a) {
  const auto* const index = static_cast<const Number*>(a.index);
  for (Index i = first_index(); i < a.positions; i += index_step()) {
    const Index row = index[i];
    const bool there = row >= 0 && row < a.rows;
    if (!there) report_fault(static_cast<Fault*>(a.faults), a.kernel, static_cast<unsigned>(i), row, a.rows);
    a.place[i] = there ? atomicAdd(a.first + row, 1) : -1;
  }
}

/// Sum over the lanes before this one and itself.
__device__ __forceinline__ int running_sum(int value) {
  const auto lane = static_cast<int>(threadIdx.x % 32u);
  RAMET_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(distance));
    value += lane >= distance ? other : 0;
  }
  return value;
}

/// Sum over the threads of the block before this one; `total` is that of all. `room` has 33 integers.
__device__ inline int sum_before(int value, int* room, int* total) {
  const int warp = static_cast<int>(threadIdx.x / 32u), lane = static_cast<int>(threadIdx.x % 32u);
  const int through = running_sum(value);
  if (lane == 31) room[warp] = through;
  __syncthreads();
  if (warp == 0) {
    const int mine = lane < static_cast<int>(blockDim.x / 32u) ? room[lane] : 0;
    const int sum = running_sum(mine);
    room[lane] = sum - mine;
    if (lane == 31) room[32] = sum;
  }
  __syncthreads();
  const int before = room[warp] + through - value;
  *total = room[32];
  __syncthreads();
  return before;
}

/// One block: counters become first places, and rows with many updates are listed.
RAMET_KERNEL(1024, scatter_scan, ScatterArguments, a) {
  RAMET_SHARED(int, room, 33);
  constexpr int kRows = 8;  // of a thread at a time
  int done = 0;
  for (Index from = 0; from < a.rows; from += blockDim.x * kRows) {
    const Index row = from + static_cast<Index>(threadIdx.x) * kRows;
    int counts[kRows], sum = 0, total = 0;
    RAMET_UNROLL
    for (int k = 0; k < kRows; ++k) counts[k] = row + k < a.rows ? a.first[row + k] : 0;
    RAMET_UNROLL
    for (int k = 0; k < kRows; ++k) sum += counts[k];
    int before = done + sum_before(sum, room, &total);
    RAMET_UNROLL
    for (int k = 0; k < kRows; ++k) {
      if (row + k < a.rows) a.first[row + k] = before;
      if (counts[k] >= kMany) a.many[1 + atomicAdd(a.many, 1)] = static_cast<int>(row + k);
      before += counts[k];
    }
    done += total;
  }
  if (threadIdx.x == 0u) a.first[a.rows] = done;
}

RAMET_KERNEL(256, scatter_place, ScatterArguments, a) {
  const auto* const index = static_cast<const Number*>(a.index);
  for (Index i = first_index(); i < a.positions; i += index_step())
    if (a.place[i] >= 0) a.order[a.first[index[i]] + a.place[i]] = static_cast<int>(i);
}

/// How many of `count` numbers, `low` of the first 32 lanes' and `high` of the next, are less than `number`.
__device__ __forceinline__ int less_than(int number, int low, int high, int count) {
  int less = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const int first = __shfl_sync(0xffffffffu, low, lane), second = __shfl_sync(0xffffffffu, high, lane);
    less += lane < count && first < number ? 1 : 0;
    less += lane + 32 < count && second < number ? 1 : 0;
  }
  return less;
}

/// Brings the positions of each row with fewer than kMany updates in order: a warp a row.
RAMET_KERNEL(256, scatter_sort, ScatterArguments, a) {
  const auto lane = static_cast<int>(threadIdx.x % 32u);
  for (Index row = first_index() / 32; row < a.rows; row += index_step() / 32) {
    const int first = a.first[row], count = a.first[row + 1] - first;
    if (count < 2 || count >= kMany) continue;
    int* const order = a.order + first;
    const int low = lane < count ? order[lane] : 0, high = lane + 32 < count ? order[lane + 32] : 0;
    const int low_place = less_than(low, low, high, count), high_place = less_than(high, low, high, count);
    __syncwarp();
    if (lane < count) order[low_place] = low;
    if (lane + 32 < count) order[high_place] = high;
  }
}

/// The same for rows with many: a block a row looks for its positions from the first on.
RAMET_KERNEL(1024, scatter_sort_many, ScatterArguments, a) {
  RAMET_SHARED(int, room, 33);
  const auto* const index = static_cast<const Number*>(a.index);
  for (int i = static_cast<int>(blockIdx.x); i < a.many[0]; i += static_cast<int>(gridDim.x)) {
    const int row = a.many[1 + i];
    int next = a.first[row];
    for (Index from = 0; from < a.positions; from += blockDim.x) {
      const Index position = from + threadIdx.x;
      const bool own = position < a.positions && index[position] == row;
      int total = 0;
      const int before = sum_before(own ? 1 : 0, room, &total);
      if (own) a.order[next + before] = static_cast<int>(position);
      next += total;
    }
  }
}

using UpdatePack = Pack<Update, kColumns>;
using ResultPack = Pack<Result, kColumns>;

__device__ __forceinline__ UpdatePack update_at(const ScatterArguments& a, Index position, Index column) {
  const auto* updates = static_cast<const typename Update::Stored*>(a.updates) + position * a.width + column;
  return *reinterpret_cast<const UpdatePack*>(updates);
}
__device__ __forceinline__ void add_update(const UpdatePack& update, float (&sums)[kColumns]) {
  RAMET_UNROLL
  for (int c = 0; c < kColumns; ++c) sums[c] += Update::widen(update.at[c]);
}

/// Writes a row's sums, added to the base if there is one.
__device__ __forceinline__ void write_sums(const ScatterArguments& a, Index at, float (&sums)[kColumns]) {
  using Stored = typename Result::Stored;
  if (a.base) {
    const ResultPack base = *reinterpret_cast<const ResultPack*>(static_cast<const Stored*>(a.base) + at);
    RAMET_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] += Result::widen(base.at[c]);
  }
  ResultPack result;
  RAMET_UNROLL
  for (int c = 0; c < kColumns; ++c) result.at[c] = Result::narrow(sums[c]);
  *reinterpret_cast<ResultPack*>(static_cast<Stored*>(a.out) + at) = result;
}

/// A row without updates: 0, or the base as it is.
__device__ __forceinline__ void write_untouched(const ScatterArguments& a, Index at) {
  using Stored = typename Result::Stored;
  if (a.base == a.out) return;
  ResultPack result{};
  if (a.base) result = *reinterpret_cast<const ResultPack*>(static_cast<const Stored*>(a.base) + at);
  *reinterpret_cast<ResultPack*>(static_cast<Stored*>(a.out) + at) = result;
}

/// The updates [i, last) of `order` to a few columns, several of them read at once.
__device__ __forceinline__ void sum_updates(const ScatterArguments& a, int i, int last, Index column,
                                            float (&sums)[kColumns]) {
  constexpr int kAhead = 8;
  for (; i + kAhead <= last; i += kAhead) {
    UpdatePack updates[kAhead];
    RAMET_UNROLL
    for (int k = 0; k < kAhead; ++k) updates[k] = update_at(a, a.order[i + k], column);
    RAMET_UNROLL
    for (int k = 0; k < kAhead; ++k) add_update(updates[k], sums);
  }
  for (; i < last; ++i) add_update(update_at(a, a.order[i], column), sums);
}

/// Rows with fewer than kMany updates.
RAMET_KERNEL(256, scatter_few, ScatterArguments, a) {
  const Index lanes = 1 << a.lane_bits, in_block = blockDim.x >> a.lane_bits;
  const Index lane = threadIdx.x & (lanes - 1), own = threadIdx.x >> a.lane_bits;
  for (Index row = blockIdx.x * in_block + own; row < a.rows; row += gridDim.x * in_block) {
    const int first = a.first[row], last = a.first[row + 1];
    if (last - first >= kMany) continue;
    for (Index column = lane * kColumns; column < a.width; column += lanes * kColumns) {
      if (first == last) {
        write_untouched(a, row * a.width + column);
        continue;
      }
      float sums[kColumns] = {};
      sum_updates(a, first, last, column, sums);
      write_sums(a, row * a.width + column, sums);
    }
  }
}

constexpr int kTile = 32;    ///< columns of a block
constexpr int kBatch = 128;  ///< updates that it has in shared memory
constexpr int kThreads = 256;
constexpr int kReads = kBatch * kTile / (kThreads * kColumns);  ///< packs of a batch that a thread reads

/// Reads a thread's packs of the batch of updates from `i` on; what is beyond `last`, or beyond the columns, is 0.
__device__ __forceinline__ void read_batch(const ScatterArguments& a, int i, int last, Index column,
                                           UpdatePack (&packs)[kReads]) {
  constexpr int kInRow = kTile / kColumns;
  const auto thread = static_cast<int>(threadIdx.x);
  RAMET_UNROLL
  for (int k = 0; k < kReads; ++k) {
    const int at = i + k * (kThreads / kInRow) + thread / kInRow;
    const Index from = column + thread % kInRow * kColumns;
    packs[k] = at < last && from < a.width ? update_at(a, a.order[at], from) : UpdatePack{};
  }
}
__device__ __forceinline__ void keep_batch(const UpdatePack (&packs)[kReads], float* batch) {
  constexpr int kInRow = kTile / kColumns;
  const auto thread = static_cast<int>(threadIdx.x);
  RAMET_UNROLL
  for (int k = 0; k < kReads; ++k) {
    RAMET_UNROLL
    for (int c = 0; c < kColumns; ++c)
      batch[(k * (kThreads / kInRow) + thread / kInRow) * kTile + thread % kInRow * kColumns + c] =
          Update::widen(packs[k].at[c]);
  }
}

/// One element of the result, by one thread.
__device__ __forceinline__ void write_sum(const ScatterArguments& a, Index at, float sum) {
  if (a.base) sum += Result::widen(static_cast<const typename Result::Stored*>(a.base)[at]);
  static_cast<typename Result::Stored*>(a.out)[at] = Result::narrow(sum);
}

/// Rows with many updates: a block sums a tile of columns. Its first warp adds a batch, a column a lane, while all read
/// the next one.
RAMET_KERNEL(256, scatter_many, ScatterArguments, a) {
  RAMET_SHARED(float, batches, 2 * kBatch * kTile);
  const Index tiles = (a.width + kTile - 1) / kTile;
  for (Index task = blockIdx.x; task < a.many[0] * tiles; task += gridDim.x) {
    const int row = a.many[1 + task / tiles];
    const Index column = task % tiles * kTile;
    const int first = a.first[row], last = a.first[row + 1];
    UpdatePack packs[kReads];
    read_batch(a, first, last, column, packs);
    keep_batch(packs, batches);
    __syncthreads();
    float sum = 0;
    int now = 0;
    for (int i = first; i < last; i += kBatch, now ^= 1) {
      read_batch(a, i + kBatch, last, column, packs);
      if (threadIdx.x < 32u) {
        const float* batch = batches + now * kBatch * kTile + threadIdx.x;
        const int count = last - i < kBatch ? last - i : kBatch;
        for (int k = 0; k < count; ++k) sum += batch[k * kTile];
      }
      keep_batch(packs, batches + (now ^ 1) * kBatch * kTile);
      __syncthreads();
    }
    if (threadIdx.x < 32u && column + threadIdx.x < a.width) write_sum(a, row * a.width + column + threadIdx.x, sum);
  }
}

}  // namespace ramet_device

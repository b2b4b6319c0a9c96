// One pass of a reduction, as kernel/cpu/reduce.cc: over the last dimension, over rows, or in order. Definitions:
// kJoin, kFromType, kOutType.

#include "joins.cuh"
#include "reduce_arguments.h"
#include "rows.cuh"

namespace ramet_device {

using Words = WordOf<kFromType>;
using FromStored = kFromType::Stored;
constexpr int kRowsAtOnce = 8;

__device__ __forceinline__ float join_two(float a, float b) { return kJoin::join(a, b); }

__device__ __forceinline__ void store_result(void* to, Index index, float value) {
  static_cast<kOutType::Stored*>(to)[index] = kOutType::narrow(value);
}
/// Of a pair of columns, `count` of which there are.
__device__ __forceinline__ void store_results(void* to, Index index, Pair value, int count) {
  for (int k = 0; k < 2 && k < count; ++k) store_result(to, index + k, value.at[k]);
}

/// Lines of `width` elements to 16 strided lanes, two a thread, and those to one: eight threads a line.
struct LineLanes {
  float lane[2];

  __device__ __forceinline__ void join(Pair value, int count) {
    for (int k = 0; k < 2 && k < count; ++k) lane[k] = join_two(lane[k], value.at[k]);
  }
  /// In the first of the eight threads.
  __device__ __forceinline__ float fold() const {
    float low = lane[0], high = lane[1];
    for (int by = 4; by > 0; by /= 2) {
      low = join_two(low, __shfl_down_sync(~0u, low, static_cast<unsigned>(by)));
      high = join_two(high, __shfl_down_sync(~0u, high, static_cast<unsigned>(by)));
    }
    return join_two(low, high);
  }
};

__device__ __forceinline__ float reduce_line(const FromStored* line, Index width) {
  constexpr Index kLanes = 16;
  const bool paired = width % 2 == 0;
  const Index first = 2 * (threadIdx.x % 8), whole = width / kLanes * kLanes;
  LineLanes lanes{{kJoin::start(), kJoin::start()}};
  Index at = 0;
  for (; at + kLanes * kRowsAtOnce <= whole; at += kLanes * kRowsAtOnce) {
    Words words[kRowsAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) words[i] = load_word<kFromType>(line + at + i * kLanes + first, 2, paired);
    RAMET_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) lanes.join(PairWord<kFromType>::widen(words[i]), 2);
  }
  for (Index element = at + first; element < width; element += kLanes) {
    const int count = element + 1 < width ? 2 : 1;
    lanes.join(load_pair<kFromType>(line + element, 0, count, paired), count);
  }
  return lanes.fold();
}

/// Lines [outer, chunks] of reduced / chunks elements.
__device__ __forceinline__ void all_lines(const ReduceArguments& a) {
  const Index lines = a.outer * a.chunks, width = a.reduced / a.chunks;
  // The four lines of a warp go on together, for their threads meet.
  for (Index four = first_row() * 4; four < lines; four += row_step() * 4) {
    const Index wanted = four + static_cast<Index>(threadIdx.x % 32 / 8), line = wanted < lines ? wanted : lines - 1;
    const float value = reduce_line(static_cast<const FromStored*>(a.from) + line * width, width);
    if (threadIdx.x % 8 == 0 && wanted < lines) store_result(a.to, line, value);
  }
}

/// Rows one after another, a pair of columns a thread.
struct RowChain {
  const FromStored* column;
  Index inner;
  int count;  ///< of columns
  bool paired;
  Pair value{};

  /// Joins `rows` rows, of which `row_of(i)` is the i-th; `start`: the first one starts the chain.
  template <class RowOf>
  __device__ __forceinline__ void join_rows(Index rows, bool start, const RowOf& row_of) {
    for (Index first = 0; first < rows; first += kRowsAtOnce) {
      Words words[kRowsAtOnce];
      RAMET_UNROLL
      for (int i = 0; i < kRowsAtOnce; ++i)
        words[i] =
            load_word<kFromType>(column + row_of(first + i < rows ? first + i : rows - 1) * inner, count, paired);
      RAMET_UNROLL
      for (int i = 0; i < kRowsAtOnce; ++i) {
        if (first + i >= rows) continue;
        const Pair next = PairWord<kFromType>::widen(words[i]);
        const bool starts = start && first + i == 0;
        for (int k = 0; k < 2; ++k) value.at[k] = starts ? next.at[k] : join_two(value.at[k], next.at[k]);
      }
    }
  }
};

/// Work `index` of [parts, pairs of columns]: the part, and a chain that begins at its columns.
__device__ __forceinline__ RowChain chain_of(const ReduceArguments& a, Index outer, Index column) {
  const auto* from = static_cast<const FromStored*>(a.from) + outer * a.reduced * a.inner + column;
  return {from, a.inner, column + 1 < a.inner ? 2 : 1, a.inner % 2 == 0};
}

/// Blocks of kReduceRows rows: [outer, chunks, blocks, inner].
__device__ __forceinline__ void all_blocks(const ReduceArguments& a) {
  const Index rows = a.reduced / a.chunks, blocks = (rows + kReduceRows - 1) / kReduceRows, run = a.extent / a.chunks;
  const Index pairs = (a.inner + 1) / 2, work = a.outer * a.chunks * blocks * pairs;
  for (Index index = first_index(); index < work; index += index_step()) {
    const Index task = index / pairs, column = index % pairs * 2, first = task % blocks * kReduceRows;
    const Index chunk = task / blocks % a.chunks, outer = task / blocks / a.chunks;
    const Index here = rows - first < kReduceRows ? rows - first : kReduceRows;
    RowChain chain = chain_of(a, outer, column);
    if (a.chunks == 1)
      chain.join_rows(here, true, [&](Index i) { return first + i; });
    else
      chain.join_rows(here, true,
                      [&](Index i) { return ((first + i) / run * a.chunks + chunk) * run + (first + i) % run; });
    store_results(a.to, task * a.inner + column, chain.value, chain.count);
  }
}

/// One chain over all rows.
__device__ __forceinline__ void all_in_order(const ReduceArguments& a) {
  const Index pairs = (a.inner + 1) / 2;
  for (Index index = first_index(); index < a.outer * pairs; index += index_step()) {
    const Index outer = index / pairs, column = index % pairs * 2;
    RowChain chain = chain_of(a, outer, column);
    chain.join_rows(a.reduced, true, [](Index i) { return i; });
    store_results(a.to, outer * a.inner + column, chain.value, chain.count);
  }
}

}  // namespace ramet_device

RAMET_KERNEL(256, reduce_lines, ramet_device::ReduceArguments, a) { ramet_device::all_lines(a); }
RAMET_KERNEL(256, reduce_blocks, ramet_device::ReduceArguments, a) { ramet_device::all_blocks(a); }
RAMET_KERNEL(256, reduce_in_order, ramet_device::ReduceArguments, a) { ramet_device::all_in_order(a); }

// The balanced trees over partial results: of blocks to chunks, of chunks to one. Definitions: kJoin, kOutType.

#include "convert.cuh"
#include "joins.cuh"
#include "reduce_arguments.h"

namespace ramet_device {

constexpr int kMostWarps = 8;

__device__ __forceinline__ float join_two(float a, float b) { return kJoin::join(a, b); }

/// The tree over numbers [first, last) at distance `distance`.
__device__ __forceinline__ float combine_leaves(const float* from, Index first, Index last, Index distance) {
  return tree_of<float>(first, last, [&](Index i) { return from[i * distance]; }, join_two);
}

/// Results are side by side in threads of a warp; each warp has a part of every tree.
__device__ __forceinline__ void combine_columns(const CombineArguments& a) {
  RAMET_SHARED(float, parts, kMostWarps * 32);
  const Index results = a.outer * a.inner;
  const Index result = static_cast<Index>(blockIdx.x) * 32 + static_cast<Index>(threadIdx.x % 32);
  const Index column = result < results ? result : results - 1;
  const float* from = a.from + column / a.inner * a.chunks * a.blocks * a.inner + column % a.inner;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const Index span = tree_span(a.blocks, static_cast<Index>(blockDim.x / 32)), first = warp * span;
  const int used = static_cast<int>((a.blocks + span - 1) / span);
  Tree<float> all;
  for (Index chunk = 0; chunk < a.chunks; ++chunk, from += a.blocks * a.inner) {
    if (warp < used)
      parts[warp * 32 + lane] = combine_leaves(from, first, first + span < a.blocks ? first + span : a.blocks, a.inner);
    __syncthreads();
    if (warp == 0) all.push(combine_leaves(parts + lane, 0, used, 32), join_two);
    __syncthreads();
  }
  if (warp != 0 || result >= results) return;
  const bool apart = a.second != nullptr && result >= a.inner;
  auto* to = static_cast<kOutType::Stored*>(apart ? a.second : a.to) + (apart ? result - a.inner : result);
  *to = kOutType::narrow(a.blocks > 0 ? all.result(join_two) : kJoin::start());
}

}  // namespace ramet_device

RAMET_KERNEL(256, combine, ramet_device::CombineArguments, a) { ramet_device::combine_columns(a); }

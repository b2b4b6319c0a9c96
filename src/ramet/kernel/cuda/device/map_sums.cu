#include "map_kernel.cuh"

// The second half of sums over rows: sums of blocks of rows to one row, along the balanced tree. A block of threads has
// 32 columns; eight threads a column take a power of two of leaves each, so that theirs are whole subtrees.

namespace ramet_device {

constexpr int kColumns = 32, kParts = 8, kLevels = 24;

/// The tree over leaves [begin, end), one float every `columns`. Subtrees that wait for an equal one stand in a stack,
/// the largest first.
__device__ __forceinline__ float sum_of_leaves(const float* leaves, Index columns, Index begin, Index end,
                                               float* stack) {
  constexpr int kDistance = kColumns * kParts;
  int waiting = 0;
  for (Index leaf = begin; leaf < end; ++leaf) {
    float sum = leaves[leaf * columns];
    for (Index merged = leaf - begin; merged & 1; merged >>= 1) sum = stack[--waiting * kDistance] + sum;
    stack[waiting++ * kDistance] = sum;
  }
  float sum = stack[--waiting * kDistance];
  while (waiting > 0) sum = stack[--waiting * kDistance] + sum;
  return sum;
}

RAMET_KERNEL(256, map_sum_rows, MapSumsArguments, a) {
  RAMET_SHARED(float, stacks, kLevels* kColumns* kParts);
  RAMET_SHARED(float, parts, kColumns* kParts);
  const int thread = static_cast<int>(threadIdx.x), part = thread / kColumns;
  const Index column = static_cast<Index>(blockIdx.x) * kColumns + thread % kColumns;
  Index leaves = 1;  // of a part
  while (leaves * kParts < a.blocks) leaves *= 2;
  const Index begin = part * leaves, end = begin + leaves < a.blocks ? begin + leaves : a.blocks;
  if (column < a.columns && begin < end)
    parts[thread] = sum_of_leaves(a.sums + column, a.columns, begin, end, stacks + thread);
  for (int width = 1; width < kParts; width *= 2) {
    __syncthreads();
    const int other = part + width;
    if (part % (2 * width) == 0 && other < kParts && column < a.columns && other * leaves < a.blocks)
      parts[thread] += parts[thread + width * kColumns];
  }
  if (part == 0 && column < a.columns) store_one<RAMET_OUTPUT>(a.output, column, parts[thread]);
}

}  // namespace ramet_device

#pragma once

#include <cstddef>
#include <cstdint>

#include "ramet/base/house.h"

namespace ramet::ops {

// The canonical orders of sums (docs/architecture.md, "The same bits"). Every backend that promises bits sums in f32 in
// these orders; the functions here are their definition and the oracle of the bit tests. The double reference is
// compared with a tolerance only.
//
// - Over the last (contiguous) dimension: kReduceLanes strided accumulators, lane j adding elements j, j+16, j+32, ...
//   in turn (a short tail adds nothing to the lanes beyond it), then lane i += lane i+8, then i+4, i+2, i+1.
//   Accumulators start at +0.
// - Over rows (leading dimensions, the last one kept): blocks of kReduceRows rows; inside a block each column is added
//   in order, starting from the first row's value; blocks are combined by `tree_combine`.
// - In chunks: the last of the reduced dimensions cut in C equal parts, each (with all of the other reduced ones)
//   summed as above, the parts combined by `tree_combine`.
// - In order (attribute `in_order` of sums): one chain of additions over all terms as they lie in memory, starting from
//   the first, so that zeros among them change no bit.
// - Any other set of axes is a sequence of such sums, the innermost group of adjacent axes first; a group
//   with something behind it is summed as rows.

inline constexpr int64_t kReduceLanes = 16;
inline constexpr int64_t kReduceRows = 64;

/// Where the balanced tree over `count` >= 2 leaves is cut: the largest power of two below `count`.
constexpr int64_t tree_split(int64_t count) {
  int64_t half = 1;
  while (half * 2 < count) half *= 2;
  return half;
}

/// Combines the leaves [begin, begin+count) along the balanced tree: `leaf(i)` gives one, `add(a, b)` joins two.
template <typename T, typename Leaf, typename Add>
T tree_combine(int64_t begin, int64_t count, const Leaf& leaf, const Add& add) {
  if (count == 1) return leaf(begin);
  const int64_t half = tree_split(count);
  const T left = tree_combine<T>(begin, half, leaf, add);
  return add(left, tree_combine<T>(begin + half, count - half, leaf, add));
}

/// Sum of `count` contiguous values in the order of the last dimension. 0 for none.
inline float canonical_sum(const float* values, int64_t count) {
  float lanes[kReduceLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i % kReduceLanes] += values[i];
  for (int64_t width = kReduceLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

/// Sum of `rows` values at distance `stride` (in elements) in the order of rows. 0 for none.
inline float canonical_sum_rows(const float* values, int64_t rows, int64_t stride) {
  if (rows == 0) return 0;
  const auto block = [&](int64_t index) {
    const int64_t first = index * kReduceRows, last = first + kReduceRows < rows ? first + kReduceRows : rows;
    float sum = values[first * stride];
    for (int64_t row = first + 1; row < last; ++row) sum += values[row * stride];
    return sum;
  };
  return tree_combine<float>(0, (rows + kReduceRows - 1) / kReduceRows, block, [](float a, float b) { return a + b; });
}

}  // namespace ramet::ops

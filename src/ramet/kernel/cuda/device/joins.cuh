#pragma once

// How reductions join numbers, and the balanced tree that they follow (ops/reduce_order.h).

#include "kernel.cuh"
#include "reduce_arguments.h"

namespace ramet_device {

struct JoinSum {
  static __device__ __forceinline__ float start() { return 0.0f; }
  static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};
struct JoinProduct {
  static __device__ __forceinline__ float start() { return 1.0f; }
  static __device__ __forceinline__ float join(float a, float b) { return a * b; }
};
struct JoinMost {
  static __device__ __forceinline__ float start() { return __uint_as_float(0xff800000u); }
  static __device__ __forceinline__ float join(float a, float b) { return a > b || a != a ? a : b; }
};
struct JoinLeast {
  static __device__ __forceinline__ float start() { return __uint_as_float(0x7f800000u); }
  static __device__ __forceinline__ float join(float a, float b) { return a < b || a != a ? a : b; }
};

/// The balanced tree over values that come in order: where two neighbours of one size are there, they meet.
template <class Value>
struct Tree {
  Value level[kTreeLevels];  ///< of 2^l values; bit l of `count` says which are there
  unsigned count = 0;

  template <class Join>
  __device__ __forceinline__ void push(Value value, const Join& join) {
    bool carries = true;
    RAMET_UNROLL
    for (int l = 0; l < kTreeLevels; ++l) {
      if (!carries) continue;
      carries = (count >> l & 1u) != 0u;
      if (carries)
        value = join(level[l], value);
      else
        level[l] = value;
    }
    ++count;
  }
  /// Of at least one value.
  template <class Join>
  __device__ __forceinline__ Value result(const Join& join) const {
    Value value{};
    bool any = false;
    RAMET_UNROLL
    for (int l = 0; l < kTreeLevels; ++l) {
      if ((count >> l & 1u) == 0u) continue;
      value = any ? join(level[l], value) : level[l];
      any = true;
    }
    return value;
  }
};

/// The tree over leaves [first, last), of which there is at least one: `leaf(i)` gives one. Where there are more than
/// kLeavesAtOnce of them, `first` is a multiple of that.
template <class Value, class Leaf, class Join>
__device__ __forceinline__ Value tree_of(Index first, Index last, const Leaf& leaf, const Join& join) {
  Tree<Value> tree;
  for (; first < last; first += kLeavesAtOnce) {
    Value leaves[kLeavesAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kLeavesAtOnce; ++i) leaves[i] = leaf(first + i < last ? first + i : last - 1);
    RAMET_UNROLL
    for (int stride = 1; stride < kLeavesAtOnce; stride *= 2) {
      RAMET_UNROLL
      for (int i = 0; i < kLeavesAtOnce; i += 2 * stride)
        if (first + i + stride < last) leaves[i] = join(leaves[i], leaves[i + stride]);
    }
    tree.push(leaves[0], join);
  }
  return tree.result(join);
}

/// The least power of two, times which `parts` is at least `count`: leaves of a part of the tree that no other shares.
__device__ __forceinline__ Index tree_span(Index count, Index parts) {
  Index span = 1;
  while (span * parts < count) span *= 2;
  return span;
}

}  // namespace ramet_device

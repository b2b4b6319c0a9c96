#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/ops/pooling.h"

namespace ramet::kernel::cpu {

/// One spatial dimension of a pooling, prepared. Poolings of fewer than three dimensions have leading ones of extent 1.
struct PoolTable {
  explicit PoolTable(const PoolAxis& axis, bool count_padding);

  struct Cover {
    int32_t output, tap;
  };
  PoolAxis axis;
  /// Of each output: position and number of its first tap that is no padding, how many such taps there are, and how
  /// many taps an average counts.
  std::vector<int32_t> first, tap, count, counted;
  /// Of each input: the windows that cover it, in order of outputs, in covers[cover_begin[i]] and following.
  std::vector<int32_t> cover_begin;
  std::vector<Cover> covers;

  // Rows of equal windows as vectors over outputs: elements that lie a multiple of the stride apart (a phase) are laid
  // side by side, so that tap t of outputs o, o + 1, ... is phase `slot[t]` from element o + shift[t].
  std::vector<int32_t> slot, shift;  ///< of each tap
  std::vector<int32_t> phase;        ///< of each slot: the first position, less than the stride
  int64_t lead = 0;                  ///< elements of a phase before its position 0
  int64_t length = 0;                ///< of a phase, with padding and room for whole vectors
};

/// A pooling or its gradient, prepared: `a` is what is read, the input or the gradient of the pooled tensor.
struct PoolArguments {
  std::array<const PoolTable*, 3> axes;
  int64_t channels = 0;  ///< channels last
  float divisor = 0;     ///< 0: counted taps
  bool flat = false, wide_index = false;
  const void *a = nullptr, *end = nullptr;
  void* out = nullptr;
  void* made_index = nullptr;         ///< of max_pool
  const void* given_index = nullptr;  ///< of max_pool_grad
  float* scratch = nullptr;           ///< of one thread, pool_scratch() elements
};
/// Channels first: f32 elements that one thread needs.
int64_t pool_scratch(const PoolTable& row);

/// Each works on rows [begin, end) of the result: all dimensions but the last of space (and channels, when these are
/// last).
struct PoolLoops {
  using Loop = void (*)(const PoolArguments&, int64_t begin, int64_t end);
  /// By whether channels are last.
  Loop max[2], average[2], max_grad[2], average_grad[2];
};
/// For f32, bf16 or f16, for the instruction set at hand.
const PoolLoops& pool_loops(DType dtype);

}  // namespace ramet::kernel::cpu

#pragma once

// Arguments of reduce.cu and combine.cu.

namespace ramet_device {

/// Rows that are joined one after another; blocks of them meet in the balanced tree.
constexpr int kReduceRows = 64;
/// A tree that a thread walks takes so many leaves at once, and what they give to so many levels.
constexpr int kLeavesAtOnce = 8, kTreeLevels = 16;

struct ReduceArguments {
  const void* from;  ///< [outer, reduced, inner]
  void* to;
  long long outer, reduced, inner;
  /// Parts of the last of the reduced dimensions, which has `extent` indices; each is reduced apart from the others.
  long long chunks, extent;
};

struct CombineArguments {
  const float* from;  ///< [outer, chunks, blocks, inner]
  void* to;           ///< [outer, inner]
  void* second;       ///< where outer is 2: [inner], the results of the second, or none: they lie behind the first's
  long long outer, chunks, blocks, inner;
};

}  // namespace ramet_device

#pragma once

#include <algorithm>

#include "ramet/ops/position.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::ops {

// Statistics of one chunk of a row of logits: f32[kStatistics], made by softmax_statistics, joined by cross_entropy.

inline constexpr int kStatistics = 4;
enum Statistic {
  kChunkMost,   ///< greatest logit m
  kChunkSum,    ///< sum of exp(x - m); 0 where all logits are -infinity
  kChunkLogit,  ///< the label's logit, 0 where the label is no class of the chunk
  kChunkLabel   ///< 0: the label is no class of the chunk; 1: it is one; 2: and it is the first of the greatest logits
};

/// Classes of the whole model: the attribute `classes`, or as many as there are logits.
inline int64_t class_count(const NodeSignature& node, const Position& logits) {
  return node.attributes.get_int_or("classes", logits.logical()[1]);
}

/// How many of a chunk's logits, from local column `begin` on, are classes; what stands behind them is padding.
inline int64_t classes_of_chunk(const Position& logits, int64_t classes, int64_t begin, int64_t width) {
  return width == 0 ? 0 : std::clamp<int64_t>(classes - logits.coordinate(1, begin), 0, width);
}

/// Sums of two neighbours of the balanced tree over chunks: m = max(m1, m2), s = s1 exp(m1 - m) + s2 exp(m2 - m);
/// nothing is added for a chunk all of whose logits are -infinity. `exp` takes arguments <= 0.
template <typename T>
struct SoftmaxSum {
  T most, sum;
  template <typename Exp>
  static SoftmaxSum joined(const SoftmaxSum& a, const SoftmaxSum& b, const Exp& exp) {
    if (a.most == b.most) return {a.most, a.sum + b.sum};
    if (a.most > b.most) return {a.most, a.sum + b.sum * exp(b.most - a.most)};
    return {b.most, a.sum * exp(a.most - b.most) + b.sum};
  }

  /// Of a row whose chunks have the statistics `get(chunk, which)`.
  template <typename Get, typename Exp>
  static SoftmaxSum of_row(int64_t chunks, const Get& get, const Exp& exp) {
    return tree_combine<SoftmaxSum>(
        0, chunks, [&](int64_t chunk) { return SoftmaxSum{get(chunk, kChunkMost), get(chunk, kChunkSum)}; },
        [&](const SoftmaxSum& a, const SoftmaxSum& b) { return joined(a, b, exp); });
  }

  /// exp(reference - log-sum-exp of the row), for a reference <= `most`. Maximum and sum stay apart: their logarithm as
  /// one number has few bits behind the point where logits are great.
  template <typename Exp>
  T share(T reference, const Exp& exp) const {
    return exp(reference - most) / sum;
  }
};

}  // namespace ramet::ops

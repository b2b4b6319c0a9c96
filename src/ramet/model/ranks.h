#pragma once

#include "ramet/ops/build.h"

namespace ramet::model {

/// Of some entities, how many have a lower score than the right answer and how many the same, among all of them and
/// among those that are known as other right answers: f32 [B, M] each.
struct RankCounts {
  Tensor less, equals, known_less, known_equal;

  Tensor lower() const;  ///< without the known ones
  Tensor even() const;
};

/// Counts around the scores `right` [B M, 1] of right answers in scores [B M, N]. known i32 [B, K] and ptr i32
/// [B, M + 1] as graphs/triples.h has them. A score that is not a number is neither lower nor the same.
RankCounts count_around(Tensor scores, Tensor right, Tensor known, Tensor ptr);

/// The place of each right answer, f32 [B, M], among the scores [B M, N] of all entities, best first, without those
/// that are known as other right answers; of equal scores half are before it. answers i32 [B, M]. A score that is not a
/// number is never better.
Tensor filtered_ranks(Tensor scores, Tensor answers, Tensor known, Tensor ptr);

}  // namespace ramet::model

#pragma once

#include "ramet/ops/build.h"

namespace ramet::model {

/// The place of each right answer, f32 [B, M], among the scores [B M, N] of all entities, best first, without those
/// that are known as other right answers; of equal scores half are before it. answers i32 [B, M]; known i32 [B, K] and
/// ptr i32 [B, M + 1] as graphs/triples.h has them. A score that is not a number is never better.
Tensor filtered_ranks(Tensor scores, Tensor answers, Tensor known, Tensor ptr);

}  // namespace ramet::model

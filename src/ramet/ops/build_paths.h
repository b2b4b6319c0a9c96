#pragma once

#include <string>

#include "ramet/ops/build.h"

namespace ramet::ops {

/// Edges with relations, by the row that they end in (ops/paths.h): source and relation i32 [B, E], ptr i32 [B, N + 1].
struct PathLists {
  Tensor source, relation, ptr;
};
/// For each row its own message own [B, N, F] and those of its edges, summed in order: [B, N, F]. A message is the
/// "product", the "sum" or the "rotation" of the source's row of x [B, N, F] by the relation's row of relations [B, R,
/// F]. A rotation takes runs of `width` features (0: all) as real and imaginary parts, each a half.
Tensor path_sum(Tensor own, Tensor x, Tensor relations, const PathLists& lists, const std::string& message,
                int64_t width = 0);
/// The sum of the same messages, the sum of their squares, the greatest and the least.
struct PathStatistics {
  Tensor sum, squares, most, least;
};
PathStatistics path_statistics(Tensor own, Tensor x, Tensor relations, const PathLists& lists,
                               const std::string& message, int64_t width = 0);

}  // namespace ramet::ops

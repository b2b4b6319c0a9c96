#include "ramet/model/ranks.h"

#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {

Tensor RankCounts::lower() const { return subtract(less, known_less); }
Tensor RankCounts::even() const { return subtract(equals, known_equal); }

RankCounts count_around(Tensor scores, Tensor right, Tensor known, Tensor ptr) {
  const int64_t batch = known.dim(0), group = ptr.dim(1) - 1, entities = scores.dim(1);
  const Shape by_triple{batch, group};
  // Not "greater than": a score that is not a number is never better.
  const auto count = [&](Tensor flags) { return reshape(reduce_sum(cast(flags, DType::kF32), {1}), by_triple); };
  RankCounts counts;
  counts.less = count(ops::less(scores, right));
  counts.equals = count(equal(scores, right));
  const Tensor of_known = gather_rows(reshape(scores, {batch, group * entities}), known);
  const Tensor right_of_known = segment_expand(reshape(right, by_triple), ptr, known.dim(1));
  const auto count_known = [&](Tensor flags) { return segment_sum(cast(flags, DType::kF32), ptr); };
  counts.known_less = count_known(ops::less(of_known, right_of_known));
  counts.known_equal = count_known(equal(of_known, right_of_known));
  return counts;
}

Tensor filtered_ranks(Tensor scores, Tensor answers, Tensor known, Tensor ptr) {
  const int64_t batch = answers.dim(0), group = answers.dim(1), entities = scores.dim(1);
  const Tensor index = reshape(answers, {batch * group, 1});
  const RankCounts counts = count_around(scores, gather_elements(scores, index, 1), known, ptr);
  const Tensor all = cast(difference(ptr, 1), DType::kF32);  // known ones of each triple
  // Entities at all, less those that are known and those that have lower scores, less half of the equal ones. The
  // right answer is one of its equals.
  const Tensor others = scale(add_scalar(all, -static_cast<double>(entities)), -1);
  const Tensor lower = counts.lower(), even = counts.even();
  return subtract(subtract(others, lower), scale(add_scalar(even, -1), 0.5));
}

}  // namespace ramet::model

#include "ramet/api/apply.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_paths.h"

namespace ramet::v0 {

#define RAMET_SEGMENT(name)                                                               \
  Tensor name(Operand edges, Operand ptr) {                                               \
    return apply([](ir::Tensor x, ir::Tensor p) { return ops::name(x, p); }, edges, ptr); \
  }
RAMET_SEGMENT(segment_sum)
RAMET_SEGMENT(segment_mean)
RAMET_SEGMENT(segment_max)
RAMET_SEGMENT(segment_min)
RAMET_SEGMENT(segment_softmax)
RAMET_SEGMENT(gather_rows)
#undef RAMET_SEGMENT

Tensor segment_expand(Operand rows, Operand ptr, int64_t edges) {
  return apply([&](ir::Tensor x, ir::Tensor p) { return ops::segment_expand(x, p, edges); }, rows, ptr);
}

Tensor neighbor_sum(Operand x, Operand source, Operand ptr, Operand target, Operand by_source, Operand source_ptr,
                    Operand weight) {
  return apply(
      [](ir::Tensor rows, ir::Tensor s, ir::Tensor p, ir::Tensor t, ir::Tensor b, ir::Tensor sp, ir::Tensor w) {
        return ops::neighbor_sum(rows, {.source = s, .ptr = p, .target = t, .by_source = b, .source_ptr = sp}, w);
      },
      x, source, ptr, target, by_source, source_ptr, weight);
}

Tensor neighbor_dot(Operand a, Operand b, Operand source, Operand ptr, Operand target, Operand by_source,
                    Operand source_ptr, int64_t heads) {
  return apply(
      [&](ir::Tensor x, ir::Tensor y, ir::Tensor s, ir::Tensor p, ir::Tensor t, ir::Tensor bs, ir::Tensor sp) {
        return ops::neighbor_dot(x, y, {.source = s, .ptr = p, .target = t, .by_source = bs, .source_ptr = sp}, heads);
      },
      a, b, source, ptr, target, by_source, source_ptr);
}

Tensor path_sum(Operand own, Operand x, Operand relations, Operand source, Operand relation, Operand ptr,
                const std::string& message, int64_t width) {
  return apply(
      [&](ir::Tensor o, ir::Tensor rows, ir::Tensor of_relations, ir::Tensor s, ir::Tensor r, ir::Tensor p) {
        return ops::path_sum(o, rows, of_relations, {.source = s, .relation = r, .ptr = p}, message, width);
      },
      own, x, relations, source, relation, ptr);
}

PathStatistics path_statistics(Operand own, Operand x, Operand relations, Operand source, Operand relation, Operand ptr,
                               const std::string& message, int64_t width) {
  const std::vector<Tensor> made = apply_many(
      [&](ir::Tensor o, ir::Tensor rows, ir::Tensor of_relations, ir::Tensor s, ir::Tensor r, ir::Tensor p) {
        const ops::PathStatistics found =
            ops::path_statistics(o, rows, of_relations, {.source = s, .relation = r, .ptr = p}, message, width);
        return std::vector<ir::Tensor>{found.sum, found.squares, found.most, found.least};
      },
      own, x, relations, source, relation, ptr);
  return {.sum = made[0], .squares = made[1], .most = made[2], .least = made[3]};
}

}  // namespace ramet::v0

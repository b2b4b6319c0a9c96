#include "ramet/api/apply.h"
#include "ramet/ops/build_graphs.h"

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

}  // namespace ramet::v0

#include <string>

#include "ramet/model/knowledge.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

/// Part `index` of `count` equal parts of the last dimension.
Tensor part(Tensor a, int64_t index, int64_t count = 2) {
  const int64_t size = a.dim(-1) / count;
  return slice_axis(a, -1, index * size, (index + 1) * size);
}
Tensor join(Tensor a, Tensor b) { return concat({a, b}, 2); }
Tensor below(Tensor a, double bound) { return maximum(a, full(*a.builder, a.dtype(), {}, bound)); }

/// Sums of products: a [G, M, e], b [G, K, e] -> [G, M, K].
Tensor products(Tensor a, Tensor b) {
  if (a.dim(1) == 1 && b.shape().rank() == 3 && b.dim(1) == 1) return reduce_sum(multiply(a, b), {2}, true);
  return matmul(a, b, false, true, DType::kF32);
}

/// Minus the norm of a - w b. The root of squares has no gradient at 0.
Tensor minus_distance(Tensor a, Tensor b, int64_t norm, Tensor w = {}, const char* first = "l1") {
  if (norm == 1) return negate(pair_distance(a, b, first, w));
  return negate(sqrt(below(pair_distance(a, b, "squares", w), 1e-24)));
}

Tensor transe(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t norm) {
  return minus_distance(missing == TripleEnd::kTail ? add(known, relation) : subtract(known, relation), columns, norm);
}

/// |a - (b - s n)|^2 with s = n b and |n| = 1: the columns b are projected without a tensor of pairs.
Tensor transh(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t) {
  const Tensor shift = part(relation, 0), normal = part(relation, 1);
  const Tensor unit = multiply(normal, rsqrt(below(reduce_sum(multiply(normal, normal), {2}, true), 1e-24)));
  const Tensor flat = subtract(known, multiply(reduce_sum(multiply(unit, known), {2}, true), unit));
  const Tensor a = missing == TripleEnd::kTail ? add(flat, shift) : subtract(flat, shift);
  const Tensor s = products(unit, columns), along = reduce_sum(multiply(unit, a), {2}, true);
  return negate(below(add(pair_distance(a, columns, "squares"), multiply(s, subtract(scale(along, 2), s))), 0));
}

Tensor distmult(TripleEnd, Tensor known, Tensor relation, Tensor columns, int64_t) {
  return products(multiply(known, relation), columns);
}

/// x y, or x times the conjugate of y.
Tensor complex_product(Tensor x, Tensor y_re, Tensor y_im, bool conjugate) {
  const Tensor re = part(x, 0), im = part(x, 1);
  const Tensor a = multiply(re, y_re), b = multiply(im, y_im), c = multiply(re, y_im), d = multiply(im, y_re);
  return conjugate ? join(add(a, b), subtract(d, c)) : join(subtract(a, b), add(c, d));
}

Tensor complex(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t) {
  return products(complex_product(known, part(relation, 0), part(relation, 1), missing == TripleEnd::kHead), columns);
}

Tensor rotate(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t norm) {
  const Tensor turned =
      complex_product(known, map_unary("cos", relation), map_unary("sin", relation), missing == TripleEnd::kHead);
  return minus_distance(turned, columns, norm, {}, "complex");
}

Tensor pairre(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t norm) {
  const Tensor of_head = part(relation, 0), of_tail = part(relation, 1);
  const bool tail = missing == TripleEnd::kTail;
  return minus_distance(multiply(known, tail ? of_head : of_tail), columns, norm, tail ? of_tail : of_head);
}

Tensor triplere(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t norm) {
  const Tensor of_head = part(relation, 0, 3), middle = part(relation, 1, 3), of_tail = part(relation, 2, 3);
  if (missing == TripleEnd::kTail) return minus_distance(add(multiply(known, of_head), middle), columns, norm, of_tail);
  return minus_distance(subtract(multiply(known, of_tail), middle), columns, norm, of_head);
}

/// An entity is a place and a bump; a relation two centres and two widths before softplus. The head's place moved by
/// the tail's bump lies in the first box, the tail's place moved by the head's bump in the second.
Tensor boxe(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t) {
  const Tensor place = part(known, 0), bump = part(known, 1);
  const Tensor first = part(relation, 0, 4), second = part(relation, 1, 4);
  const Tensor first_width = softplus(part(relation, 2, 4)), second_width = softplus(part(relation, 3, 4));
  const bool tail = missing == TripleEnd::kTail;
  const Tensor of_place = subtract(tail ? second : first, bump), of_bump = subtract(tail ? first : second, place);
  const Tensor widths = tail ? join(second_width, first_width) : join(first_width, second_width);
  return negate(pair_distance(join(of_place, of_bump), columns, "box", widths));
}

/// h (t' + 1) - t (h' + 1) + r, with an auxiliary row beside each entity's.
Tensor interht(TripleEnd missing, Tensor known, Tensor relation, Tensor columns, int64_t norm) {
  const Tensor own = part(known, 0), aside = add_scalar(part(known, 1), 1);
  if (missing == TripleEnd::kTail) return minus_distance(add(own, relation), columns, norm, join(aside, negate(own)));
  return minus_distance(subtract(relation, own), columns, norm, join(negate(aside), own));
}

}  // namespace

const std::vector<ScoreFunction>& score_functions() {
  static const std::vector<ScoreFunction> all = {
      {.name = "transe", .entities = EntityRows::kByNorm, .scores = transe},
      {.name = "transh", .relation_parts = 2, .scores = transh},
      {.name = "distmult", .scores = distmult},
      {.name = "complex", .entity_parts = 2, .relation_parts = 2, .complex_entities = true, .scores = complex},
      {.name = "rotate", .entity_parts = 2, .complex_entities = true, .phases = true, .scores = rotate},
      {.name = "pairre", .relation_parts = 2, .entities = EntityRows::kByLength, .scores = pairre},
      {.name = "triplere", .relation_parts = 3, .entities = EntityRows::kByLength, .scores = triplere},
      {.name = "boxe", .entity_parts = 2, .relation_parts = 4, .scores = boxe},
      {.name = "interht", .entity_parts = 2, .scores = interht},
  };
  return all;
}

const ScoreFunction* find_score_function(const std::string& name) {
  for (const ScoreFunction& function : score_functions())
    if (function.name == name) return &function;
  return nullptr;
}

}  // namespace ramet::model

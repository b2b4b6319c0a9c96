#include "ramet/ops/build_loss.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/loss_parts.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

Tensor greater(Tensor a, Tensor b) { return map_binary("greater", a, b); }
Tensor square(Tensor a) { return map_unary("square", a); }
Tensor abs(Tensor a) { return map_unary("abs", a); }
/// max(0, a), whose gradient at 0 is 0.
Tensor hinge(Tensor a) { return relu(a); }

Tensor weighted(Tensor loss, Tensor weight) {
  return weight.valid() ? multiply(loss, stop_gradient(wide(weight))) : loss;
}

}  // namespace

Tensor binary_cross_entropy(Tensor a, Tensor target, Tensor weight, LossReduction reduction) {
  a = wide(a), target = wide(target);
  // log(0) is -100, without a way for its slope.
  const auto bounded_log = [](Tensor x) {
    const Tensor some = greater(x, scalar_like(x, 0));
    const Tensor safe = select(some, x, scalar_like(x, 1));
    return select(some, maximum(log(safe), scalar_like(x, -100)), scalar_like(x, -100));
  };
  const Tensor rest = add_scalar(negate(a), 1), other = add_scalar(negate(target), 1);
  const Tensor sum = add(multiply(target, bounded_log(a)), multiply(other, bounded_log(rest)));
  return reduced(weighted(negate(sum), weight), reduction);
}

Tensor binary_cross_entropy_with_logits(Tensor a, Tensor target, Tensor weight, Tensor positive_weight,
                                        LossReduction reduction) {
  a = wide(a), target = wide(target);
  Tensor soft = map_unary("softplus", negate(a));
  if (positive_weight.valid())
    soft = multiply(soft, add_scalar(multiply(add_scalar(stop_gradient(wide(positive_weight)), -1), target), 1));
  const Tensor loss = add(multiply(add_scalar(negate(target), 1), a), soft);
  return reduced(weighted(loss, weight), reduction);
}

Tensor mse_loss(Tensor a, Tensor target, LossReduction reduction) {
  return reduced(square(subtract(wide(a), wide(target))), reduction);
}
Tensor l1_loss(Tensor a, Tensor target, LossReduction reduction) {
  return reduced(abs(subtract(wide(a), wide(target))), reduction);
}

Tensor smooth_l1_loss(Tensor a, Tensor target, double beta, LossReduction reduction) {
  if (!(beta >= 0)) throw Error({.what = "beta is below 0", .where = "smooth_l1_loss", .found = std::to_string(beta)});
  if (beta == 0) return l1_loss(a, target, reduction);
  const Tensor d = subtract(wide(a), wide(target)), size = abs(d);
  const Tensor near = scale(square(d), 0.5 / beta), far = add_scalar(size, -0.5 * beta);
  return reduced(select(less(size, scalar_like(size, beta)), near, far), reduction);
}

Tensor huber_loss(Tensor a, Tensor target, double delta, LossReduction reduction) {
  if (!(delta > 0))
    throw Error({.what = "delta is not above 0", .where = "huber_loss", .found = std::to_string(delta)});
  const Tensor d = subtract(wide(a), wide(target)), size = abs(d);
  const Tensor near = scale(square(d), 0.5), far = scale(add_scalar(size, -0.5 * delta), delta);
  return reduced(select(map_binary("less_equal", size, scalar_like(size, delta)), near, far), reduction);
}

Tensor kl_divergence(Tensor a, Tensor target, bool log_target, LossReduction reduction, bool batch_mean) {
  a = wide(a), target = wide(target);
  const Tensor loss =
      log_target ? multiply(exp(target), subtract(target, a)) : subtract(xlogy(target, target), multiply(target, a));
  if (!batch_mean) return reduced(loss, reduction);
  if (loss.shape().rank() == 0)
    throw Error({.what = "a scalar has no batch to take a mean over", .where = "kl_divergence"});
  return scale(reduce_sum(loss), 1 / static_cast<double>(std::max<int64_t>(1, loss.dim(0))));
}

Tensor gaussian_nll_loss(Tensor a, Tensor target, Tensor variance, bool full_form, double epsilon,
                         LossReduction reduction) {
  const Tensor given = wide(variance), bound = maximum(given, scalar_like(given, epsilon));
  const Tensor v = add(given, stop_gradient(subtract(bound, given)));
  Tensor loss = scale(add(log(v), divide(square(subtract(wide(a), wide(target))), v)), 0.5);
  if (full_form) loss = add_scalar(loss, 0.5 * std::log(2 * M_PI));
  return reduced(loss, reduction);
}

Tensor poisson_nll_loss(Tensor a, Tensor target, bool log_input, bool full_form, double epsilon,
                        LossReduction reduction) {
  a = wide(a), target = wide(target);
  Tensor loss =
      log_input ? subtract(exp(a), multiply(target, a)) : subtract(a, multiply(target, log(add_scalar(a, epsilon))));
  if (full_form) {
    const Tensor large = greater(target, scalar_like(target, 1)), one = scalar_like(target, 1);
    const Tensor t = select(large, target, one);
    const Tensor stirling = add(subtract(multiply(t, log(t)), t), scale(log(scale(t, 2 * M_PI)), 0.5));
    loss = add(loss, select(large, stirling, scalar_like(target, 0)));
  }
  return reduced(loss, reduction);
}

Tensor margin_ranking_loss(Tensor a, Tensor b, Tensor target, double margin, LossReduction reduction) {
  const Tensor gap = multiply(negate(wide(target)), subtract(wide(a), wide(b)));
  return reduced(hinge(add_scalar(gap, margin)), reduction);
}

Tensor hinge_embedding_loss(Tensor a, Tensor target, double margin, LossReduction reduction) {
  a = wide(a), target = wide(target);
  const Tensor apart = hinge(add_scalar(negate(a), margin)), nothing = scalar_like(a, 0);
  const Tensor far = select(equal(target, scalar_like(target, 1)), nothing, apart);
  const Tensor near = select(equal(target, scalar_like(target, -1)), nothing, a);
  return reduced(add(far, near), reduction);
}

Tensor soft_margin_loss(Tensor a, Tensor target, LossReduction reduction) {
  return reduced(map_unary("softplus", negate(multiply(wide(target), wide(a)))), reduction);
}

Tensor multilabel_soft_margin_loss(Tensor a, Tensor target, Tensor weight, LossReduction reduction) {
  const Tensor each = binary_cross_entropy_with_logits(a, target, weight, {}, LossReduction::kNone);
  return reduced(reduce_mean(each, {-1}), reduction);
}

Tensor multi_margin_loss(Tensor a, Tensor target, double p, double margin, Tensor weight, LossReduction reduction) {
  if (p != 1 && p != 2)
    throw Error({.what = "p is neither 1 nor 2", .where = "multi_margin_loss", .found = std::to_string(p)});
  const ClassRows rows = class_rows(a, target, "multi_margin_loss");
  const Tensor own = reshape(pick(rows.values, rows.labels), {rows.count, 1});
  Tensor gap = hinge(add_scalar(subtract(rows.values, own), margin));
  if (p == 2) gap = square(gap);
  gap = multiply(gap, reshape(label_weights(rows, weight), {rows.count, 1}));
  const Tensor others = select(at_label(rows.values, rows.labels), scalar_like(gap, 0), gap);
  const Tensor loss = scale(reduce_sum(others, {-1}), 1 / static_cast<double>(rows.classes));
  return reduced(reshape(loss, rows.shape), reduction);
}

Tensor multilabel_margin_loss(Tensor a, Tensor target, LossReduction reduction) {
  const Tensor values = wide(a);
  const int rank = values.shape().rank();
  if (rank < 1 || rank > 2 || target.shape() != values.shape() || !is_index(target.dtype()))
    throw Error({.what = "multilabel_margin_loss takes rows of numbers, and classes of the same shape",
                 .where = "multilabel_margin_loss",
                 .found = a.type().text() + " and " + target.type().text(),
                 .expected = "[N, C] or [C], and i32 or i64 of that shape"});
  const int64_t classes = values.dim(-1), count = rank == 2 ? values.dim(0) : 1;
  const Tensor rows = reshape(values, {count, classes});
  const Tensor labels = reshape(label_of_type(target), {count, classes});
  const Tensor ended = cumsum(cast(less(labels, scalar_like(labels, 0)), DType::kI32), 1);
  const Tensor counts = equal(ended, scalar_like(ended, 0));  // labels before the first below 0
  const Tensor hot = multiply(one_hot(labels, classes, DType::kF32),
                              reshape(cast(counts, DType::kF32), {count, classes, 1}));  // [N, label, class]
  const Tensor is_target = reduce_max(hot, {1}, true);                                   // [N, 1, C]
  const Tensor own = reduce_sum(multiply(hot, reshape(rows, {count, 1, classes})), {2}, true);
  const Tensor gap = hinge(add_scalar(subtract(reshape(rows, {count, 1, classes}), own), 1));
  const Tensor wanted =
      multiply(reshape(cast(counts, DType::kF32), {count, classes, 1}), add_scalar(negate(is_target), 1));
  const Tensor loss = scale(reduce_sum(multiply(gap, wanted), {1, 2}), 1 / static_cast<double>(classes));
  return reduced(rank == 2 ? loss : reshape(loss, {}), reduction);
}

Tensor cosine_similarity(Tensor a, Tensor b, int64_t axis, double epsilon) {
  a = wide(a), b = wide(b);
  if (a.shape() != b.shape()) {
    const Shape shape = multiply(a, b).shape();
    a = broadcast_to(a, shape), b = broadcast_to(b, shape);
  }
  if (a.shape().rank() == 0 && (axis == 0 || axis == -1)) a = reshape(a, {1}), b = reshape(b, {1});
  const Tensor product = reduce_sum(multiply(a, b), {axis});
  // The root of a square that is held above 0 has a slope everywhere.
  const auto norm = [&](Tensor x) {
    const Tensor sum = reduce_sum(square(x), {axis});
    return sqrt(maximum(sum, scalar_like(sum, epsilon * epsilon)));
  };
  return divide(product, multiply(norm(a), norm(b)));
}

Tensor pairwise_distance(Tensor a, Tensor b, double p, double epsilon, bool keep_dims) {
  if (std::isnan(p))
    throw Error({.what = "p is not a number", .where = "pairwise_distance", .found = std::to_string(p)});
  const Tensor d = add_scalar(subtract(wide(a), wide(b)), epsilon);
  if (p <= 0) return vector_norm(d, p, {-1}, keep_dims);
  if (p == 1) return reduce_sum(abs(d), {-1}, keep_dims);
  if (std::isinf(p)) return reduce_max(abs(d), {-1}, keep_dims);
  if (p == 2) return sqrt(reduce_sum(square(d), {-1}, keep_dims));
  const Tensor sum = reduce_sum(power(abs(d), scalar_like(d, p)), {-1}, keep_dims);
  return power(sum, scalar_like(sum, 1 / p));
}

Tensor cosine_embedding_loss(Tensor a, Tensor b, Tensor target, double margin, LossReduction reduction) {
  constexpr double kEpsilon = 1e-12;
  a = wide(a), b = wide(b), target = wide(target);
  const auto dot = [](Tensor x, Tensor y) { return reduce_sum(multiply(x, y), {-1}); };
  const Tensor squares = multiply(add_scalar(dot(a, a), kEpsilon), add_scalar(dot(b, b), kEpsilon));
  const Tensor cosine = divide(dot(a, b), sqrt(squares)), nothing = scalar_like(cosine, 0);
  const Tensor near = select(equal(target, scalar_like(target, 1)), add_scalar(negate(cosine), 1), nothing);
  const Tensor far = select(equal(target, scalar_like(target, -1)), hinge(add_scalar(cosine, -margin)), nothing);
  return reduced(add(near, far), reduction);
}

Tensor triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, const TripletOptions& options) {
  const auto distance = [&](Tensor a, Tensor b) { return pairwise_distance(a, b, options.p, options.epsilon); };
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  return reduced(hinge(add_scalar(subtract(near, far), options.margin)), options.reduction);
}

Tensor ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths,
                const CtcOptions& options) {
  if (targets.shape().rank() == 1 && log_probs.shape().rank() == 3)
    throw Error({.what = "targets that lie one after another: where each begins depends on data",
                 .where = "ctc_loss",
                 .found = targets.type().text(),
                 .expected = "[N, S], a row a sample",
                 .remedy = "Pad each target to the same length"});
  const Tensor lengths = label_of_type(target_lengths);
  const Tensor each = log_probs.builder->op(
      "ctc_loss", {wide(log_probs), label_of_type(targets), label_of_type(input_lengths), lengths},
      {{"blank", options.blank}, {"zero_infinity", options.zero_infinity}});
  if (options.reduction != LossReduction::kMean) return reduced(each, options.reduction);
  const Tensor divisor = cast(maximum(lengths, scalar_like(lengths, 1)), DType::kF32);
  return reduced(divide(each, divisor), LossReduction::kMean);
}

}  // namespace ramet::ops

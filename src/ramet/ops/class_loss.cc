#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/loss_parts.h"
#include "ramet/ops/rules.h"

// Losses of rows of classes: cross-entropy and negative log-likelihood.

namespace ramet::ops {
namespace {

/// sum / divisor, 0 where the divisor is 0.
Tensor safe_quotient(Tensor sum, Tensor divisor) {
  const Tensor none = equal(divisor, scalar_like(divisor, 0));
  return select(none, scalar_like(sum, 0), divide(sum, select(none, scalar_like(divisor, 1), divisor)));
}

Tensor reduced_by_weights(Tensor losses, Tensor weights, const Shape& shape, LossReduction reduction) {
  if (reduction == LossReduction::kNone) return reshape(losses, shape);
  const Tensor sum = reduce_sum(losses);
  return reduction == LossReduction::kSum ? sum : safe_quotient(sum, reduce_sum(weights));
}

struct RowLosses {
  Tensor lse, loss, counted;
};
RowLosses row_losses(Tensor rows, Tensor labels) {
  GraphBuilder& build = *rows.builder;
  const std::vector<Tensor> outputs =
      build.ops("cross_entropy_rows", {build.op("softmax_statistics", {rows, labels}, Attributes{})});
  return {outputs[0], outputs[1], outputs[2]};
}

/// The sum over classes of weight (log-sum-exp - logit), weight being of classes or of elements.
Tensor spread_loss(Tensor rows, Tensor lse, Tensor weight) {
  Tensor each = subtract(reshape(lse, {rows.dim(0), 1}), wide(rows));
  if (weight.valid()) each = multiply(each, weight);
  return reduce_sum(each, {-1});
}

void check_weight(const std::string& what, Tensor weight, int64_t classes) {
  if (weight.valid() && weight.shape() != Shape{classes})
    throw Error({.what = "weights of classes of another shape",
                 .where = what,
                 .found = weight.type().text(),
                 .expected = Shape{classes}.text()});
}

/// Targets are probabilities.
Tensor soft_cross_entropy(Tensor logits, Tensor target, const CrossEntropyOptions& options) {
  const std::string what = "cross_entropy_loss";
  if (target.shape() != logits.shape())
    throw Error({.what = "probabilities of another shape than the logits",
                 .where = what,
                 .found = target.type().text(),
                 .expected = logits.shape().text()});
  const Tensor rows = rows_of_classes(logits, what);
  const int64_t count = rows.dim(0), classes = rows.dim(1);
  check_weight(what, options.weight, classes);
  Tensor share = wide(rows_of_classes(target, what));
  if (options.label_smoothing > 0)
    share =
        add_scalar(scale(share, 1 - options.label_smoothing), options.label_smoothing / static_cast<double>(classes));
  if (options.weight.valid()) share = multiply(share, stop_gradient(wide(options.weight)));
  const Tensor labels = full(*logits.builder, DType::kI32, {count}, -1);
  const Tensor losses = spread_loss(rows, row_losses(rows, labels).lse, share);
  if (options.reduction != LossReduction::kNone) return reduced(losses, options.reduction);
  std::vector<int64_t> dims = logits.shape().dims();
  dims.erase(dims.begin() + (dims.size() > 1 ? 1 : 0));
  return reshape(losses, Shape(dims));
}

}  // namespace

Tensor wide(Tensor a) { return a.dtype() == DType::kF64 ? a : cast(a, DType::kF32); }
Tensor stop_gradient(Tensor a) { return map_unary("stop_gradient", a); }
Tensor scalar_like(Tensor a, double value) { return full(*a.builder, a.dtype(), {}, value); }

Tensor reduced(Tensor losses, LossReduction reduction) {
  if (reduction == LossReduction::kNone) return losses;
  const Tensor sum = reduce_sum(losses);
  if (reduction == LossReduction::kSum) return sum;
  return scale(sum, 1 / static_cast<double>(std::max<int64_t>(1, losses.shape().elements())));
}

Tensor label_of_type(Tensor labels) {
  if (labels.dtype() != DType::kI64) return cast_to(labels, DType::kI32);
  const Tensor held = maximum(minimum(labels, scalar_like(labels, INT32_MAX)), scalar_like(labels, -1));
  return cast(held, DType::kI32);
}

Tensor rows_of_classes(Tensor values, const std::string& what) {
  const int rank = values.shape().rank();
  if (rank < 1 || !is_floating(values.dtype()))
    throw Error({.what = "the loss takes a number a class",
                 .where = what,
                 .found = values.type().text(),
                 .expected = "floats [N, C], [N, C, d...] or [C]"});
  const int64_t classes = values.dim(rank > 1 ? 1 : 0);
  if (rank > 2) {
    std::vector<int64_t> permutation{0};
    for (int axis = 2; axis < rank; ++axis) permutation.push_back(axis);
    permutation.push_back(1);
    values = transpose(values, permutation);
  }
  if (rank == 2) return values;
  const int64_t count = classes == 0 ? 0 : values.shape().elements() / classes;
  return reshape(values, {count, classes});
}

ClassRows class_rows(Tensor values, Tensor target, const std::string& what, int64_t ignore_index) {
  ClassRows rows;
  rows.values = rows_of_classes(values, what);
  rows.count = rows.values.dim(0), rows.classes = rows.values.dim(1);
  std::vector<int64_t> dims = values.shape().dims();
  dims.erase(dims.begin() + (dims.size() > 1 ? 1 : 0));
  rows.shape = Shape(dims);
  if (!is_index(target.dtype()) || target.shape() != rows.shape)
    throw Error({.what = "targets are not one class a row",
                 .where = what,
                 .found = target.type().text(),
                 .expected = "i32 or i64 " + rows.shape.text() + ", for " + values.type().text()});
  Tensor labels = target;
  if (ignore_index >= 0)
    labels =
        select(equal(labels, scalar_like(labels, static_cast<double>(ignore_index))), scalar_like(labels, -1), labels);
  labels = label_of_type(labels);
  rows.labels = labels.shape().rank() == 1 ? labels : reshape(labels, {rows.count});
  return rows;
}

Tensor at_label(Tensor values, Tensor labels) {
  const Tensor classes = iota(*values.builder, DType::kI32, {1, values.dim(1)}, 1);
  return equal(classes, reshape(labels, {values.dim(0), 1}));
}

Tensor pick(Tensor values, Tensor labels) {
  return reduce_sum(select(at_label(values, labels), wide(values), full(*values.builder, DType::kF32, {}, 0)), {-1});
}

Tensor label_weights(const ClassRows& rows, Tensor weight) {
  GraphBuilder& build = *rows.labels.builder;
  check_weight("weights of labels", weight, rows.classes);
  const Tensor table = weight.valid() ? stop_gradient(wide(weight)) : full(build, DType::kF32, {rows.classes}, 1);
  const Tensor nothing = scalar_like(rows.labels, 0);
  const Tensor found = gather(table, maximum(rows.labels, nothing));
  return select(less(rows.labels, nothing), full(build, DType::kF32, {}, 0), found);
}

Tensor cross_entropy_loss(Tensor logits, Tensor target, const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw Error({.what = "label_smoothing is out of range",
                 .where = "cross_entropy_loss",
                 .found = std::to_string(options.label_smoothing),
                 .expected = "0 to 1"});
  if (is_floating(target.dtype())) return soft_cross_entropy(logits, target, options);
  const ClassRows rows = class_rows(logits, target, "cross_entropy_loss", options.ignore_index);
  check_weight("cross_entropy_loss", options.weight, rows.classes);
  const bool plain = !options.weight.valid() && options.label_smoothing == 0;
  if (plain && options.reduction == LossReduction::kMean) return cross_entropy(rows.values, rows.labels).loss;
  const RowLosses each = row_losses(rows.values, rows.labels);
  const Tensor weights = options.weight.valid() ? label_weights(rows, options.weight) : each.counted;
  Tensor losses = options.weight.valid() ? multiply(each.loss, weights) : each.loss;
  if (options.label_smoothing > 0) {
    const Tensor of_classes = options.weight.valid() ? stop_gradient(wide(options.weight)) : Tensor{};
    const Tensor spread = multiply(spread_loss(rows.values, each.lse, of_classes), each.counted);
    losses = add(scale(losses, 1 - options.label_smoothing),
                 scale(spread, options.label_smoothing / static_cast<double>(rows.classes)));
  }
  return reduced_by_weights(losses, weights, rows.shape, options.reduction);
}

Tensor nll_loss(Tensor log_probs, Tensor target, const NllOptions& options) {
  const ClassRows rows = class_rows(log_probs, target, "nll_loss", options.ignore_index);
  const Tensor weights = label_weights(rows, options.weight);
  const Tensor losses = negate(multiply(pick(rows.values, rows.labels), weights));
  return reduced_by_weights(losses, weights, rows.shape, options.reduction);
}

}  // namespace ramet::ops

#pragma once

#include <string>

#include "ramet/ops/build_loss.h"

namespace ramet::ops {

// What the builders of losses share.

/// a in f32; f64 stays. A cast of f32, too, is a node: where the recipe computes in fewer bits, a may come in these.
Tensor wide(Tensor a);
Tensor stop_gradient(Tensor a);
/// A scalar of a's type.
Tensor scalar_like(Tensor a, double value);
/// Losses of elements or rows, summed as asked. A mean of none is 0.
Tensor reduced(Tensor losses, LossReduction reduction);

/// Rows of one number a class, with a label each.
struct ClassRows {
  Tensor values;  ///< [count, classes], f32
  Tensor labels;  ///< i32[count]; below 0: none
  Shape shape;    ///< of the losses: that of the targets
  int64_t count = 0, classes = 0;
};
/// Operands [N, C], [N, C, d...] or [C] and their targets as rows, C last; rows of `ignore_index` get label -1. `what`
/// names the loss in errors.
ClassRows class_rows(Tensor values, Tensor target, const std::string& what, int64_t ignore_index = -100);
/// A tensor of the shape of the values as such rows.
Tensor rows_of_classes(Tensor values, const std::string& what);
/// Labels, lengths and the like as i32; numbers of an i64 that are too large become too large ones of i32.
Tensor label_of_type(Tensor labels);

/// bool [count, classes]: whether the class is the row's label.
Tensor at_label(Tensor values, Tensor labels);
/// The label's value of each row, 0 without a label.
Tensor pick(Tensor values, Tensor labels);
/// The weight of each row's label, 1 where `weight` is invalid, 0 without a label. A label that is no class is an error
/// at run time.
Tensor label_weights(const ClassRows& rows, Tensor weight);

}  // namespace ramet::ops

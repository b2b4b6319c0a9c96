#pragma once

#include <utility>
#include <vector>

#include "ramet/ops/build.h"

namespace ramet::ops {

// Reductions made of sums, extremes and element-wise ops. No axes: over all dimensions. Floats narrower than f32 are
// computed in f32 and rounded once.

/// Mean square deviation from the mean, times n / (n - correction) for n elements: NaN or infinite when n <=
/// correction.
Tensor variance(Tensor a, const std::vector<int64_t>& axes = {}, double correction = 1, bool keep_dims = false);
/// Its square root; the gradient is 0 where the deviation is 0.
Tensor standard_deviation(Tensor a, const std::vector<int64_t>& axes = {}, double correction = 1,
                          bool keep_dims = false);
/// log of the sum of exp(a), without overflow.
Tensor log_sum_exp(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
/// (sum of |a|^order)^(1/order); order infinity: the greatest |a|, minus infinity: the least, 0: how many are not 0.
/// The gradient is 0 where the norm is 0.
Tensor vector_norm(Tensor a, double order = 2, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
/// i32 index of the least element, the first of equals.
Tensor argmin(Tensor a, int64_t axis);
/// Whether any, or every, element is not 0 (true): bool. NaN is not 0.
Tensor any(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
Tensor all(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);
/// How many elements are not 0: i32, or i64 of a tensor of 2^31 elements or more.
Tensor count_nonzero(Tensor a, const std::vector<int64_t>& axes = {}, bool keep_dims = false);

}  // namespace ramet::ops

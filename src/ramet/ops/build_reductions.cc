#include "ramet/ops/build_reductions.h"

#include <cmath>

#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

Tensor number_like(const Tensor& a, double value) { return full(*a.builder, a.dtype(), {}, value); }
Tensor stop(Tensor a) { return map_unary("stop_gradient", a); }

/// Floats narrower than f32 as f32.
Tensor widened(Tensor a) { return is_floating(a.dtype()) && size_of(a.dtype()) < 4 ? cast(a, DType::kF32) : a; }

/// sqrt with gradient 0 at 0.
Tensor root(Tensor a) {
  const Tensor is_zero = equal(a, number_like(a, 0));
  return select(is_zero, number_like(a, 0), sqrt(select(is_zero, number_like(a, 1), a)));
}

int64_t terms_of(const Tensor& a, const Tensor& reduced) {
  const int64_t results = reduced.shape().elements();
  return results == 0 ? 0 : a.shape().elements() / results;
}

Tensor variance_of(Tensor a, const std::vector<int64_t>& axes, double correction, bool keep_dims) {
  const Tensor squares = map_unary("square", subtract(a, reduce_mean(a, axes, true)));
  const Tensor sum = reduce_sum(squares, axes, keep_dims);
  const double freedom = static_cast<double>(terms_of(a, sum)) - correction;
  return divide(sum, number_like(sum, freedom > 0 ? freedom : 0));
}

/// 1 where an element is not 0, else 0.
Tensor indicator(Tensor a) {
  const DType counts = a.shape().elements() > INT32_MAX ? DType::kI64 : DType::kI32;
  if (a.dtype() == DType::kBool) return cast(a, counts);
  return cast(map_binary("not_equal", a, number_like(a, 0)), counts);
}

/// Sum of |a|^order, to the power 1 / order.
Tensor power_norm(Tensor a, double order, const std::vector<int64_t>& axes, bool keep_dims) {
  // Powers of 0 have no finite gradient below order 1, nor has the root: both are taken of 1 there, and left out.
  const auto raised = [](Tensor base, double exponent) {
    const Tensor is_zero = equal(base, number_like(base, 0));
    return select(is_zero, number_like(base, exponent > 0 ? 0 : INFINITY),
                  power(select(is_zero, number_like(base, 1), base), number_like(base, exponent)));
  };
  return raised(reduce_sum(raised(map_unary("abs", a), order), axes, keep_dims), 1 / order);
}

}  // namespace

Tensor variance(Tensor a, const std::vector<int64_t>& axes, double correction, bool keep_dims) {
  return cast_to(variance_of(widened(a), axes, correction, keep_dims), a.dtype());
}

Tensor standard_deviation(Tensor a, const std::vector<int64_t>& axes, double correction, bool keep_dims) {
  return cast_to(root(variance_of(widened(a), axes, correction, keep_dims)), a.dtype());
}

Tensor log_sum_exp(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  const Tensor wide = widened(a), most = stop(reduce_max(wide, axes, true));
  // An infinite greatest element would give infinity minus infinity.
  const Tensor origin = select(map_unary("is_finite", most), most, number_like(most, 0));
  const Tensor sums = log(reduce_sum(exp(subtract(wide, origin)), axes, keep_dims));
  return cast_to(add(sums, reshape(origin, sums.shape())), a.dtype());
}

Tensor vector_norm(Tensor a, double order, const std::vector<int64_t>& axes, bool keep_dims) {
  const Tensor wide = widened(a);
  if (order == 0) return cast_to(cast(count_nonzero(a, axes, keep_dims), wide.dtype()), a.dtype());
  if (std::isinf(order)) {
    const Tensor sizes = map_unary("abs", wide);
    return cast_to(order > 0 ? reduce_max(sizes, axes, keep_dims) : reduce_min(sizes, axes, keep_dims), a.dtype());
  }
  if (order == 1) return cast_to(reduce_sum(map_unary("abs", wide), axes, keep_dims), a.dtype());
  if (order == 2) return cast_to(root(reduce_sum(map_unary("square", wide), axes, keep_dims)), a.dtype());
  return cast_to(power_norm(wide, order, axes, keep_dims), a.dtype());
}

Tensor argmin(Tensor a, int64_t axis) { return a.builder->op("argmin", {a}, {{"axis", axis}}); }

Tensor any(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  const Tensor count = count_nonzero(a, axes, keep_dims);
  return map_binary("greater", count, number_like(count, 0));
}

Tensor all(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  const Tensor count = count_nonzero(a, axes, keep_dims);
  return equal(count, number_like(count, static_cast<double>(terms_of(a, count))));
}

Tensor count_nonzero(Tensor a, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce_sum(indicator(a), axes, keep_dims);
}

}  // namespace ramet::ops

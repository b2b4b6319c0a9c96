// Reductions.
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/front/support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_reductions.h"

namespace ramet::front {
namespace {

/// What a reduction is over: all dimensions where the call names none.
struct Over {
  std::vector<int64_t> axes{};
  bool keeps = false;
  bool nothing = false;  ///< of a tensor without dimensions
};
Over over(const Translation& at, const Tensor& a, const char* name = "dim") {
  Over made{.keeps = at.flag("keepdim", false), .nothing = a.shape().rank() == 0};
  if (at.has(name) && !made.nothing) made.axes = axes_of(at, name, a.shape().rank());
  return made;
}
Tensor self(const Translation& at) { return at.tensor("self"); }

template <auto kReduce>
std::vector<Tensor> reduce(const Translation& at) {
  const Tensor a = in_type(self(at), at.result().dtype);
  const Over by = over(at, a);
  return {by.nothing ? a : kReduce(a, by.axes, by.keeps)};
}
std::vector<Tensor> nan_sum(const Translation& at) {
  Tensor a = in_type(self(at), at.result().dtype);
  if (is_floating(a.dtype())) a = ops::select(ops::is_nan(a), ops::full(at.build(), a.dtype(), {}, 0), a);
  const Over by = over(at, a);
  return {by.nothing ? a : ops::reduce_sum(a, by.axes, by.keeps)};
}

/// The extremes of bools are those of integers.
Tensor extreme(const Tensor& a, bool greatest, const Over& by) {
  if (by.nothing) return a;
  const Tensor numbers = a.dtype() == DType::kBool ? ops::cast(a, DType::kI32) : a;
  const Tensor made =
      greatest ? ops::reduce_max(numbers, by.axes, by.keeps) : ops::reduce_min(numbers, by.axes, by.keeps);
  return in_type(made, a.dtype());
}
std::vector<Tensor> amax(const Translation& at) { return {extreme(self(at), true, over(at, self(at)))}; }
std::vector<Tensor> amin(const Translation& at) { return {extreme(self(at), false, over(at, self(at)))}; }

/// Index of the greatest or the least element along an axis, i64; without an axis, in the flat tensor.
Tensor arg_extreme(const Translation& at, Tensor a, bool greatest, size_t result) {
  const TensorType& type = at.result(result);
  if (a.shape().rank() == 0) return ops::full(at.build(), type.dtype, type.shape, 0);
  if (a.dtype() == DType::kBool) a = ops::cast(a, DType::kI32);
  int64_t axis = 0;
  if (at.has("dim"))
    axis = axis_of(at, "dim", a.shape().rank());
  else
    a = ops::reshape(a, {-1});
  const Tensor index = greatest ? ops::argmax(a, axis) : ops::argmin(a, axis);
  return like_result(at, ops::cast(index, type.dtype), result);
}
std::vector<Tensor> argmax(const Translation& at) { return {arg_extreme(at, self(at), true, 0)}; }
std::vector<Tensor> argmin(const Translation& at) { return {arg_extreme(at, self(at), false, 0)}; }

/// max and min: of two tensors, of all elements, or along an axis with indices.
std::vector<Tensor> extremes(const Translation& at, bool greatest) {
  if (at.has("other")) {
    const DType dtype = at.result().dtype;
    const Tensor a = operand(at, "self", dtype), b = operand(at, "other", dtype);
    if (dtype == DType::kBool) return {greatest ? ops::logical_or(a, b) : ops::logical_and(a, b)};
    return {greatest ? ops::maximum(a, b) : ops::minimum(a, b)};
  }
  const Tensor a = self(at);
  std::vector<Tensor> made = {extreme(a, greatest, over(at, a))};
  if (at.call().outputs.size() > 1) made.push_back(at.reads(1) ? arg_extreme(at, a, greatest, 1) : Tensor());
  return made;
}
std::vector<Tensor> max(const Translation& at) { return extremes(at, true); }
std::vector<Tensor> min(const Translation& at) { return extremes(at, false); }
std::vector<Tensor> both_extremes(const Translation& at) {
  const Over by = over(at, self(at));
  return {extreme(self(at), false, by), extreme(self(at), true, by)};
}

template <auto kReduce>
std::vector<Tensor> truth(const Translation& at) {
  const Tensor a = in_type(self(at), DType::kBool);
  const Over by = over(at, a);
  return {in_type(by.nothing ? a : kReduce(a, by.axes, by.keeps), at.result().dtype)};
}

/// n - correction is what a variance is divided by.
double correction(const Translation& at) {
  if (at.has("correction")) return at.number("correction");
  return at.flag("unbiased", true) ? 1 : 0;
}
Tensor spread(const Translation& at, const Tensor& a, const Over& by, bool root) {
  if (by.nothing) at.refuse("the variance of one number is not defined");
  return root ? ops::standard_deviation(a, by.axes, correction(at), by.keeps)
              : ops::variance(a, by.axes, correction(at), by.keeps);
}
template <bool kRoot>
std::vector<Tensor> variance(const Translation& at) {
  return {spread(at, self(at), over(at, self(at)), kRoot)};
}
template <bool kRoot>
std::vector<Tensor> variance_and_mean(const Translation& at) {
  const Tensor a = self(at);
  const Over by = over(at, a);
  return {spread(at, a, by, kRoot), ops::reduce_mean(a, by.axes, by.keeps)};
}

Tensor norm_of(const Translation& at, Tensor a, const char* order_name) {
  double order = 2;
  if (at.is_number(order_name)) order = at.number(order_name);
  const Over by = over(at, a);
  a = in_type(a, at.result().dtype);
  if (by.nothing) return order == 0 ? ops::cast(in_type(a, DType::kBool), a.dtype()) : ops::map_unary("abs", a);
  return ops::vector_norm(a, order, by.axes, by.keeps);
}
std::vector<Tensor> norm(const Translation& at) { return {norm_of(at, self(at), "p")}; }
std::vector<Tensor> vector_norm(const Translation& at) { return {norm_of(at, self(at), "ord")}; }
std::vector<Tensor> distance(const Translation& at) {
  return {norm_of(at, ops::subtract(self(at), at.tensor("other")), "p")};
}

std::vector<Tensor> log_sum_exp(const Translation& at) {
  const Tensor a = in_type(self(at), at.result().dtype);
  const Over by = over(at, a);
  return {by.nothing ? a : ops::log_sum_exp(a, by.axes, by.keeps)};
}
std::vector<Tensor> count_nonzero(const Translation& at) {
  const Tensor a = self(at);
  const Over by = over(at, a);
  if (by.nothing) return {ops::cast(in_type(a, DType::kBool), at.result().dtype)};
  return {ops::cast(ops::count_nonzero(a, by.axes, false), at.result().dtype)};
}

constexpr OperatorEntry kEntries[] = {
    {"aten.all", truth<ops::all>},
    {"aten.amax", amax},
    {"aten.amin", amin},
    {"aten.aminmax", both_extremes},
    {"aten.any", truth<ops::any>},
    {"aten.argmax", argmax},
    {"aten.argmin", argmin},
    {"aten.count_nonzero", count_nonzero},
    {"aten.dist", distance},
    {"aten.linalg_vector_norm", vector_norm},
    {"aten.logsumexp", log_sum_exp},
    {"aten.max", max},
    {"aten.mean", reduce<ops::reduce_mean>},
    {"aten.min", min},
    {"aten.nansum", nan_sum},
    {"aten.norm", norm},
    {"aten.prod", reduce<ops::reduce_prod>},
    {"aten.special_logsumexp", log_sum_exp},
    {"aten.std", variance<true>},
    {"aten.std_mean", variance_and_mean<true>},
    {"aten.sum", reduce<ops::reduce_sum>},
    {"aten.var", variance<false>},
    {"aten.var_mean", variance_and_mean<false>},
};

}  // namespace

std::span<const OperatorEntry> reduction_operators() { return kEntries; }

}  // namespace ramet::front

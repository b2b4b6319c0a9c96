#include "ramet/front/index_support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/rules.h"

// Elements in order along an axis, places in sorted tensors, and results that run along an axis.

namespace ramet::front {
namespace {

using Tensors = std::vector<Tensor>;

/// The operand of a sort: at least a vector, of numbers (bools sort as numbers; the importer casts results back).
Tensor sorted_operand(const Translation& at) {
  const Tensor a = at_least_vector(at.tensor("self"));
  return a.dtype() == DType::kBool ? cast(a, DType::kI32) : a;
}

int64_t dimension(const Translation& at, const Tensor& a) { return axis_of(at, "dim", a.shape().rank(), -1); }

Tensors translate_sort(const Translation& at) {
  const Tensor a = sorted_operand(at);
  const auto [values, indices] = sort(a, dimension(at, a), at.flag("descending", false));
  return {like_result(at, values), like_result(at, indices, 1)};
}

Tensors translate_argsort(const Translation& at) {
  const Tensor a = sorted_operand(at);
  return {like_result(at, argsort(a, dimension(at, a), at.flag("descending", false)))};
}

Tensors translate_msort(const Translation& at) { return {like_result(at, sort(sorted_operand(at), 0).first)}; }

Tensors translate_topk(const Translation& at) {
  const Tensor a = sorted_operand(at);
  const auto [values, indices] = top_k(a, at.integer("k"), dimension(at, a), at.flag("largest", true));
  return {like_result(at, values), like_result(at, indices, 1)};
}

/// The elements at `place` (i32, extent 1 along `axis`) of a sorted tensor and of its indices, in the recorded shapes.
Tensors picked(const Translation& at, const std::pair<Tensor, Tensor>& sorted, Tensor place, int64_t axis) {
  Tensors found = {like_result(at, gather_elements(sorted.first, place, axis))};
  if (at.call().outputs.size() > 1) found.push_back(like_result(at, gather_elements(sorted.second, place, axis), 1));
  return found;
}

Tensor constant_place(const Translation& at, const Tensor& a, int64_t axis, int64_t place) {
  std::vector<int64_t> dims = a.shape().dims();
  dims[static_cast<size_t>(axis)] = 1;
  return full(at.build(), DType::kI32, Shape(dims), static_cast<double>(place));
}

Tensors translate_kthvalue(const Translation& at) {
  const Tensor a = sorted_operand(at);
  const int64_t axis = dimension(at, a);
  return picked(at, sort(a, axis), constant_place(at, a, axis, at.integer("k") - 1), axis);
}

/// median and nanmedian: over one dimension, or over all elements.
template <bool ignores_nan>
Tensors translate_median(const Translation& at) {
  Tensor a = sorted_operand(at);
  if (!at.has("dim")) a = flat(a);
  const int64_t axis = at.has("dim") ? dimension(at, a) : 0;
  const int64_t extent = a.dim(static_cast<int>(axis));
  if (extent == 0) at.refuse("a median of no elements");
  Tensor place = constant_place(at, a, axis, (extent - 1) / 2);
  if (is_floating(a.dtype())) {  // a NaN counts as the greatest: as many elements stand before the first NaN
    const Tensor numbers = in_type(count_nonzero(equal(a, a), {axis}, true), DType::kI32);
    const Tensor all = full(at.build(), DType::kI32, {}, static_cast<double>(extent));
    const Tensor one = full(at.build(), DType::kI32, {}, 1);
    const Tensor two = full(at.build(), DType::kI32, {}, 2), none = zeros(at.build(), {DType::kI32, {}});
    place = ignores_nan ? floor_divide(maximum(subtract(numbers, one), none), two)
                        : select(less(numbers, all), numbers, place);
  }
  return picked(at, sort(a, axis), place, axis);
}

/// The most frequent element, the least of several; its index is that of its last occurrence.
Tensors translate_mode(const Translation& at) {
  const Tensor a = sorted_operand(at);
  const int64_t axis = dimension(at, a), last = a.shape().rank() - 1;
  auto [values, indices] = sort(move_axis(a, axis, last), last);
  const Tensor before = search_sorted(values, values), through = search_sorted(values, values, true);
  std::vector<int64_t> dims = values.shape().dims();
  dims.back() = 1;
  const Tensor first = reshape(argmax(subtract(through, before), last), Shape(dims));
  const Tensor behind = gather_elements(through, first, last);
  const Tensor place = subtract(behind, full(at.build(), behind.dtype(), {}, 1));
  return picked(at, {values, indices}, place, last);
}

/// `values` may be a number; sorted elements and values get one type.
Tensors search(const Translation& at, Tensor sorted, std::string_view name, bool right) {
  Tensor values = at.tensor(name);
  const bool number = at.is_number(name);
  if (number || (is_integer(values.dtype()) && is_floating(sorted.dtype())))
    values = in_type(values, sorted.dtype());
  else
    sorted = in_type(sorted, values.dtype());
  values = at_least_vector(values);
  if (sorted.shape().rank() > 1 && at.result().shape.rank() == 0) values = reshape(values, {1});
  return {like_result(at, search_sorted(sorted, values, right))};
}

Tensors translate_searchsorted(const Translation& at) {
  Tensor sorted = at.tensor("sorted_sequence");
  if (at.has("sorter")) sorted = gather_elements(sorted, at.tensor("sorter"), sorted.shape().rank() - 1);
  const std::string side = at.text("side");
  return search(at, sorted, "self", side.empty() ? at.flag("right", false) : side == "right");
}

Tensors translate_bucketize(const Translation& at) {
  return search(at, at.tensor("boundaries"), "self", at.flag("right", false));
}

/// Operand and axis of a result that runs along an axis, in the element type of the result.
struct RunningCall {
  Tensor a;
  int64_t axis;
};
RunningCall running_call(const Translation& at) {
  const Tensor a = at_least_vector(at.tensor("self"));
  const DType dtype = at.result().dtype;
  return {in_type(a, dtype == DType::kBool ? DType::kI32 : dtype), dimension(at, a)};
}

Tensors translate_cumsum(const Translation& at) {
  const RunningCall c = running_call(at);
  return {like_result(at, cumsum(c.a, c.axis))};
}

Tensors translate_cumprod(const Translation& at) {
  const RunningCall c = running_call(at);
  return {like_result(at, cumprod(c.a, c.axis))};
}

Tensors extremes(const Translation& at, std::pair<Tensor, Tensor> (*function)(Tensor, int64_t)) {
  const RunningCall c = running_call(at);
  const auto [values, indices] = function(c.a, c.axis);
  return {like_result(at, values), like_result(at, indices, 1)};
}
Tensors translate_cummax(const Translation& at) { return extremes(at, cummax); }
Tensors translate_cummin(const Translation& at) { return extremes(at, cummin); }

/// m[t] + log h[t] with m the greatest element so far and h[t] = exp(m[t-1] - m[t]) h[t-1] + exp(a[t] - m[t]).
Tensors translate_logcumsumexp(const Translation& at) {
  const RunningCall c = running_call(at);
  const Tensor a = in_type(c.a, DType::kF32);
  const Tensor lowest = full(at.build(), DType::kF32, {}, -3e38);
  const Tensor most = map_unary("stop_gradient", maximum(cummax(a, c.axis).first, lowest));
  const Tensor previous = shift(most, c.axis, 1, -3e38);
  const Tensor sums = linear_scan(exp(subtract(previous, most)), exp(subtract(a, most)), c.axis);
  return {like_result(at, add(most, log(sums)))};
}

/// Differences of neighbours along an axis, n times, after tensors were set before and behind.
Tensors translate_diff(const Translation& at) {
  Tensor a = at.tensor("self");
  const int64_t axis = dimension(at, a);
  Tensors parts = {a};
  if (at.has("prepend")) parts.insert(parts.begin(), at.tensor("prepend"));
  if (at.has("append")) parts.push_back(at.tensor("append"));
  for (Tensor& part : parts) part = in_type(part, at.result().dtype);
  a = concat(parts, axis);
  const int64_t n = at.integer("n", 1);
  if (a.dtype() != DType::kBool) return {difference(a, axis, n)};
  for (int64_t i = 0; i < n; ++i) {  // of bools: whether neighbours differ
    const int64_t extent = a.dim(static_cast<int>(axis));
    a = logical_xor(slice_axis(a, axis, 1, extent), slice_axis(a, axis, 0, extent - 1));
  }
  return {a};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.sort", translate_sort},
    {"aten.argsort", translate_argsort},
    {"aten.msort", translate_msort},
    {"aten.topk", translate_topk},
    {"aten.kthvalue", translate_kthvalue},
    {"aten.median", translate_median<false>},
    {"aten.nanmedian", translate_median<true>},
    {"aten.mode", translate_mode},
    {"aten.searchsorted", translate_searchsorted},
    {"aten.bucketize", translate_bucketize},
    {"aten.cumsum", translate_cumsum},
    {"aten.cumprod", translate_cumprod},
    {"aten.cummax", translate_cummax},
    {"aten.cummin", translate_cummin},
    {"aten.logcumsumexp", translate_logcumsumexp},
    {"aten.diff", translate_diff},
};

}  // namespace

std::span<const OperatorEntry> order_operators() { return kOperators; }

}  // namespace ramet::front

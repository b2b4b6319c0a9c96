#include "ramet/front/onnx_support.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {

Tensor at_least_f32(Tensor a) {
  return is_floating(a.dtype()) && size_of(a.dtype()) < 4 ? ops::cast(a, DType::kF32) : a;
}

Tensor through_f32(Tensor a, const std::function<Tensor(Tensor)>& compute) {
  return in_type(compute(at_least_f32(a)), a.dtype());
}

Tensor rounded_to(Tensor a, DType dtype) {
  if (dtype == DType::kBF16) return ops::map_unary("round_bf16", a);
  if (dtype == DType::kF16) return ops::map_unary("round_f16", a);
  return a;
}

Tensor softmax_in(Tensor a, int64_t axis, DType dtype) {
  if (dtype != DType::kBF16 && dtype != DType::kF16) return ops::softmax(a, axis);
  const Tensor most = ops::reduce_max(a, {axis}, true);
  const Tensor powers = rounded_to(ops::exp(rounded_to(ops::subtract(a, most), dtype)), dtype);
  const int at = normalize_axis(axis, a.shape().rank(), "softmax");
  const int64_t terms = a.dim(at);
  Tensor sum;
  if (dtype == DType::kBF16 && terms <= 64)  // sums of bf16 are rounded term by term
    for (int64_t i = 0; i < terms; ++i) {
      const Tensor term = ops::slice_axis(powers, at, i, i + 1);
      sum = sum.valid() ? rounded_to(ops::add(sum, term), dtype) : term;
    }
  else
    sum = rounded_to(ops::reduce_sum(powers, {axis}, true), dtype);
  return rounded_to(ops::divide(powers, sum), dtype);
}

Tensor guarded_softmax(Tensor scores, int64_t axis, DType dtype, double row_of_hidden) {
  const DType own = scores.dtype();
  const auto number = [&](double value) { return ops::full(*scores.builder, own, {}, value); };
  const Tensor hidden =
      ops::equal(ops::reduce_max(scores, {axis}, true), number(-std::numeric_limits<double>::infinity()));
  const Tensor made = softmax_in(at_least_f32(ops::select(hidden, number(0), scores)), axis, dtype);
  return ops::select(hidden, number(row_of_hidden), in_type(made, own));
}

Tensor slice_by_step(Tensor a, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  axis = normalize_axis(axis, a.shape().rank(), "slice");
  const int64_t n = a.dim(static_cast<int>(axis));
  if (step == 0) throw ShapeError({.what = "a slice has step 0"});
  const auto held = [&](int64_t at, int64_t low, int64_t high) {
    if (at < 0) at += std::min(n, INT64_MAX + at + 1);
    return std::clamp(at, low, high);
  };
  if (step > 0) {
    start = held(start, 0, n), stop = std::max(start, held(stop, 0, n));
    return ops::slice_axis(a, axis, start, stop, std::min(step, std::max<int64_t>(n, 1)));
  }
  start = held(start, -1, n - 1);
  stop = stop < -n ? -1 : held(stop, -1, n - 1);
  const int64_t from = n - 1 - start, to = std::max(from, n - 1 - stop);
  const int64_t size = std::max<int64_t>(n, 1);
  return ops::slice_axis(ops::flip(a, {axis}), axis, from, to, step < -size ? size : -step);
}

std::vector<int64_t> checked_axes(std::vector<int64_t> axes, int rank) {
  std::set<int64_t> seen;
  for (int64_t& axis : axes) {
    axis = normalize_axis(axis, std::max(rank, 1), "axes");
    if (!seen.insert(axis).second) throw ShapeError({.what = "an axis stands twice", .found = std::to_string(axis)});
  }
  return axes;
}

Tensor expand(Tensor a, const Shape& shape) {
  const Shape whole = broadcast_shapes(a.shape(), shape, "Expand");
  return whole == a.shape() ? a : ops::broadcast_to(a, whole);
}

Tensor along_channels(Tensor a, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(std::max(rank, 2)), 1);
  dims[1] = a.shape().elements();
  return ops::reshape(a, Shape(dims));
}

Tensor cast_to(Tensor a, DType dtype, bool saturate) {
  if (a.dtype() == dtype) return a;
  const bool f8 = dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  if (!f8) return in_type(a, dtype);
  Tensor wide = is_floating(a.dtype()) ? at_least_f32(a) : ops::cast(a, DType::kF32);
  if (wide.dtype() == DType::kF64) wide = ops::cast(wide, DType::kF32);
  return ops::narrow(wide, dtype, {.scale = 1, .saturate = saturate});
}

OnnxWindows onnx_windows(const OnnxCall& at, const Shape& input, std::vector<int64_t> taps) {
  const auto space = static_cast<size_t>(std::max(input.rank() - 2, 0));
  const auto sized = [&](std::vector<int64_t> list, const char* name, size_t count) {
    if (list.size() != count)
      at.refuse(std::string("attribute '") + name + "' has " + std::to_string(list.size()) + " numbers, not " +
                std::to_string(count));
    return list;
  };
  OnnxWindows made;
  made.taps = sized(std::move(taps), "kernel_shape", space);
  made.strides = sized(at.integers("strides", std::vector<int64_t>(space, 1)), "strides", space);
  made.dilations = sized(at.integers("dilations", std::vector<int64_t>(space, 1)), "dilations", space);
  for (size_t i = 0; i < space; ++i)
    if (made.taps[i] < 1 || made.strides[i] < 1 || made.dilations[i] < 1)
      at.refuse("a window has an extent, a stride or a dilation below 1");
  const std::string automatic = at.text("auto_pad", "NOTSET");
  made.low.assign(space, 0), made.high.assign(space, 0);
  if (automatic == "NOTSET" || automatic.empty()) {
    const std::vector<int64_t> pads = sized(at.integers("pads", std::vector<int64_t>(2 * space, 0)), "pads", 2 * space);
    std::copy(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(space), made.low.begin());
    std::copy(pads.begin() + static_cast<std::ptrdiff_t>(space), pads.end(), made.high.begin());
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < space; ++i) {
      const int64_t extent = input.dim(static_cast<int>(i) + 2), stride = made.strides[i];
      const int64_t window = (made.taps[i] - 1) * made.dilations[i] + 1;
      const int64_t total = std::max<int64_t>(0, ((extent + stride - 1) / stride - 1) * stride + window - extent);
      made.low[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      made.high[i] = total - made.low[i];
    }
  } else if (automatic != "VALID") {
    at.refuse("auto_pad '" + automatic + "' is not known");
  }
  return made;
}

}  // namespace ramet::front

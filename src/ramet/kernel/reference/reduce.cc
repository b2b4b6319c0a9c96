#include <algorithm>
#include <functional>
#include <optional>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/reduce_shape.h"

namespace ramet::kernel {
namespace {

/// The element of the output that an element of the input falls on.
int64_t target_of(const Shape& shape, const std::vector<int>& axes, const std::vector<int64_t>& index) {
  int64_t target = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      target = target * shape.dim(axis) + index[static_cast<size_t>(axis)];
  return target;
}

/// Reduces all elements that fall on the same element of the output, in order of index.
void reduce(const ReferenceOperands& operands, bool starts_at_first, double start,
            const std::function<double(double, double)>& combine) {
  const Shape& shape = operands.input_type(0).shape;
  const std::vector<int> axes = reduce_axes(operands.node());
  const int64_t count = operands.output_type(0).elements();
  std::vector<double> result(static_cast<size_t>(count), start);
  std::vector<bool> begun(static_cast<size_t>(count), !starts_at_first);
  int64_t element = 0;
  for_each_index(shape, [&](const std::vector<int64_t>& index) {
    const double value = operands.get(0, element++);
    const size_t at = static_cast<size_t>(target_of(shape, axes, index));
    result[at] = begun[at] ? combine(result[at], value) : value;
    begun[at] = true;
  });
  for (int64_t i = 0; i < count; ++i) operands.set(0, i, result[static_cast<size_t>(i)]);
}

/// The same on 64-bit integers, which doubles could not hold; `set_int` wraps the result to the type.
void reduce_integers(const ReferenceOperands& operands, const std::optional<uint64_t>& start,
                     const std::function<uint64_t(uint64_t, uint64_t)>& combine) {
  const Shape& shape = operands.input_type(0).shape;
  const std::vector<int> axes = reduce_axes(operands.node());
  std::vector<std::optional<uint64_t>> result(static_cast<size_t>(operands.output_type(0).elements()), start);
  int64_t element = 0;
  for_each_index(shape, [&](const std::vector<int64_t>& index) {
    auto& at = result[static_cast<size_t>(target_of(shape, axes, index))];
    const auto value = static_cast<uint64_t>(operands.get_int(0, element++));
    at = at ? combine(*at, value) : value;
  });
  for (size_t i = 0; i < result.size(); ++i)
    operands.set_int(0, static_cast<int64_t>(i), static_cast<int64_t>(result[i].value_or(0)));
}

/// The greater (lesser) of two integers of the type, by their 64 bits.
uint64_t extreme_of(uint64_t a, uint64_t b, DType dtype, bool greatest) {
  const bool less = dtype == DType::kU64 ? a < b : static_cast<int64_t>(a) < static_cast<int64_t>(b);
  return less == greatest ? b : a;
}

double greater_of(double a, double b) { return a > b || a != a ? a : b; }
double lesser_of(double a, double b) { return a < b || a != a ? a : b; }

/// Adds one op with its meaning on floats and on integers; `start` is the result of nothing.
void add_reduce(Backend& backend, const std::string& op, std::optional<uint64_t> start,
                const std::function<double(double, double)>& floats,
                const std::function<uint64_t(uint64_t, uint64_t, DType)>& integers) {
  add_reference(backend, op, [=](const ReferenceOperands& operands) {
    const DType dtype = operands.input_type(0).dtype;
    if (is_integer(dtype))
      reduce_integers(operands, start, [&](uint64_t a, uint64_t b) { return integers(a, b, dtype); });
    else
      reduce(operands, !start, start ? static_cast<double>(*start) : 0.0, floats);
  });
}

}  // namespace

void add_reference_reduce(Backend& backend) {
  add_reduce(backend, "reduce_sum", 0, std::plus<double>(), [](uint64_t a, uint64_t b, DType) { return a + b; });
  add_reduce(backend, "reduce_prod", 1, std::multiplies<double>(), [](uint64_t a, uint64_t b, DType) { return a * b; });
  add_reduce(backend, "reduce_max", std::nullopt, greater_of,
             [](uint64_t a, uint64_t b, DType dtype) { return extreme_of(a, b, dtype, true); });
  add_reduce(backend, "reduce_min", std::nullopt, lesser_of,
             [](uint64_t a, uint64_t b, DType dtype) { return extreme_of(a, b, dtype, false); });
}

}  // namespace ramet::kernel

// Tensors whose values are known before the program runs.
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/front/support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

std::vector<Tensor> filled(const Translation& at, Tensor value) {
  return {ops::broadcast_to(value, at.result().shape)};
}
std::vector<Tensor> zeros(const Translation& at) {
  return {ops::full(at.build(), at.result().dtype, at.result().shape, 0)};
}
std::vector<Tensor> ones(const Translation& at) {
  return {ops::full(at.build(), at.result().dtype, at.result().shape, 1)};
}
/// A number, or a tensor of one element, in all elements.
std::vector<Tensor> fill(const Translation& at) {
  for (const char* name : {"fill_value", "value", "s"})
    if (at.has(name)) {
      Tensor value = operand(at, name, at.result().dtype);
      if (value.shape().elements() != 1) at.refuse("a tensor is filled with more than one number");
      if (value.shape().rank() > 0) value = ops::reshape(value, {});
      return filled(at, value);
    }
  at.refuse("a tensor is filled with no number");
}

/// first + step i, in the type of the result.
Tensor progression(const Translation& at, const TracedArgument& first, const TracedArgument& step) {
  const TensorType& type = at.result();
  const Tensor index = ops::iota(at.build(), type.dtype, type.shape, 0);
  const Tensor scaled = ops::multiply(index, number_tensor(at.build(), type.dtype, step));
  return ops::add(scaled, number_tensor(at.build(), type.dtype, first));
}
TracedArgument whole(int64_t value) {
  TracedArgument number;
  number.kind = TracedArgument::Kind::kInt, number.integer = value, number.number = static_cast<double>(value);
  return number;
}
std::vector<Tensor> arange(const Translation& at) {
  for (const char* name : {"start", "end", "step"})
    if (at.has(name) && !at.is_number(name)) at.refuse("the bounds of arange must be fixed numbers");
  const TracedArgument first = at.has("start") ? *at.call().find("start") : whole(0);
  const TracedArgument step = at.has("step") ? *at.call().find("step") : whole(1);
  if (first.number == 0 && step.number == 1) return {ops::iota(at.build(), at.result().dtype, at.result().shape, 0)};
  return {progression(at, first, step)};
}

/// Numbers that are computed here, one an element.
template <typename Element>
std::vector<Tensor> computed(const Translation& at, const Element& element) {
  const TensorType& type = at.result();
  constexpr int64_t kMost = int64_t{1} << 24;
  if (type.elements() > kMost) at.refuse("a table of more than 16 million numbers", "Make the table a buffer");
  HostTensor values(type);
  for (int64_t i = 0; i < values.elements(); ++i) values.set(i, element(i));
  return {ops::constant(at.build(), TensorData(std::move(values)))};
}
std::vector<Tensor> linspace(const Translation& at) {
  const double start = at.number("start"), end = at.number("end");
  const int64_t steps = at.integer("steps");
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  // From both ends, as torch computes it.
  return computed(at, [&](int64_t i) {
    return i < steps / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
  });
}
std::vector<Tensor> logspace(const Translation& at) {
  const double start = at.number("start"), end = at.number("end"), base = at.number("base", 10);
  const int64_t steps = at.integer("steps");
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  return computed(at, [&](int64_t i) { return std::pow(base, start + step * static_cast<double>(i)); });
}
std::vector<Tensor> eye(const Translation& at) {
  if (at.result().shape.rank() != 2) at.refuse("an identity matrix has two dimensions");
  const Shape& shape = at.result().shape;
  const Tensor rows = ops::iota(at.build(), DType::kI32, shape, 0),
               columns = ops::iota(at.build(), DType::kI32, shape, 1);
  return {ops::cast(ops::equal(rows, columns), at.result().dtype)};
}

/// The coordinates of a triangle, [2, n].
std::vector<Tensor> triangle(const Translation& at, bool lower) {
  const int64_t rows = at.integer("row"), columns = at.integer("col"), offset = at.integer("offset", 0);
  if (at.result().shape.rank() != 2) at.refuse("the coordinates of a triangle are a matrix");
  std::vector<std::pair<int64_t, int64_t>> places;
  const auto count = static_cast<size_t>(at.result().shape.dim(1));
  for (int64_t i = 0; i < rows && places.size() < count; ++i) {
    const int64_t first = lower ? 0 : std::max<int64_t>(0, i + offset);
    const int64_t stop = lower ? std::min(columns, i + offset + 1) : columns;
    for (int64_t j = first; j < stop && places.size() < count; ++j) places.emplace_back(i, j);
  }
  if (places.size() != count) at.refuse("a triangle of another size than PyTorch recorded");
  return computed(at, [&](int64_t i) {
    const auto [row, column] = places[static_cast<size_t>(i) % count];
    return static_cast<double>(static_cast<size_t>(i) < count ? row : column);
  });
}
std::vector<Tensor> lower_triangle(const Translation& at) { return triangle(at, true); }
std::vector<Tensor> upper_triangle(const Translation& at) { return triangle(at, false); }

constexpr OperatorEntry kEntries[] = {
    {"aten.arange", arange},
    {"aten.empty", zeros},
    {"aten.empty_like", zeros},
    {"aten.empty_permuted", zeros},
    {"aten.empty_strided", zeros},
    {"aten.eye", eye},
    {"aten.fill", fill},
    {"aten.full", fill},
    {"aten.full_like", fill},
    {"aten.linspace", linspace},
    {"aten.logspace", logspace},
    {"aten.new_empty", zeros},
    {"aten.new_empty_strided", zeros},
    {"aten.new_full", fill},
    {"aten.new_ones", ones},
    {"aten.new_zeros", zeros},
    {"aten.ones", ones},
    {"aten.ones_like", ones},
    {"aten.scalar_tensor", fill},
    {"aten.tril_indices", lower_triangle},
    {"aten.triu_indices", upper_triangle},
    {"aten.zero", zeros},
    {"aten.zeros", zeros},
    {"aten.zeros_like", zeros},
};

}  // namespace

std::span<const OperatorEntry> constant_operators() { return kEntries; }

}  // namespace ramet::front

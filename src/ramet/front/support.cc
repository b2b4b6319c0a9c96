#include "ramet/front/support.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::front {
namespace {

/// Bools before integers before floats; longer types behind shorter ones.
int rank_of(DType dtype) {
  if (dtype == DType::kBool) return 0;
  const int width = static_cast<int>(size_of(dtype));
  return (is_floating(dtype) ? 200 : 100) + 2 * width + (is_unsigned(dtype) ? 0 : 1);
}

DType join(DType a, DType b) {
  if (a == b) return a;
  if ((a == DType::kF16 && b == DType::kBF16) || (a == DType::kBF16 && b == DType::kF16)) return DType::kF32;
  return rank_of(a) > rank_of(b) ? a : b;
}

int kind_of(DType dtype) { return rank_of(dtype) / 100; }

}  // namespace

Tensor in_type(Tensor a, DType dtype) {
  if (a.dtype() == dtype) return a;
  if (dtype != DType::kBool) return ops::cast(a, dtype);
  return ops::map_binary("not_equal", a, ops::full(*a.builder, a.dtype(), {}, 0));
}

Tensor number_tensor(GraphBuilder& build, DType dtype, const TracedArgument& number) {
  const bool whole = number.kind == TracedArgument::Kind::kInt || number.kind == TracedArgument::Kind::kBool;
  if (dtype == DType::kBool) return ops::full(build, dtype, {}, number.number != 0);
  if (is_floating(dtype) || !whole) return ops::full(build, dtype, {}, number.number);
  HostTensor value({dtype, {}});
  store_integer(value.data.data(), dtype, 0, number.integer);
  return ops::constant(build, TensorData(std::move(value)));
}

Tensor operand(const Translation& at, std::string_view name, DType dtype) {
  if (at.is_number(name)) return number_tensor(at.build(), dtype, *at.call().find(name));
  return in_type(at.tensor(name), dtype);
}

DType promoted(const Translation& at, std::initializer_list<std::string_view> names) {
  std::optional<DType> of[3];  // tensors with dimensions, tensors without, numbers
  for (const std::string_view name : names) {
    if (!at.has(name)) continue;
    DType dtype = DType::kBool;
    size_t level = 2;
    if (at.is_number(name)) {
      const TracedArgument::Kind kind = at.call().find(name)->kind;
      if (kind == TracedArgument::Kind::kInt) dtype = DType::kI64;
      if (kind == TracedArgument::Kind::kFloat) dtype = DType::kF32;
    } else {
      const Tensor tensor = at.tensor(name);
      dtype = tensor.dtype(), level = tensor.shape().rank() > 0 ? 0 : 1;
    }
    of[level] = of[level] ? join(*of[level], dtype) : dtype;
  }
  std::optional<DType> result;
  for (const auto& dtype : of)
    if (dtype && (!result || kind_of(*dtype) > kind_of(*result))) result = dtype;
  return result.value_or(DType::kF32);
}

std::vector<int64_t> axes_of(const Translation& at, std::string_view name, int rank) {
  std::vector<int64_t> axes = at.integers(name);
  for (int64_t& axis : axes) axis = normalize_axis(axis, std::max(rank, 1), "argument '" + std::string(name) + "'");
  if (rank == 0) axes.clear();
  return axes;
}

int64_t axis_of(const Translation& at, std::string_view name, int rank, std::optional<int64_t> absent) {
  return normalize_axis(at.integer(name, absent), std::max(rank, 1), "argument '" + std::string(name) + "'");
}

Tensor like_result(const Translation& at, Tensor value, size_t index) {
  const Shape& shape = at.result(index).shape;
  return value.shape() == shape ? value : ops::reshape(value, shape);
}

}  // namespace ramet::front

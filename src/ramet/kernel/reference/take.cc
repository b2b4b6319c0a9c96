#include <cstring>
#include <limits>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/index_space.h"

namespace ramet::kernel {
namespace {

using Dims = std::vector<int64_t>;

int64_t offset_in(const Shape& shape, const Dims& index) {
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) offset = offset * shape.dim(axis) + index[static_cast<size_t>(axis)];
  return offset;
}

void check_indices(const ReferenceOperands& operands, const IndexSpace& space, int first_index) {
  for (size_t n = 0; n < space.axes.size(); ++n) {
    const int input = first_index + static_cast<int>(n);
    for (int64_t i = 0; i < operands.input_type(input).elements(); ++i)
      if (const int64_t index = operands.get_int(input, i); space.coordinate(n, index) < 0)
        throw space.out_of_range(operands.node(), n, i, index);
  }
}

/// Calls `visit(picked, whole)` with the flat element of the picked tensor and the one of the whole that it addresses.
template <typename Visit>
void for_each_pick(const ReferenceOperands& operands, int first_index, const Visit& visit) {
  const IndexSpace space(operands.node(), static_cast<size_t>(first_index));
  check_indices(operands, space, first_index);
  int64_t element = 0;
  for_each_index(space.picked(), [&](const Dims& index) {
    Dims at(static_cast<size_t>(space.whole.rank()), 0);
    const auto first = index.begin() + space.before;
    const Dims position(first, first + space.space.rank());
    for (size_t i = 0; i < space.kept.size(); ++i) {
      const bool leads = static_cast<int>(i) < space.before;
      at[static_cast<size_t>(space.kept[i])] = index[i + (leads ? 0 : position.size())];
    }
    for (size_t dim = 0; dim < position.size(); ++dim)
      if (const int axis = space.along[dim]; axis >= 0) at[static_cast<size_t>(axis)] = position[dim];
    for (size_t n = 0; n < space.axes.size(); ++n) {
      const int64_t from = broadcast_offset(space.index_shapes[n], position);
      const int64_t found = operands.get_int(first_index + static_cast<int>(n), from);
      at[static_cast<size_t>(space.axes[n])] = space.coordinate(n, found);
    }
    visit(element++, offset_in(space.whole, at));
  });
}

void move_element(const ReferenceOperands& operands, int input, int64_t from, int64_t to) {
  const auto size = static_cast<int64_t>(size_of(operands.input_type(input).dtype));
  std::memcpy(static_cast<char*>(operands.output_bytes(0)) + to * size,
              static_cast<const char*>(operands.input_bytes(input)) + from * size, static_cast<size_t>(size));
}

void take(const ReferenceOperands& operands) {
  for_each_pick(operands, 1, [&](int64_t picked, int64_t whole) { move_element(operands, 0, whole, picked); });
}

double updated(const std::string& by, double a, double b) {
  if (by == "add") return a + b;
  if (by == "mul") return a * b;
  if (a != a || b != b) return std::numeric_limits<double>::quiet_NaN();
  return (by == "max") == (a > b) ? a : b;
}
int64_t updated(const std::string& by, int64_t a, int64_t b) {
  const auto u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b);
  if (by == "add") return static_cast<int64_t>(u + v);
  if (by == "mul") return static_cast<int64_t>(u * v);
  return (by == "max") == (a > b) ? a : b;
}

/// Updates in double, or in 64 bits for integers and bools; results are stored when all indices have been checked.
template <typename T, typename Get, typename Set>
void put_by(const ReferenceOperands& operands, const std::string& by, const Get& get, const Set& set) {
  const bool include_self = operands.attributes().get_bool_or("include_self", true);
  const int64_t elements = operands.output_type(0).elements();
  std::vector<T> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(get(0, i));
  std::vector<bool> started(static_cast<size_t>(elements), include_self);
  std::vector<bool> touched(static_cast<size_t>(elements), false);
  for_each_pick(operands, 2, [&](int64_t picked, int64_t whole) {
    const auto at = static_cast<size_t>(whole);
    values[at] = started[at] ? updated(by, values[at], get(1, picked)) : get(1, picked);
    started[at] = touched[at] = true;
  });
  for (int64_t i = 0; i < elements; ++i) {
    move_element(operands, 0, i, i);
    if (touched[static_cast<size_t>(i)]) set(i, values[static_cast<size_t>(i)]);
  }
}

void put(const ReferenceOperands& operands) {
  const std::string& by = operands.attributes().get_string("by");
  const DType dtype = operands.output_type(0).dtype;
  if (by == "set") {
    std::vector<std::pair<int64_t, int64_t>> moves;
    for_each_pick(operands, 2, [&](int64_t picked, int64_t whole) { moves.emplace_back(picked, whole); });
    for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) move_element(operands, 0, i, i);
    for (const auto& [picked, whole] : moves) move_element(operands, 1, picked, whole);
  } else if (is_floating(dtype)) {
    put_by<double>(
        operands, by, [&](int input, int64_t i) { return operands.get(input, i); },
        [&](int64_t i, double value) { operands.set(0, i, value); });
  } else {
    // A store of i32 would hold a sum in range; integers wrap.
    put_by<int64_t>(
        operands, by, [&](int input, int64_t i) { return operands.get_int(input, i); },
        [&](int64_t i, int64_t value) { operands.set_int(0, i, wrap_integer(value, dtype)); });
  }
}

}  // namespace

void add_reference_take(Backend& backend) {
  add_reference(backend, "take", take);
  add_reference(backend, "put", put);
}

}  // namespace ramet::kernel

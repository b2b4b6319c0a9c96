#include <algorithm>
#include <numeric>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel {
namespace {

/// Elements of one input that have an order: 64-bit integers do not fit a double.
class Ordered {
 public:
  Ordered(const ReferenceOperands& operands, int input)
      : operands_(operands), input_(input), floating_(is_floating(operands.input_type(input).dtype)) {}
  /// A NaN is the greatest.
  bool less(int64_t a, const Ordered& other, int64_t b) const {
    if (!floating_) return operands_.get_int(input_, a) < other.operands_.get_int(other.input_, b);
    const double x = operands_.get(input_, a), y = other.operands_.get(other.input_, b);
    if (x != x || y != y) return x == x;
    return x < y;
  }
  bool less(int64_t a, int64_t b) const { return less(a, *this, b); }
  /// Element `from` to element `to` of output 0.
  void move(int64_t from, int64_t to) const {
    if (floating_)
      operands_.set(0, to, operands_.get(input_, from));
    else
      operands_.set_int(0, to, operands_.get_int(input_, from));
  }
  bool is_nan(int64_t i) const { return floating_ && operands_.get(input_, i) != operands_.get(input_, i); }

 private:
  const ReferenceOperands& operands_;
  int input_;
  bool floating_;
};

/// Calls `visit(first, step)` for each line along the axis: its elements are first, first + step, ...
template <typename Visit>
void for_each_line(const ReferenceOperands& operands, const Visit& visit) {
  const Shape& shape = operands.input_type(0).shape;
  const int axis = axis_attribute(operands.node(), "axis", shape.rank());
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= shape.dim(i);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) visit(o * shape.dim(axis) * inner + i, inner, shape.dim(axis));
}

void sort(const ReferenceOperands& operands) {
  const Ordered a(operands, 0);
  const bool descending = operands.attributes().get_bool_or("descending", false);
  for_each_line(operands, [&](int64_t first, int64_t step, int64_t extent) {
    std::vector<int64_t> order(static_cast<size_t>(extent));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const int64_t x = first + i * step, y = first + j * step;
      return descending ? a.less(y, x) : a.less(x, y);
    });
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t from = order[static_cast<size_t>(i)];
      a.move(first + from * step, first + i * step);
      operands.set_int(1, first + i * step, from);
    }
  });
}

void search_sorted(const ReferenceOperands& operands) {
  const Ordered sorted(operands, 0), values(operands, 1);
  const bool right = operands.attributes().get_bool_or("right", false);
  const Shape &line = operands.input_type(0).shape, &shape = operands.input_type(1).shape;
  const int64_t extent = line.dim(-1), each = line.rank() > 1 ? shape.dim(-1) : shape.elements();
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t first = i / each * extent;
    int64_t count = 0;
    while (count < extent && (right ? !values.less(i, sorted, first + count) : sorted.less(first + count, values, i)))
      ++count;
    operands.set_int(0, i, count);
  }
}

void cumulative_extreme(const ReferenceOperands& operands, bool greatest) {
  const Ordered a(operands, 0);
  for_each_line(operands, [&](int64_t first, int64_t step, int64_t extent) {
    int64_t best = 0;
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t here = first + i * step, there = first + best * step;
      const bool loses = greatest ? a.less(here, there) : a.less(there, here);
      if (a.is_nan(here) || (!a.is_nan(there) && !loses)) best = i;
      a.move(first + best * step, here);
      operands.set_int(1, here, best);
    }
  });
}

/// Calls `visit(element, before)` along each line in its direction; `before` is -1 at the first.
template <typename Visit>
void for_each_step(const ReferenceOperands& operands, const Visit& visit) {
  const bool reverse = operands.attributes().get_bool_or("reverse", false);
  for_each_line(operands, [&](int64_t first, int64_t step, int64_t extent) {
    int64_t before = -1;
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t element = first + (reverse ? extent - 1 - i : i) * step;
      visit(element, before);
      before = element;
    }
  });
}

void cumprod(const ReferenceOperands& operands) {
  const DType dtype = operands.input_type(0).dtype;
  double product = 1;
  uint64_t whole = 1;
  for_each_step(operands, [&](int64_t element, int64_t before) {
    if (before < 0) product = 1, whole = 1;
    if (is_floating(dtype)) return operands.set(0, element, product *= operands.get(0, element));
    whole *= static_cast<uint64_t>(operands.get_int(0, element));
    operands.set_int(0, element, wrap_integer(static_cast<int64_t>(whole), dtype));
  });
}

void linear_scan(const ReferenceOperands& operands) {
  const bool shifted = operands.attributes().get_bool_or("shifted", false);
  double state = 0;
  for_each_step(operands, [&](int64_t element, int64_t before) {
    const double term = operands.get(1, element);
    state = before < 0 ? term : operands.get(0, shifted ? before : element) * state + term;
    operands.set(0, element, state);
  });
}

}  // namespace

void add_reference_order(Backend& backend) {
  add_reference(backend, "sort", sort);
  add_reference(backend, "search_sorted", search_sorted);
  add_reference(backend, "cummax", [](const ReferenceOperands& operands) { cumulative_extreme(operands, true); });
  add_reference(backend, "cummin", [](const ReferenceOperands& operands) { cumulative_extreme(operands, false); });
  add_reference(backend, "cumprod", cumprod);
  add_reference(backend, "linear_scan", linear_scan);
}

}  // namespace ramet::kernel

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel {
namespace {

/// A tensor as [outer, extent, inner] around one axis.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
  AxisView(const Shape& shape, int axis) : extent(shape.dim(axis)) {
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) (i < axis ? outer : inner) *= shape.dim(i);
  }
  int64_t at(int64_t o, int64_t e, int64_t i) const { return (o * extent + e) * inner + i; }
};

/// The row of this part of the table that an index means; -1 when another part has it.
int64_t checked_row(const ReferenceOperands& operands, int input, int64_t position, const Position& table) {
  const int64_t index = operands.get_int(input, position), rows = table.logical()[0];
  if (index < 0 || index >= rows)
    throw Error({.what = "index out of range",
                 .where = operands.node().text() + ", index position " + std::to_string(position),
                 .found = std::to_string(index),
                 .expected = "0 to " + std::to_string(rows - 1)},
                ErrorKind::kFailure);
  return table.local_coordinate(0, index);
}

void one_hot(const ReferenceOperands& operands) {
  const int64_t depth = operands.attributes().get_int("depth");
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    const int64_t index = operands.get_int(0, i);
    for (int64_t d = 0; d < depth; ++d) operands.set(0, i * depth + d, d == index);
  }
}

void gather(const ReferenceOperands& operands) {
  const AxisView table(operands.input_type(0).shape, 0);
  const Position rows(operands.node());
  for (int64_t i = 0; i < operands.input_type(1).elements(); ++i) {
    const int64_t row = checked_row(operands, 1, i, rows);
    for (int64_t h = 0; h < table.inner; ++h) {
      if (row < 0)
        operands.set(0, i * table.inner + h, -0.0);
      else if (is_floating(operands.input_type(0).dtype))
        operands.set(0, i * table.inner + h, operands.get(0, row * table.inner + h));
      else
        operands.set_int(0, i * table.inner + h, operands.get_int(0, row * table.inner + h));
    }
  }
}

void scatter_add(const ReferenceOperands& operands) {
  const AxisView out(operands.output_type(0).shape, 0);
  const Position rows(operands.node());
  std::vector<double> sums(static_cast<size_t>(operands.output_type(0).elements()), 0.0);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    const int64_t row = checked_row(operands, 0, i, rows);
    if (row < 0) continue;
    for (int64_t h = 0; h < out.inner; ++h)
      sums[static_cast<size_t>(row * out.inner + h)] += operands.get(1, i * out.inner + h);
  }
  if (operands.node().inputs.size() == 2) {
    for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
    return;
  }
  // Sums are added to the addend in f32. Rows without updates are skipped, so that -0 stays -0.
  std::vector<bool> touched(static_cast<size_t>(operands.output_type(0).shape.dim(0)), false);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i)
    if (const int64_t row = checked_row(operands, 0, i, rows); row >= 0) touched[static_cast<size_t>(row)] = true;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double base = operands.get(2, static_cast<int64_t>(i));
    const bool adds = touched[i / static_cast<size_t>(out.inner)];
    operands.set(0, static_cast<int64_t>(i), adds ? base + static_cast<float>(sums[i]) : base);
  }
}

/// An order of elements: NaN before (after) all, then by value, then by position.
bool precedes(double a, double b, bool greatest) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan && !b_nan;
  return greatest ? a > b : a < b;
}

/// `precedes` for elements of any type; 64-bit integers do not fit a double.
bool element_precedes(const ReferenceOperands& operands, int64_t a, int64_t b, bool greatest) {
  const DType dtype = operands.input_type(0).dtype;
  if (is_floating(dtype)) return precedes(operands.get(0, a), operands.get(0, b), greatest);
  const int64_t first = operands.get_int(0, greatest ? b : a), second = operands.get_int(0, greatest ? a : b);
  return dtype == DType::kU64 ? static_cast<uint64_t>(first) < static_cast<uint64_t>(second) : first < second;
}

void find_extreme(const ReferenceOperands& operands, bool greatest) {
  const Shape& shape = operands.input_type(0).shape;
  const AxisView view(shape, axis_attribute(operands.node(), "axis", shape.rank()));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      for (int64_t e = 1; e < view.extent; ++e)
        if (element_precedes(operands, view.at(o, e, i), view.at(o, best, i), greatest)) best = e;
      operands.set_int(0, o * view.inner + i, best);
    }
}

void cumsum(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const AxisView view(shape, axis_attribute(operands.node(), "axis", shape.rank()));
  const bool reverse = operands.attributes().get_bool_or("reverse", false),
             floating = is_floating(operands.input_type(0).dtype);
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      double sum = 0;
      uint64_t count = 0;
      for (int64_t e = 0; e < view.extent; ++e) {
        const int64_t element = view.at(o, reverse ? view.extent - 1 - e : e, i);
        if (floating) {
          operands.set(0, element, sum += operands.get(0, element));
        } else {
          count += static_cast<uint64_t>(operands.get_int(0, element));
          operands.set_int(0, element, static_cast<int64_t>(count));
        }
      }
    }
}

void reverse(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const std::vector<int> axes = axes_attribute(operands.node(), "axes", shape.rank());
  int64_t element = 0;
  for_each_index(shape, [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int64_t i = index[static_cast<size_t>(axis)];
      from = from * shape.dim(axis) +
             (std::find(axes.begin(), axes.end(), axis) != axes.end() ? shape.dim(axis) - 1 - i : i);
    }
    if (is_integer(operands.input_type(0).dtype))
      operands.set_int(0, element++, operands.get_int(0, from));
    else
      operands.set(0, element++, operands.get(0, from));
  });
}

/// Whether element a stands before element b: the greatest first, or the least, where a NaN counts as the greatest.
bool stands_before(const ReferenceOperands& operands, int64_t a, int64_t b, bool least) {
  return least ? element_precedes(operands, b, a, true) : element_precedes(operands, a, b, true);
}

void top_k(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const int axis =
      operands.attributes().has("axis") ? axis_attribute(operands.node(), "axis", shape.rank()) : shape.rank() - 1;
  const AxisView view(shape, axis), chosen(operands.output_type(0).shape, axis);
  const bool least = operands.attributes().get_bool_or("least", false);
  std::vector<int64_t> order(static_cast<size_t>(view.extent));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return stands_before(operands, view.at(o, a, i), view.at(o, b, i), least);
      });
      for (int64_t e = 0; e < chosen.extent; ++e) {
        const int64_t from = view.at(o, order[static_cast<size_t>(e)], i), to = chosen.at(o, e, i);
        if (is_floating(operands.input_type(0).dtype))
          operands.set(0, to, operands.get(0, from));
        else
          operands.set_int(0, to, operands.get_int(0, from));
        operands.set_int(1, to, order[static_cast<size_t>(e)]);
      }
    }
}

}  // namespace

void add_reference_indexing(Backend& backend) {
  add_reference(backend, "one_hot", one_hot);
  add_reference(backend, "gather", gather);
  add_reference(backend, "scatter_add", scatter_add);
  add_reference(backend, "argmax", [](const ReferenceOperands& operands) { find_extreme(operands, true); });
  add_reference(backend, "argmin", [](const ReferenceOperands& operands) { find_extreme(operands, false); });
  add_reference(backend, "cumsum", cumsum);
  add_reference(backend, "reverse", reverse);
  add_reference(backend, "top_k", top_k);
}

}  // namespace ramet::kernel

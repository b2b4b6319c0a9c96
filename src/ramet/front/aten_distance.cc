#include <algorithm>
#include <cmath>
#include <numeric>

#include "ramet/front/index_support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/rules.h"

// Distances, products of vectors and tensors, histograms.

namespace ramet::front {
namespace {

using Tensors = std::vector<Tensor>;
using Dims = std::vector<int64_t>;

/// Norms of the differences of each row of x1 [..., P, M] and each of x2 [..., R, M].
Tensors translate_cdist(const Translation& at) {
  const auto with_axis = [](Tensor a, int from_end) {
    Dims dims = a.shape().dims();
    dims.insert(dims.end() - from_end, 1);
    return reshape(a, Shape(dims));
  };
  const Tensor a = with_axis(at.tensor("x1"), 1), b = with_axis(at.tensor("x2"), 2);
  return {vector_norm(subtract(a, b), at.number("p", 2), {-1})};
}

/// Norms of the differences of all pairs of rows.
Tensors translate_pdist(const Translation& at) {
  const Tensor a = at.tensor("self");
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < a.dim(0); ++i)
    for (int64_t j = i + 1; j < a.dim(0); ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  const Shape pairs{static_cast<int64_t>(first.size())};
  const Tensor difference =
      subtract(gather(a, integer_constant(at, pairs, first)), gather(a, integer_constant(at, pairs, second)));
  return {vector_norm(difference, at.number("p", 2), {-1})};
}

/// Cross products of vectors along a dimension of 3: cross takes the first such one, linalg_cross the last dimension.
Tensors translate_cross(const Translation& at) {
  Tensor a = at.tensor("self"), b = at.tensor("other");
  const Shape& shape = at.result().shape;
  a = broadcast_to(a, shape);
  b = broadcast_to(b, shape);
  int64_t axis = shape.rank() - 1;
  if (at.has("dim"))
    axis = axis_of(at, "dim", shape.rank());
  else if (at.call().op == "aten.cross")
    axis = std::find(shape.dims().begin(), shape.dims().end(), 3) - shape.dims().begin();
  const auto turned = [&](Tensor x, int64_t by) { return roll(x, {by}, {axis}); };
  return {subtract(multiply(turned(a, -1), turned(b, -2)), multiply(turned(a, -2), turned(b, -1)))};
}

/// Elements as a matrix: kept dimensions as rows, the `summed` ones, in their order, as columns.
Tensor summed_last(Tensor a, const Dims& kept, const Dims& summed) {
  Dims order = kept;
  order.insert(order.end(), summed.begin(), summed.end());
  int64_t columns = 1;
  for (int64_t axis : summed) columns *= a.dim(static_cast<int>(axis));
  const int64_t rows = columns == 0 ? 0 : a.shape().elements() / columns;
  return reshape(transpose(a, order), {rows, columns});
}

Tensors translate_tensordot(const Translation& at) {
  const Tensor a = at.tensor("self"), b = at.tensor("other");
  const auto sides = [&](const Tensor& x, const char* name) {
    Dims summed, kept;
    summed = axes_of(at, name, x.shape().rank());
    for (int64_t axis = 0; axis < x.shape().rank(); ++axis)
      if (std::find(summed.begin(), summed.end(), axis) == summed.end()) kept.push_back(axis);
    return summed_last(x, kept, summed);
  };
  const Tensor product = matmul(sides(a, "dims_self"), sides(b, "dims_other"), false, true);
  return {like_result(at, product)};
}

/// Each element of `self` times the whole of `other`.
Tensors translate_kron(const Translation& at) {
  Tensor a = at.tensor("self"), b = at.tensor("other");
  const auto rank = static_cast<size_t>(std::max(a.shape().rank(), b.shape().rank()));
  const auto spread = [&](const Tensor& x, bool outer) {
    Dims own = x.shape().dims(), dims;
    own.insert(own.begin(), rank - own.size(), 1);
    for (int64_t extent : own) {
      dims.push_back(outer ? extent : 1);
      dims.push_back(outer ? 1 : extent);
    }
    return reshape(in_type(x, at.result().dtype), Shape(dims));
  };
  return {like_result(at, multiply(spread(a, true), spread(b, false)))};
}

/// How many elements lie in each of `bins` equal parts of [low, high]; without bounds, of the range of the elements.
Tensors translate_histc(const Translation& at) {
  const int64_t bins = at.integer("bins", 100);
  const Tensor a = map_unary("stop_gradient", in_type(flat(at.tensor("self")), DType::kF32));
  const auto number = [&](double value) { return full(at.build(), DType::kF32, {}, value); };
  Tensor low = number(at.number("min", 0)), high = number(at.number("max", 0));
  if (at.number("min", 0) == at.number("max", 0)) {
    if (at.number("min", 0) == 0 && a.dim(0) > 0) {
      low = reduce_min(a);
      high = reduce_max(a);
    }
    const Tensor point = equal(low, high);
    low = select(point, subtract(low, number(1)), low);
    high = select(point, add(high, number(1)), high);
  }
  const Tensor inside = logical_and(map_binary("greater_equal", a, low), map_binary("less_equal", a, high));
  const Tensor part = divide(multiply(subtract(a, low), number(static_cast<double>(bins))), subtract(high, low));
  const Tensor place = select(inside, clamp(part, 0, static_cast<double>(bins - 1)), number(static_cast<double>(bins)));
  const Tensor ones = full(at.build(), DType::kF32, a.shape(), 1);
  return {slice_axis(
      put(zeros(at.build(), {DType::kF32, {bins + 1}}), ones, {cast(place, DType::kI32)}, {.axes = {0}}, {.by = "add"}),
      0, 0, bins)};
}

/// The rows of the first operand, sorted into groups that end before `offs`, times the matrix of each group: [S, N] of
/// rows [S, K] and matrices [G, K, N]. Each group's product is taken of all rows, and one of them is kept for a row:
/// the sizes of groups depend on data.
Tensors translate_grouped_product(const Translation& at) {
  const Tensor rows = at.tensor("input"), matrices = at.tensor("weight");
  const Tensor ends = in_type(at.tensor("offs"), DType::kI32);
  const int64_t count = rows.dim(0);
  const Tensor places = iota(at.build(), DType::kI32, Shape{count}, 0);
  const Tensor group = reshape(search_sorted(ends, places, true), {count, 1});
  Tensor result = zeros(at.build(), {rows.dtype(), {count, matrices.dim(2)}});
  for (int64_t g = 0; g < matrices.dim(0); ++g) {
    const Tensor mine = equal(group, full(at.build(), DType::kI32, {}, static_cast<double>(g)));
    result = select(mine, matmul(rows, select_index(matrices, 0, g)), result);
  }
  return {result};
}

/// Matrices along the diagonal of one.
Tensors translate_block_diag(const Translation& at) {
  const DType dtype = at.result().dtype;
  const int64_t columns = at.result().shape.dim(1);
  Tensors rows;
  int64_t before = 0;
  for (Tensor block : at.tensors("tensors")) {
    block = in_type(block, dtype);
    if (block.shape().rank() < 2) block = reshape(block, {1, block.shape().elements()});
    rows.push_back(pad(block, {0, before}, {0, columns - before - block.dim(1)}));
    before += block.dim(1);
  }
  return {concat(rows, 0)};
}

/// Means of neighbours along a dimension, times their distance.
Tensor trapezoids(const Translation& at, int64_t axis) {
  const Tensor y = at.tensor("y");
  const int64_t extent = y.dim(static_cast<int>(axis));
  const Tensor sums = add(slice_axis(y, axis, 1, extent), slice_axis(y, axis, 0, extent - 1));
  if (!at.has("x")) return scale(sums, at.number("dx", 1) / 2);
  Tensor x = at.tensor("x");
  if (x.shape().rank() == 1) {
    Dims dims(static_cast<size_t>(y.shape().rank()), 1);
    dims[static_cast<size_t>(axis)] = x.dim(0);
    x = reshape(x, Shape(dims));
  }
  return scale(multiply(sums, difference(x, axis - y.shape().rank())), 0.5);
}

Tensors translate_trapezoid(const Translation& at) {
  const int64_t axis = axis_of(at, "dim", at.tensor("y").shape().rank(), -1);
  return {reduce_sum(trapezoids(at, axis), {axis})};
}

Tensors translate_cumulative_trapezoid(const Translation& at) {
  const int64_t axis = axis_of(at, "dim", at.tensor("y").shape().rank(), -1);
  return {cumsum(trapezoids(at, axis), axis)};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.cdist", translate_cdist},
    {"aten._cdist_forward", translate_cdist},
    {"aten._euclidean_dist", translate_cdist},
    {"aten.pdist", translate_pdist},
    {"aten._pdist_forward", translate_pdist},
    {"aten.cross", translate_cross},
    {"aten.linalg_cross", translate_cross},
    {"aten.tensordot", translate_tensordot},
    {"aten.kron", translate_kron},
    {"aten.histc", translate_histc},
    {"transformers.grouped_mm_fallback", translate_grouped_product},
    {"aten.block_diag", translate_block_diag},
    {"aten.trapezoid", translate_trapezoid},
    {"aten.cumulative_trapezoid", translate_cumulative_trapezoid},
};

}  // namespace

std::span<const OperatorEntry> distance_operators() { return kOperators; }

}  // namespace ramet::front

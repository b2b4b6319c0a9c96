#include "ramet/ops/build_indexing.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Dims = std::vector<int64_t>;

size_t at(int64_t index) { return static_cast<size_t>(index); }

std::string place(const char* op, const Tensor& a) { return std::string(op) + " of " + a.type().text(); }

/// Every dimension of the indices runs along the axis of the same number, but for `axis`, which they address.
Addressing lines(const char* op, const Tensor& a, const Tensor& indices, int64_t axis, bool from_end) {
  const int rank = a.shape().rank(), which = normalize_axis(axis, rank, place(op, a));
  if (indices.shape().rank() != rank)
    throw Error({.what = "indices of another rank",
                 .where = place(op, a),
                 .found = indices.type().text(),
                 .expected = "rank " + std::to_string(rank)});
  Addressing addressing{.axes = {which}, .from_end = from_end};
  for (int i = 0; i < rank; ++i) addressing.along.push_back(i == which ? -1 : i);
  return addressing;
}

/// The columns of indices [I..., n] as n tensors [I...].
std::vector<Tensor> columns_of(const char* op, const Tensor& a, const Tensor& indices, int64_t batch_dims) {
  const int64_t rank = a.shape().rank();
  if (indices.shape().rank() < 1 || batch_dims < 0 || batch_dims >= indices.shape().rank() || indices.dim(-1) < 1 ||
      indices.dim(-1) + batch_dims > rank)
    throw Error({.what = "the last dimension of the indices is no coordinate of the tensor",
                 .where = place(op, a),
                 .found = indices.type().text() + " with " + std::to_string(batch_dims) + " batch dimensions",
                 .expected = "1 to " + std::to_string(rank - batch_dims) + " coordinates behind the batch dimensions"});
  Dims dims = indices.shape().dims();
  const int64_t count = dims.back();
  dims.pop_back();
  if (count == 1) return {reshape(indices, Shape(dims))};
  std::vector<Tensor> columns = split(indices, Dims(at(count), 1), -1);
  for (Tensor& column : columns) column = reshape(column, Shape(dims));
  return columns;
}

Addressing tuples(const Tensor& indices, int64_t batch_dims, bool from_end) {
  Addressing addressing{.axes = Dims(at(indices.dim(-1))), .along = Dims(at(indices.shape().rank() - 1), -1)};
  std::iota(addressing.axes.begin(), addressing.axes.end(), batch_dims);
  std::iota(addressing.along.begin(), addressing.along.begin() + batch_dims, 0);
  addressing.from_end = from_end;
  return addressing;
}

/// put, and the mean of the updates.
Tensor put_or_mean(Tensor a, Tensor updates, const std::vector<Tensor>& indices, const Addressing& addressing,
                   const UpdateBy& by) {
  if (by.by != "mean") return put(a, updates, indices, addressing, by);
  if (!is_floating(a.dtype()))
    throw Error({.what = "a mean is floating-point",
                 .where = place("scatter", a),
                 .found = std::string(name_of(a.dtype())),
                 .expected = "a floating-point type",
                 .remedy = "Cast it first, or divide sums by counts"});
  const DType wide = size_of(a.dtype()) < 4 ? DType::kF32 : a.dtype();
  const Tensor sums = put(cast_to(a, wide), cast_to(updates, wide), indices, addressing,
                          {.by = "add", .include_self = by.include_self});
  const auto ones = [&](const Shape& shape) { return full(*a.builder, wide, shape, 1); };
  const Tensor counts =
      put(ones(a.shape()), ones(updates.shape()), indices, addressing, {.by = "add", .include_self = by.include_self});
  return cast_to(divide(sums, counts), a.dtype());
}

/// PyTorch's rule for several index tensors, with invalid ones as full slices.
struct Advanced {
  std::vector<Tensor> tensors;
  Addressing addressing;
  Shape picked;
};

Advanced advanced_of(const char* op, const Tensor& a, const std::vector<Tensor>& indices) {
  const int64_t rank = a.shape().rank();
  if (static_cast<int64_t>(indices.size()) > rank)
    throw Error({.what = "more indices than dimensions",
                 .where = place(op, a),
                 .found = std::to_string(indices.size()),
                 .expected = "at most " + std::to_string(rank)});
  Advanced found;
  found.addressing.from_end = true;
  Shape space;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis].valid()) continue;
    if (indices[axis].dtype() == DType::kBool) refuse_size_of_data("index by a mask", place(op, a));
    found.tensors.push_back(indices[axis]);
    found.addressing.axes.push_back(static_cast<int64_t>(axis));
    space = broadcast_shapes(space, indices[axis].shape(), place(op, a));
  }
  if (found.tensors.empty()) return found;
  const Dims& axes = found.addressing.axes;
  const bool neighbours = axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  found.addressing.before = neighbours ? axes.front() : 0;
  Dims dims = a.shape().dims();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) dims.erase(dims.begin() + *axis);
  dims.insert(dims.begin() + found.addressing.before, space.dims().begin(), space.dims().end());
  found.picked = Shape(dims);
  return found;
}

/// The only valid index when it is a mask, and the axis that it begins at.
std::optional<std::pair<Tensor, int>> lone_mask(const std::vector<Tensor>& indices) {
  std::optional<std::pair<Tensor, int>> found;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis].valid()) continue;
    if (found || indices[axis].dtype() != DType::kBool) return std::nullopt;
    found = {indices[axis], static_cast<int>(axis)};
  }
  return found;
}

/// a[mask] = values where the values have no element of their own for each true one.
Tensor put_masked(Tensor a, Tensor mask, int axis, Tensor values, bool accumulate) {
  const int rank = a.shape().rank(), masked = mask.shape().rank(), behind = rank - axis - masked;
  Dims dims(a.shape().dims().begin(), a.shape().dims().end());
  if (behind < 0 || !std::equal(mask.shape().dims().begin(), mask.shape().dims().end(), dims.begin() + axis))
    throw Error({.what = "the mask does not fit the tensor",
                 .where = place("index_put", a),
                 .found = mask.type().text() + " at axis " + std::to_string(axis),
                 .expected = "the extents of the masked axes"});
  Dims wide(at(rank), 1);
  std::copy(mask.shape().dims().begin(), mask.shape().dims().end(), wide.begin() + axis);
  mask = reshape(mask, Shape(wide));
  // In the values, one dimension stands for all masked ones.
  if (const int extra = values.shape().rank() - behind; extra > 0) {
    Dims own = values.shape().dims();
    if (own[at(extra - 1)] != 1)
      refuse_size_of_data("index_put of one value for each true element of a mask", place("index_put", a));
    own.erase(own.begin() + extra - 1);
    own.insert(own.begin() + extra - 1, at(masked), 1);
    values = reshape(values, Shape(own));
  }
  const Tensor spread = broadcast_to(values, a.shape());
  return select(mask, accumulate ? add(a, spread) : spread, a);
}

}  // namespace

Tensor gather_elements(Tensor a, Tensor indices, int64_t axis, bool from_end) {
  return take(a, {indices}, lines("gather_elements", a, indices, axis, from_end));
}

Tensor scatter_elements(Tensor a, Tensor indices, Tensor updates, int64_t axis, const UpdateBy& by, bool from_end) {
  return put_or_mean(a, updates, {indices}, lines("scatter_elements", a, indices, axis, from_end), by);
}

Tensor index_select(Tensor a, Tensor indices, int64_t axis, bool from_end) {
  const int which = normalize_axis(axis, a.shape().rank(), place("index_select", a));
  if (which == 0 && !from_end) return gather(a, indices);
  return take(a, {indices}, {.axes = {which}, .before = which, .from_end = from_end});
}

Tensor gather_nd(Tensor a, Tensor indices, int64_t batch_dims, bool from_end) {
  const std::vector<Tensor> columns = columns_of("gather_nd", a, indices, batch_dims);
  return take(a, columns, tuples(indices, batch_dims, from_end));
}

Tensor scatter_nd(Tensor a, Tensor indices, Tensor updates, const UpdateBy& by, bool from_end) {
  const std::vector<Tensor> columns = columns_of("scatter_nd", a, indices, 0);
  return put_or_mean(a, updates, columns, tuples(indices, 0, from_end), by);
}

Tensor index(Tensor a, const std::vector<Tensor>& indices) {
  const Advanced found = advanced_of("index", a, indices);
  return found.tensors.empty() ? a : take(a, found.tensors, found.addressing);
}

Tensor index_put(Tensor a, const std::vector<Tensor>& indices, Tensor values, bool accumulate) {
  if (const auto mask = lone_mask(indices)) return put_masked(a, mask->first, mask->second, values, accumulate);
  const Advanced found = advanced_of("index_put", a, indices);
  if (found.tensors.empty())
    return accumulate ? add(a, broadcast_to(values, a.shape())) : broadcast_to(values, a.shape());
  return put(a, broadcast_to(values, found.picked), found.tensors, found.addressing,
             {.by = accumulate ? "add" : "set"});
}

Tensor masked_scatter(Tensor a, Tensor mask, Tensor source) {
  a = broadcast_to(a, broadcast_shapes(a.shape(), mask.shape(), "masked_scatter"));
  const int64_t count = a.shape().elements();
  const DType dtype = count > INT32_MAX ? DType::kI64 : DType::kI32;
  const Tensor flat = reshape(broadcast_to(mask, a.shape()), {count});
  // A true element takes the source's element whose number is that of the true ones before it. False ones read element
  // 0 of a source with one more element, which is never used.
  const Tensor numbers = multiply(cumsum(cast(flat, dtype), 0), cast(flat, dtype));
  const Tensor behind =
      concat({zeros(*a.builder, {source.dtype(), {1}}), reshape(source, {source.shape().elements()})}, 0);
  return select(broadcast_to(mask, a.shape()), reshape(gather(behind, numbers), a.shape()), a);
}

void refuse_size_of_data(const std::string& op, const std::string& where) {
  throw Error(
      {.what = "the size of the result of '" + op + "' depends on data, and sizes are fixed before a program runs",
       .where = where,
       .expected = "a result whose size follows from the sizes of the inputs",
       .remedy = "Keep all elements and mask them: select (torch.where) with a mask, sums of masked elements, "
                 "masked_scatter, or top_k with a fixed k"});
}

}  // namespace ramet::ops

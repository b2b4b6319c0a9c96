#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ramet/base/host_tensor.h"
#include "ramet/front/index_support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/rules.h"

// Elements found by index, and elements replaced or joined by index.

namespace ramet::front {
namespace {

using Tensors = std::vector<Tensor>;
using Dims = std::vector<int64_t>;

const char* const kKeepAll =
    "Keep all elements and mask them: torch.where with a mask, sums of masked elements, masked_scatter, or topk with a "
    "fixed k";

bool is_mask(DType dtype) { return dtype == DType::kBool || dtype == DType::kU8; }

/// Coordinates of the true elements of a mask, a vector for each of its dimensions.
std::vector<std::vector<int64_t>> true_elements(const HostTensor& mask) {
  const int rank = mask.type.shape.rank();
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(rank));
  const std::vector<int64_t> strides = mask.type.shape.strides();
  for (int64_t i = 0; i < mask.elements(); ++i) {
    if (mask.get(i) == 0) continue;
    for (int axis = 0; axis < rank; ++axis) {
      const auto place = static_cast<size_t>(axis);
      found[place].push_back(i / strides[place] % mask.type.shape.dim(axis));
    }
  }
  return found;
}

/// A known vector of indices first, first + step, ... that is a slice of `extent` elements.
struct Progression {
  int64_t first = 0, step = 1, count = 0;
};
std::optional<Progression> progression_of(const HostTensor& indices, int64_t extent) {
  if (indices.type.shape.rank() != 1 || indices.elements() == 0) return std::nullopt;
  Progression found{.first = static_cast<int64_t>(indices.get(0)), .count = indices.elements()};
  if (found.count > 1) found.step = static_cast<int64_t>(indices.get(1)) - found.first;
  if (found.step < 1 || found.first < 0 || found.first + found.step * (found.count - 1) >= extent) return std::nullopt;
  for (int64_t i = 0; i < found.count; ++i)
    if (static_cast<int64_t>(indices.get(i)) != found.first + i * found.step) return std::nullopt;
  return found;
}

/// The least element of known integers is not negative.
bool counts_from_front(const HostTensor& indices) {
  for (int64_t i = 0; i < indices.elements(); ++i)
    if (indices.get(i) < 0) return false;
  return true;
}

/// The list "indices" of a call, known masks replaced by the coordinates of their true elements.
struct IndexList {
  Tensors tensors;
  int given = 0;  ///< index tensors, masks among them
  int masks = 0;  ///< masks that depend on data
  /// Of a lone index tensor that is no mask: its values where they are known, and its axis.
  const HostTensor* known = nullptr;
  int64_t axis = -1;
};

/// Indices of neighbouring axes that address every element once, in order, as outer sums of aranges do: the tensor
/// itself with dimensions of extent 1 among its own. Masks of attention are made so. Nothing where the indices are
/// others.
std::optional<Tensor> all_in_order(const Translation& at, const Tensor& a) {
  const Tensors indices = at.tensors_or_none("indices");
  Shape space;
  int last = INT32_MIN;  // the dimension of the space, from the end, along which the index before varies
  int64_t first = -1;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis].valid()) {
      if (first >= 0 && axis + 1 < indices.size()) return std::nullopt;
      continue;
    }
    const TensorData* known = at.known("indices", axis);
    if (known == nullptr || is_mask(known->type().dtype)) return std::nullopt;
    if (first < 0) first = static_cast<int64_t>(axis);
    const HostTensor& values = known->tensor();
    if (values.elements() != a.dim(static_cast<int>(axis))) return std::nullopt;
    for (int64_t i = 0; i < values.elements(); ++i)
      if (values.get(i) != static_cast<double>(i)) return std::nullopt;
    const Shape& shape = values.type.shape;
    for (int dim = 0; dim < shape.rank(); ++dim) {
      if (shape.dim(dim) == 1) continue;
      const int along = dim - shape.rank();  // from the end, as shapes broadcast
      if (last >= along) return std::nullopt;
      if (values.elements() != shape.dim(dim)) return std::nullopt;
      last = along;
    }
    space = broadcast_shapes(space, shape, "index");
  }
  if (first < 0 || space.elements() == 0) return std::nullopt;
  const Shape& wanted = at.result().shape;
  if (wanted.elements() != a.shape().elements()) return std::nullopt;
  return reshape(a, wanted);
}

IndexList index_list(const Translation& at) {
  IndexList list;
  const Tensors tensors = at.tensors_or_none("indices");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& index = tensors[i];
    if (!index.valid()) {
      list.tensors.push_back(index);
      continue;
    }
    const TensorData* known = at.known("indices", i);
    ++list.given;
    list.known = nullptr;
    if (!is_mask(index.dtype())) {
      if (known != nullptr && list.given == 1) list.known = &known->tensor();
      list.axis = static_cast<int64_t>(list.tensors.size());
      list.tensors.push_back(size_of(index.dtype()) < 4 ? cast(index, DType::kI32) : index);
    } else if (known != nullptr && index.shape().rank() > 0) {
      for (const std::vector<int64_t>& axis : true_elements(known->tensor()))
        list.tensors.push_back(integer_constant(at, {static_cast<int64_t>(axis.size())}, axis));
    } else {
      ++list.masks;
      list.tensors.push_back(index);
    }
  }
  while (!list.tensors.empty() && !list.tensors.back().valid()) list.tensors.pop_back();
  return list;
}

Tensors translate_index(const Translation& at) {
  const Tensor a = at.tensor("self");
  if (const auto whole = all_in_order(at, a)) return {*whole};
  const IndexList list = index_list(at);
  if (list.masks > 0)
    at.refuse(
        "the size of a tensor that is indexed by a mask depends on data, and sizes are fixed before a program runs",
        kKeepAll);
  if (list.known != nullptr) {
    if (const auto found = progression_of(*list.known, a.dim(static_cast<int>(list.axis))))
      return {slice_axis(a, list.axis, found->first, found->first + found->step * (found->count - 1) + 1, found->step)};
    if (counts_from_front(*list.known))
      return {index_select(a, list.tensors[static_cast<size_t>(list.axis)], list.axis)};
  }
  return {index(a, list.tensors)};
}

Tensors translate_index_put(const Translation& at) {
  const Tensor a = at.tensor("self");
  const Tensor values = in_type(at.tensor("values"), a.dtype());
  IndexList list = index_list(at);
  if (list.masks > 0 && list.given > 1)
    at.refuse("a mask that depends on data stands beside other indices", "Join the conditions to one mask");
  if (list.masks > 0)  // a lone mask of data
    for (Tensor& mask : list.tensors)
      if (mask.valid()) mask = in_type(mask, DType::kBool);
  return {index_put(a, list.tensors, values, at.flag("accumulate", false))};
}

/// Element of `self` at each index, or `fill` where the mask is false.
Tensors translate_masked_index(const Translation& at) {
  const Tensor a = at.tensor("self"), mask = at.tensor("mask");
  Tensors held;
  for (const Tensor& index : at.tensors_or_none("indices"))
    held.push_back(index.valid() ? select(mask, index, zeros(at.build(), {index.dtype(), {}})) : index);
  Tensor found = index(a, held), condition = mask;
  return {select(broadcast_to(condition, found.shape()), found, full(at.build(), a.dtype(), {}, at.number("fill")))};
}

/// Arguments of the ops along one axis, a scalar as a vector.
struct AxisCall {
  Tensor a;
  int64_t axis;
  Tensor index;
};

AxisCall axis_call(const Translation& at) {
  const Tensor a = at.tensor("self");
  Tensor index = at_least_vector(at.tensor("index"));
  if (size_of(index.dtype()) < 4) index = cast(index, DType::kI32);
  return {at_least_vector(a), axis_of(at, "dim", a.shape().rank()), index};
}

Tensors translate_index_select(const Translation& at) {
  const AxisCall c = axis_call(at);
  return {like_result(at, index_select(c.a, c.index, c.axis))};
}

Tensors translate_gather(const Translation& at) {
  const AxisCall c = axis_call(at);
  return {like_result(at, gather_elements(c.a, c.index, c.axis))};
}

Tensors translate_take(const Translation& at) {
  const Tensor a = flat(at.tensor("self"));
  return {take(a, {at.tensor("index")}, {.axes = {0}, .from_end = true})};
}

Tensors translate_take_along(const Translation& at) {
  Tensor a = at.tensor("self"), indices = at.tensor("indices");
  if (!at.has("dim")) return {gather_elements(flat(a), flat(indices), 0)};
  const int64_t axis = axis_of(at, "dim", a.shape().rank());
  Dims own = a.shape().dims(), theirs = indices.shape().dims();
  if (own.size() != theirs.size()) at.refuse("tensor and indices have different numbers of dimensions");
  for (size_t i = 0; i < own.size(); ++i) {
    if (static_cast<int64_t>(i) == axis) continue;
    own[i] = theirs[i] = own[i] == 1 ? theirs[i] : own[i];
  }
  return {gather_elements(broadcast_to(a, Shape(own)), broadcast_to(indices, Shape(theirs)), axis)};
}

/// The updates of a scatter: the first elements of "src", or a number, for each index.
Tensor scatter_updates(const Translation& at, const AxisCall& c) {
  const char* const name = at.has("src") ? "src" : "value";
  Tensor updates = operand(at, name, c.a.dtype());
  if (name == std::string_view("value")) return broadcast_to(updates, c.index.shape());
  updates = at_least_vector(updates);
  if (updates.shape() == c.index.shape()) return updates;
  return slice(updates, Dims(static_cast<size_t>(updates.shape().rank()), 0), c.index.shape().dims());
}

/// torch's names of ways to join updates, in the words of UpdateBy.
std::string join_of(const Translation& at, const std::string& torch_name) {
  static const std::map<std::string, std::string> kNames = {{"", "set"},     {"add", "add"},  {"multiply", "mul"},
                                                            {"sum", "add"},  {"prod", "mul"}, {"mean", "mean"},
                                                            {"amax", "max"}, {"amin", "min"}};
  const auto found = kNames.find(torch_name);
  if (found == kNames.end()) at.refuse("reduction '" + torch_name + "' is not known");
  return found->second;
}

Tensors translate_scatter(const Translation& at) {
  const AxisCall c = axis_call(at);
  const std::string by = join_of(at, at.text("reduce"));
  const Tensor changed = scatter_elements(c.a, c.index, scatter_updates(at, c), c.axis,
                                          {.by = by, .include_self = at.flag("include_self", true)});
  return {like_result(at, changed)};
}

Tensors translate_scatter_add(const Translation& at) {
  const AxisCall c = axis_call(at);
  return {like_result(at, scatter_elements(c.a, c.index, scatter_updates(at, c), c.axis, {.by = "add"}))};
}

/// Whole slices along one axis replaced by, or joined with, `updates`.
Tensor put_slices(const AxisCall& c, Tensor updates, const UpdateBy& by, bool from_end = false) {
  Dims dims = c.a.shape().dims();
  dims[static_cast<size_t>(c.axis)] = c.index.dim(0);
  updates = in_type(updates, c.a.dtype());
  if (updates.shape().elements() == 1)
    updates = broadcast_to(updates.shape().rank() == 0 ? updates : reshape(updates, Shape{}), Shape(dims));
  if (by.by == "mean") {  // one index an element: the op along single lines takes means
    Dims ones(dims.size(), 1);
    ones[static_cast<size_t>(c.axis)] = c.index.dim(0);
    return scatter_elements(c.a, broadcast_to(reshape(c.index, Shape(ones)), Shape(dims)),
                            reshape(updates, Shape(dims)), c.axis, by, from_end);
  }
  return put(c.a, reshape(updates, Shape(dims)), {c.index}, {.axes = {c.axis}, .before = c.axis, .from_end = from_end},
             by);
}

Tensors translate_index_add(const Translation& at) {
  const AxisCall c = axis_call(at);
  Tensor source = at.tensor("source");
  if (const double alpha = at.number("alpha", 1); alpha != 1)
    source = multiply(source, full(at.build(), source.dtype(), {}, alpha));
  return {like_result(at, put_slices(c, source, {.by = "add"}))};
}

Tensors translate_index_copy(const Translation& at) {
  return {like_result(at, put_slices(axis_call(at), at.tensor("source"), {.by = "set"}))};
}

Tensors translate_index_fill(const Translation& at) {
  const Tensor value = at.tensor("value");
  return {like_result(at, put_slices(axis_call(at), value, {.by = "set"}, true))};
}

Tensors translate_index_reduce(const Translation& at) {
  const UpdateBy by{.by = join_of(at, at.text("reduce")), .include_self = at.flag("include_self", true)};
  return {like_result(at, put_slices(axis_call(at), at.tensor("source"), by))};
}

Tensors translate_put(const Translation& at) {
  const Tensor a = at.tensor("self"), index = flat(at.tensor("index"));
  const Tensor source = flat(in_type(at.tensor("source"), a.dtype()));
  return {reshape(put(flat(a), source, {index}, {.axes = {0}, .from_end = true},
                      {.by = at.flag("accumulate", false) ? "add" : "set"}),
                  a.shape())};
}

Tensors translate_masked_fill(const Translation& at) {
  const Tensor a = at.tensor("self"), mask = in_type(at.tensor("mask"), DType::kBool);
  return {select(mask, operand(at, "value", a.dtype()), a)};
}

Tensors translate_masked_scatter(const Translation& at) {
  const Tensor a = at.tensor("self"), mask = in_type(at.tensor("mask"), DType::kBool);
  return {masked_scatter(broadcast_to(a, at.result().shape), mask, in_type(at.tensor("source"), a.dtype()))};
}

Tensors translate_masked_select(const Translation& at) {
  const TensorData* mask = at.known("mask");
  if (mask == nullptr)
    at.refuse("the size of its result depends on data, and sizes are fixed before a program runs", kKeepAll);
  const Shape shape = broadcast_shapes(mask->type().shape, at.tensor("self").shape(), "masked_select");
  const Tensor a = broadcast_to(at.tensor("self"), shape);
  const std::vector<int64_t> strides = shape.strides();
  std::vector<int64_t> places;  // of the chosen elements; the mask broadcasts to the shape
  const HostTensor& values = mask->tensor();
  const int behind = shape.rank() - values.type.shape.rank();
  const std::vector<int64_t> own = values.type.shape.strides();
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t place = 0;
    for (int axis = behind; axis < shape.rank(); ++axis) {
      const auto d = static_cast<size_t>(axis - behind);
      if (values.type.shape.dim(axis - behind) > 1)
        place += i / strides[static_cast<size_t>(axis)] % shape.dim(axis) * own[d];
    }
    if (values.get(place) != 0) places.push_back(i);
  }
  return {gather(flat(a), integer_constant(at, {static_cast<int64_t>(places.size())}, places))};
}

Tensors translate_nonzero(const Translation& at) {
  const TensorData* a = at.known("self");
  if (a == nullptr)
    at.refuse("the size of its result depends on data, and sizes are fixed before a program runs", kKeepAll);
  const std::vector<std::vector<int64_t>> columns = true_elements(a->tensor());
  const int64_t rows = columns.empty() ? 0 : static_cast<int64_t>(columns.front().size());
  std::vector<int64_t> numbers;
  for (int64_t row = 0; row < rows; ++row)
    for (const std::vector<int64_t>& column : columns) numbers.push_back(column[static_cast<size_t>(row)]);
  return {integer_constant(at, {rows, static_cast<int64_t>(columns.size())}, numbers)};
}

Tensors translate_one_hot(const Translation& at) {
  const Shape& shape = at.result().shape;
  Tensor a = at.tensor("self");
  if (!is_index(a.dtype())) a = cast(a, DType::kI32);
  return {one_hot(a, shape.dim(-1), at.result().dtype)};
}

/// The gradient of an embedding's table.
Tensors translate_embedding_gradient(const Translation& at) {
  Tensor gradient = at.tensor("grad_output");
  const Tensor indices = at.tensor("indices");
  if (at.flag("scale_grad_by_freq", false)) at.refuse("gradients scaled by frequency are not supported");
  const int64_t padding = at.integer("padding_idx", -1);
  if (padding >= 0) {
    Dims dims = indices.shape().dims();
    dims.push_back(1);
    const Tensor hidden = equal(reshape(indices, Shape(dims)), full(at.build(), indices.dtype(), {}, double(padding)));
    gradient = select(broadcast_to(hidden, gradient.shape()), zeros(at.build(), gradient.type()), gradient);
  }
  return {scatter_add(indices, gradient, at.integer("num_weights"))};
}

/// Whether each element is one of some others.
Tensors translate_isin(const Translation& at) {
  Tensor a = at.tensor(at.has("elements") ? "elements" : "element");
  Tensor others = flat(at.tensor(at.has("test_elements") ? "test_elements" : "test_element"));
  const DType dtype = at.is_number("element") ? others.dtype() : a.dtype();
  Dims dims = a.shape().dims();
  dims.push_back(1);
  const Tensor found = any(equal(reshape(in_type(a, dtype), Shape(dims)), in_type(others, dtype)), {-1});
  return {at.flag("invert", false) ? logical_not(found) : found};
}

Tensors refuse_size(const Translation& at) {
  at.refuse("the size of its result depends on data, and sizes are fixed before a program runs", kKeepAll);
}

Tensors refuse_number(const Translation& at) {
  at.refuse(
      "it turns a tensor into a number of Python, which decides what the program does: a program is fixed before it "
      "runs",
      "Compute with the tensor, and choose by torch.where");
}

/// aten.bitwise_*, on operands of the result's type.
template <Tensor (*function)(Tensor, Tensor)>
Tensors translate_bits(const Translation& at) {
  const DType dtype = at.result().dtype;
  return {function(operand(at, "self", dtype), operand(at, "other", dtype))};
}

Tensors translate_bitwise_not(const Translation& at) { return {bitwise_not(at.tensor("self"))}; }

constexpr OperatorEntry kOperators[] = {
    {"aten.index", translate_index},
    {"aten._unsafe_index", translate_index},
    {"aten._unsafe_masked_index", translate_masked_index},
    {"aten.index_put", translate_index_put},
    {"aten._index_put_impl", translate_index_put},
    {"aten._unsafe_index_put", translate_index_put},
    {"aten.index_select", translate_index_select},
    {"aten.gather", translate_gather},
    {"aten.take", translate_take},
    {"aten.take_along_dim", translate_take_along},
    {"aten.index_add", translate_index_add},
    {"aten.index_copy", translate_index_copy},
    {"aten.index_fill", translate_index_fill},
    {"aten.index_reduce", translate_index_reduce},
    {"aten.put", translate_put},
    {"aten.scatter", translate_scatter},
    {"aten.scatter_add", translate_scatter_add},
    {"aten.scatter_reduce", translate_scatter},
    {"aten.masked_fill", translate_masked_fill},
    {"aten.masked_scatter", translate_masked_scatter},
    {"aten.masked_select", translate_masked_select},
    {"aten.nonzero", translate_nonzero},
    {"aten.argwhere", translate_nonzero},
    {"aten.one_hot", translate_one_hot},
    {"aten.embedding_dense_backward", translate_embedding_gradient},
    {"aten.isin", translate_isin},
    {"aten.bitwise_and", translate_bits<bitwise_and>},
    {"aten.bitwise_or", translate_bits<bitwise_or>},
    {"aten.bitwise_xor", translate_bits<bitwise_xor>},
    {"aten.bitwise_not", translate_bitwise_not},
    {"aten.bitwise_left_shift", translate_bits<shift_left>},
    {"aten.bitwise_right_shift", translate_bits<shift_right>},
    {"aten.__and__", translate_bits<bitwise_and>},
    {"aten.__or__", translate_bits<bitwise_or>},
    {"aten.__xor__", translate_bits<bitwise_xor>},
    {"aten.__lshift__", translate_bits<shift_left>},
    {"aten.__rshift__", translate_bits<shift_right>},
    // Refused by name.
    {"aten._unique", refuse_size},
    {"aten._unique2", refuse_size},
    {"aten.unique_dim", refuse_size},
    {"aten.unique_consecutive", refuse_size},
    {"aten.unique_dim_consecutive", refuse_size},
    {"aten.bincount", refuse_size},
    {"aten.nonzero_numpy", refuse_size},
    {"aten.is_nonzero", refuse_number},
};

}  // namespace

std::span<const OperatorEntry> index_operators() { return kOperators; }

}  // namespace ramet::front

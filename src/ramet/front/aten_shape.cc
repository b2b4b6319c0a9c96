// Views, copies, joins and cuts. Torch's views are copies here; the compiler finds out which need no copy.
#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/front/support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

Tensor self(const Translation& at) { return at.tensor("self"); }
int rank(const Translation& at) { return self(at).shape().rank(); }

/// The elements in the recorded shape.
std::vector<Tensor> reshape(const Translation& at) {
  if (at.call().overload == "dtype") at.refuse("a view as another element type is not supported", "Convert with .to()");
  return {like_result(at, self(at))};
}
std::vector<Tensor> same(const Translation& at) { return {self(at)}; }
std::vector<Tensor> convert(const Translation& at) { return {in_type(self(at), at.result().dtype)}; }
std::vector<Tensor> nothing(const Translation&) { return {}; }
std::vector<Tensor> stop(const Translation& at) {
  const Tensor a = at.tensor(at.has("x") ? "x" : "self");
  return {is_floating(a.dtype()) ? ops::map_unary("stop_gradient", a) : a};
}
std::vector<Tensor> copy(const Translation& at) {
  return {ops::broadcast_to(operand(at, "src", at.result().dtype), at.result().shape)};
}
std::vector<Tensor> expand(const Translation& at) { return {ops::broadcast_to(self(at), at.result().shape)}; }
std::vector<Tensor> broadcast_tensors(const Translation& at) {
  std::vector<Tensor> made = at.tensors("tensors");
  for (size_t i = 0; i < made.size(); ++i) made[i] = ops::broadcast_to(made[i], at.result(i).shape);
  return made;
}

// --- orders of dimensions ---

std::vector<Tensor> permute(const Translation& at) { return {ops::transpose(self(at), axes_of(at, "dims", rank(at)))}; }
Tensor swapped(Tensor a, int64_t first, int64_t second) {
  if (a.shape().rank() == 0) return a;
  std::vector<int64_t> order(static_cast<size_t>(a.shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(first)], order[static_cast<size_t>(second)]);
  return ops::transpose(a, std::move(order));
}
std::vector<Tensor> transpose(const Translation& at) {
  const bool axes = at.has("axis0");
  return {swapped(self(at), axis_of(at, axes ? "axis0" : "dim0", rank(at)),
                  axis_of(at, axes ? "axis1" : "dim1", rank(at)))};
}
std::vector<Tensor> reversed(const Translation& at) {
  std::vector<int64_t> order(static_cast<size_t>(rank(at)));
  std::iota(order.rbegin(), order.rend(), 0);
  return {order.size() < 2 ? self(at) : ops::transpose(self(at), std::move(order))};
}
std::vector<Tensor> matrix_transpose(const Translation& at) { return {swapped(self(at), rank(at) - 2, rank(at) - 1)}; }
std::vector<Tensor> move_dimensions(const Translation& at) {
  const std::vector<int64_t> from = axes_of(at, "source", rank(at)), to = axes_of(at, "destination", rank(at));
  const auto count = static_cast<size_t>(rank(at));
  if (from.size() != to.size()) at.refuse("movedim has lists of different lengths");
  std::vector<int64_t> order(count, -1), rest;
  for (size_t i = 0; i < from.size(); ++i) order[static_cast<size_t>(to[i])] = from[i];
  for (int64_t axis = 0; axis < static_cast<int64_t>(count); ++axis)
    if (std::find(from.begin(), from.end(), axis) == from.end()) rest.push_back(axis);
  size_t next = 0;
  for (int64_t& axis : order)
    if (axis < 0 && next < rest.size()) axis = rest[next++];
  return {count == 0 ? self(at) : ops::transpose(self(at), std::move(order))};
}

// --- cuts ---

std::vector<Tensor> slice(const Translation& at) {
  if (rank(at) == 0) at.refuse("a slice of a tensor without dimensions");
  const int64_t axis = axis_of(at, "dim", rank(at), 0);
  return {ops::slice_axis(self(at), axis, at.integer("start", 0),
                          at.integer("end", self(at).shape()[static_cast<int>(axis)]), at.integer("step", 1))};
}
std::vector<Tensor> select(const Translation& at) {
  return {ops::select_index(self(at), axis_of(at, "dim", rank(at)), at.integer("index"))};
}
std::vector<Tensor> narrow(const Translation& at) {
  if (rank(at) == 0) at.refuse("a slice of a tensor without dimensions");
  const int64_t axis = axis_of(at, "dim", rank(at)), extent = self(at).shape()[static_cast<int>(axis)];
  int64_t start = at.integer("start");
  if (start < 0) start += extent;
  return {ops::slice_axis(self(at), axis, start, start + at.integer("length"))};
}
/// Pieces along one dimension, of the recorded extents.
std::vector<Tensor> split(const Translation& at) {
  const int64_t axis = axis_of(at, at.has("axis") ? "axis" : "dim", rank(at), 0);
  const size_t count = at.call().outputs.size();
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < count; ++i) {
    if (at.result(i).shape.rank() != rank(at) || rank(at) == 0) at.refuse("a piece of another rank than the tensor");
    sizes.push_back(at.result(i).shape.dim(static_cast<int>(axis)));
  }
  return ops::split(self(at), sizes, axis);
}
/// Elements along one dimension, which the results lack.
std::vector<Tensor> unbind(const Translation& at) { return ops::unstack(self(at), axis_of(at, "dim", rank(at), 0)); }
std::vector<Tensor> unfold(const Translation& at) {
  if (rank(at) == 0) return {like_result(at, self(at))};
  return {ops::unfold(self(at), axis_of(at, "dimension", rank(at)), at.integer("size"), at.integer("step"))};
}
/// as_strided reads storage, which a tensor of a graph does not have; views of the whole in order are reshapes.
std::vector<Tensor> as_strided(const Translation& at) {
  const std::vector<int64_t> size = at.integers("size"), stride = at.integers("stride");
  const Shape& shape = at.result().shape;
  const bool whole = at.integer("storage_offset", 0) == 0 && stride == shape.strides() &&
                     shape.elements() == self(at).shape().elements() && size == shape.dims();
  if (!whole)
    at.refuse("as_strided reads the memory of a tensor, which depends on how torch laid it out",
              "Write the view with slices, unfold or diagonal");
  return {like_result(at, self(at))};
}

// --- joins ---

std::vector<Tensor> concat(const Translation& at) {
  std::vector<Tensor> parts;
  for (const Tensor& part : at.tensors("tensors"))  // torch passes over empty vectors here
    if (!(part.shape().rank() == 1 && part.dim(0) == 0 && at.result().shape.rank() > 1))
      parts.push_back(in_type(part, at.result().dtype));
  if (parts.empty()) at.refuse("a concatenation of nothing");
  const int64_t axis = axis_of(at, at.has("axis") ? "axis" : "dim", at.result().shape.rank(), 0);
  return {parts.size() == 1 ? parts[0] : ops::concat(std::move(parts), axis)};
}
std::vector<Tensor> stack(const Translation& at) {
  std::vector<Tensor> parts = at.tensors("tensors");
  for (Tensor& part : parts) part = in_type(part, at.result().dtype);
  return {ops::stack(parts, axis_of(at, "dim", at.result().shape.rank(), 0))};
}
std::vector<Tensor> tile(const Translation& at) {
  return {ops::tile(self(at), at.integers(at.has("repeats") ? "repeats" : "dims"))};
}
std::vector<Tensor> repeat_interleave(const Translation& at) {
  Tensor a = self(at);
  const bool flat = !at.has("dim");
  if (flat) a = ops::reshape(a, {-1});
  const int64_t axis = flat ? 0 : axis_of(at, "dim", a.shape().rank());
  if (at.is_number("repeats")) return {ops::repeat_interleave(a, at.integer("repeats"), axis)};
  const TensorData* repeats = at.known("repeats");
  if (!repeats)
    at.refuse("repeat_interleave by computed numbers has a result whose size depends on data", "Use fixed numbers");
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < repeats->type().elements(); ++i)
    counts.push_back(load_integer(repeats->bytes().data(), repeats->type().dtype, i));
  if (counts.size() == 1) return {ops::repeat_interleave(a, counts[0], axis)};
  return {ops::repeat_interleave(a, counts, axis)};
}
std::vector<Tensor> meshgrid(const Translation& at) {
  std::vector<Tensor> vectors = at.tensors("tensors");
  for (Tensor& each : vectors)
    if (each.shape().rank() == 0) each = ops::reshape(each, {1});
  return ops::meshgrid(vectors, at.text("indexing", "ij") == "xy");
}

// --- orders of elements ---

std::vector<Tensor> flip(const Translation& at) { return {ops::flip(self(at), axes_of(at, "dims", rank(at)))}; }
std::vector<Tensor> flip_rows(const Translation& at) { return {ops::flip(self(at), {0})}; }
std::vector<Tensor> flip_columns(const Translation& at) { return {ops::flip(self(at), {1})}; }
std::vector<Tensor> roll(const Translation& at) {
  std::vector<int64_t> axes;
  if (at.has("dims")) axes = axes_of(at, "dims", rank(at));
  return {rank(at) == 0 ? self(at) : ops::roll(self(at), at.integers("shifts"), axes)};
}
std::vector<Tensor> rotate(const Translation& at) {
  std::vector<int64_t> dims = at.integers("dims", {0, 1});
  if (dims.size() != 2) at.refuse("rot90 turns in a plane of two dimensions");
  for (int64_t& axis : dims) axis = normalize_axis(axis, rank(at), "argument 'dims'");
  const int64_t turns = ((at.integer("k", 1) % 4) + 4) % 4;
  if (turns == 0) return {self(at)};
  if (turns == 2) return {ops::flip(self(at), dims)};
  const Tensor turned = swapped(self(at), dims[0], dims[1]);
  return {ops::flip(turned, {turns == 1 ? dims[0] : dims[1]})};
}

// --- paddings ---

/// torch's list of pairs, the last dimension first, as amounts of all dimensions.
std::pair<std::vector<int64_t>, std::vector<int64_t>> amounts(const Translation& at, const char* name) {
  const std::vector<int64_t> pairs = at.integers(name);
  const auto count = static_cast<size_t>(rank(at));
  if (pairs.size() % 2 || pairs.size() / 2 > count) at.refuse("a padding has more numbers than the tensor has sides");
  std::vector<int64_t> low(count, 0), high(count, 0);
  for (size_t i = 0; i < pairs.size() / 2; ++i)
    low[count - 1 - i] = pairs[2 * i], high[count - 1 - i] = pairs[2 * i + 1];
  return {low, high};
}
/// Padding with one value; negative amounts cut.
Tensor pad_constant(Tensor a, std::vector<int64_t> low, std::vector<int64_t> high, double value) {
  for (int axis = 0; axis < a.shape().rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t start = std::max<int64_t>(0, -low[i]), stop = a.dim(axis) - std::max<int64_t>(0, -high[i]);
    if (low[i] < 0 || high[i] < 0) a = ops::slice_axis(a, axis, start, std::max(start, stop));
    low[i] = std::max<int64_t>(0, low[i]), high[i] = std::max<int64_t>(0, high[i]);
  }
  return ops::pad(a, std::move(low), std::move(high), value);
}
std::vector<Tensor> pad_by_mode(const Translation& at, const char* name, const std::string& mode) {
  const auto [low, high] = amounts(at, name);
  if (mode == "constant") return {pad_constant(self(at), low, high, at.number("value", 0))};
  const auto cuts = [](int64_t amount) { return amount < 0; };
  if (mode == "wrap" && (std::any_of(low.begin(), low.end(), cuts) || std::any_of(high.begin(), high.end(), cuts)))
    at.refuse("a circular padding by negative amounts is not supported", "Cut with a slice, and pad then");
  return {ops::pad_by(self(at), low, high, mode)};
}
std::vector<Tensor> pad(const Translation& at) {
  const std::string mode = at.text("mode", "constant");
  const char* own = mode == "reflect"     ? "reflect"
                    : mode == "replicate" ? "edge"
                    : mode == "circular"  ? "wrap"
                    : mode == "constant"  ? "constant"
                                          : nullptr;
  if (!own) at.refuse("padding mode '" + mode + "' is not known");
  return pad_by_mode(at, "pad", own);
}
std::vector<Tensor> constant_pad(const Translation& at) { return pad_by_mode(at, "pad", "constant"); }
std::vector<Tensor> reflection_pad(const Translation& at) { return pad_by_mode(at, "padding", "reflect"); }
std::vector<Tensor> replication_pad(const Translation& at) { return pad_by_mode(at, "padding", "edge"); }
std::vector<Tensor> circular_pad(const Translation& at) { return pad_by_mode(at, "pad", "wrap"); }

// --- triangles and diagonals ---

std::vector<Tensor> tril(const Translation& at) { return {ops::tril(self(at), at.integer("diagonal", 0))}; }
std::vector<Tensor> triu(const Translation& at) { return {ops::triu(self(at), at.integer("diagonal", 0))}; }
std::vector<Tensor> diagonal(const Translation& at) {
  return {ops::diagonal(self(at), at.integer("offset", 0), at.integer("dim1", 0), at.integer("dim2", 1))};
}
std::vector<Tensor> linalg_diagonal(const Translation& at) {
  return {ops::diagonal(at.tensor("A"), at.integer("offset", 0), at.integer("dim1", -2), at.integer("dim2", -1))};
}
std::vector<Tensor> diagonal_embed(const Translation& at) {
  const Tensor made = ops::diagonal_embed(self(at), at.integer("offset", 0));
  const int all = made.shape().rank();
  const int64_t first = axis_of(at, "dim1", all, -2), second = axis_of(at, "dim2", all, -1);
  if (first == all - 2 && second == all - 1) return {made};
  // Dimension all - 2 becomes `first`, all - 1 becomes `second`.
  std::vector<int64_t> order(static_cast<size_t>(all), -1);
  order[static_cast<size_t>(first)] = all - 2, order[static_cast<size_t>(second)] = all - 1;
  int64_t next = 0;
  for (int64_t& axis : order)
    if (axis < 0) axis = next++;
  return {ops::transpose(made, std::move(order))};
}
std::vector<Tensor> diag(const Translation& at) {
  const int64_t offset = at.integer("diagonal", 0);
  return {rank(at) == 1 ? ops::diagonal_embed(self(at), offset) : ops::diagonal(self(at), offset)};
}
std::vector<Tensor> trace(const Translation& at) {
  return {ops::reduce_sum(in_type(ops::diagonal(self(at)), at.result().dtype))};
}

// --- parts that are replaced ---

Tensor part(const Translation& at) { return in_type(at.tensor("src"), at.result().dtype); }
std::vector<Tensor> slice_scatter(const Translation& at) {
  if (rank(at) == 0) at.refuse("a slice of a tensor without dimensions");
  const int64_t axis = axis_of(at, "dim", rank(at), 0);
  const int64_t extent = self(at).shape()[static_cast<int>(axis)];
  const int64_t start = at.integer("start", 0), stop = at.integer("end", extent), step = at.integer("step", 1);
  const Tensor place = ops::slice_axis(self(at), axis, start, stop, step);
  return {ops::slice_scatter(self(at), ops::broadcast_to(part(at), place.shape()), axis, start, stop, step)};
}
std::vector<Tensor> select_scatter(const Translation& at) {
  const int64_t axis = axis_of(at, "dim", rank(at));
  return {ops::select_scatter(self(at), part(at), axis, at.integer("index"))};
}
std::vector<Tensor> diagonal_scatter(const Translation& at) {
  return {
      ops::diagonal_scatter(self(at), part(at), at.integer("offset", 0), at.integer("dim1", 0), at.integer("dim2", 1))};
}

std::vector<Tensor> item(const Translation& at) {
  at.refuse("item() takes a number of a tensor into Python, so that the program would depend on data",
            "Keep the number in a tensor");
}

constexpr OperatorEntry kEntries[] = {
    {"aten._assert_async", nothing},
    {"aten._assert_scalar", nothing},
    {"aten._assert_tensor_metadata", nothing},
    {"aten._local_scalar_dense", item},
    {"aten._reshape_alias", reshape},
    {"aten._to_copy", convert},
    {"aten._unsafe_view", reshape},
    {"aten.adjoint", matrix_transpose},
    {"aten.alias", same},
    {"aten.as_strided", as_strided},
    {"aten.atleast_1d", reshape},
    {"aten.atleast_2d", reshape},
    {"aten.atleast_3d", reshape},
    {"aten.broadcast_tensors", broadcast_tensors},
    {"aten.broadcast_to", expand},
    {"aten.cat", concat},
    {"aten.chunk", split},
    {"aten.circular_pad", circular_pad},
    {"aten._pad_circular", circular_pad},
    {"aten.clone", same},
    {"aten.concat", concat},
    {"aten.concatenate", concat},
    {"aten.constant_pad_nd", constant_pad},
    {"aten.contiguous", same},
    {"aten.copy", copy},
    {"aten.detach", stop},
    {"aten.detach_copy", stop},
    {"aten.diag", diag},
    {"aten.diag_embed", diagonal_embed},
    {"aten.diagonal", diagonal},
    {"aten.diagonal_copy", diagonal},
    {"aten.diagonal_scatter", diagonal_scatter},
    {"aten.expand", expand},
    {"aten.expand_as", expand},
    {"aten.expand_copy", expand},
    {"aten.flatten", reshape},
    {"aten.flip", flip},
    {"aten.fliplr", flip_columns},
    {"aten.flipud", flip_rows},
    {"aten.item", item},
    {"aten.lift", same},
    {"aten.lift_fresh", same},
    {"aten.lift_fresh_copy", same},
    {"aten.linalg_diagonal", linalg_diagonal},
    {"aten.mT", matrix_transpose},
    {"aten.matrix_H", matrix_transpose},
    {"aten.meshgrid", meshgrid},
    {"aten.movedim", move_dimensions},
    {"aten.moveaxis", move_dimensions},
    {"aten.narrow", narrow},
    {"aten.numpy_T", reversed},
    {"aten.pad", pad},
    {"aten.permute", permute},
    {"aten.permute_copy", permute},
    {"aten.ravel", reshape},
    {"aten.reflection_pad1d", reflection_pad},
    {"aten.reflection_pad2d", reflection_pad},
    {"aten.reflection_pad3d", reflection_pad},
    {"aten.repeat", tile},
    {"aten.repeat_interleave", repeat_interleave},
    {"aten.replication_pad1d", replication_pad},
    {"aten.replication_pad2d", replication_pad},
    {"aten.replication_pad3d", replication_pad},
    {"aten.reshape", reshape},
    {"aten.reshape_as", reshape},
    {"aten.resolve_conj", same},
    {"aten.resolve_neg", same},
    {"aten.roll", roll},
    {"aten.rot90", rotate},
    {"aten.select", select},
    {"aten.select_copy", select},
    {"aten.select_scatter", select_scatter},
    {"aten.slice", slice},
    {"aten.slice_copy", slice},
    {"aten.slice_scatter", slice_scatter},
    {"aten.split", split},
    {"aten.split_copy", split},
    {"aten.split_with_sizes", split},
    {"aten.split_with_sizes_copy", split},
    {"aten.squeeze", reshape},
    {"aten.squeeze_copy", reshape},
    {"aten.stack", stack},
    {"aten.swapaxes", transpose},
    {"aten.swapdims", transpose},
    {"aten.t", reversed},
    {"aten.t_copy", reversed},
    {"aten.tensor_split", split},
    {"aten.tile", tile},
    {"aten.to", convert},
    {"aten.trace", trace},
    {"aten.transpose", transpose},
    {"aten.transpose_copy", transpose},
    {"aten.tril", tril},
    {"aten.triu", triu},
    {"aten.type_as", convert},
    {"aten.unbind", unbind},
    {"aten.unbind_copy", unbind},
    {"aten.unflatten", reshape},
    {"aten.unfold", unfold},
    {"aten.unfold_copy", unfold},
    {"aten.unsafe_chunk", split},
    {"aten.unsafe_split", split},
    {"aten.unsafe_split_with_sizes", split},
    {"aten.unsqueeze", reshape},
    {"aten.unsqueeze_copy", reshape},
    {"aten.view", reshape},
    {"aten.view_as", reshape},
    {"aten.view_copy", reshape},
    {"ramet.stop_gradient", stop},
};

}  // namespace

std::span<const OperatorEntry> shape_operators() { return kEntries; }

}  // namespace ramet::front

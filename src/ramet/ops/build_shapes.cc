#include "ramet/ops/build_shapes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "ramet/base/error_types.h"
#include "ramet/ops/build_indexing.h"

namespace ramet::ops {
namespace {

using Dims = std::vector<int64_t>;

[[noreturn]] void refuse_call(const std::string& op, const Tensor& a, const std::string& what, const std::string& found,
                              const std::string& expected) {
  throw ShapeError({.what = what, .where = op + " of " + a.type().text(), .found = found, .expected = expected});
}

int axis_in(const std::string& op, const Tensor& a, int64_t axis) {
  return normalize_axis(axis, a.shape().rank(), op + " of " + a.type().text());
}

size_t at(int64_t index) { return static_cast<size_t>(index); }

Tensor index_constant(GraphBuilder& build, Shape shape, const Dims& values) {
  HostTensor tensor({DType::kI64, std::move(shape)});
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), values.size() * sizeof(int64_t));
  return constant(build, TensorData(std::move(tensor)));
}

Tensor zero_of(const Tensor& a) { return full(*a.builder, a.dtype(), {}, 0); }

/// Bounds of a slice as PyTorch reads them: negative ones count from the end, and both are held in the dimension.
std::pair<int64_t, int64_t> held_bounds(int64_t start, int64_t stop, int64_t extent) {
  const auto held = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent); };
  start = held(start);
  return {start, std::max(start, held(stop))};
}

}  // namespace

Tensor move_axis(Tensor a, int64_t from, int64_t to) {
  const int source = axis_in("move_axis", a, from), target = axis_in("move_axis", a, to);
  if (source == target) return a;
  Dims order(at(a.shape().rank()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + source);
  order.insert(order.begin() + target, source);
  return transpose(a, order);
}

Tensor slice_axis(Tensor a, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  const int which = axis_in("slice_axis", a, axis);
  if (step < 1) refuse_call("slice_axis", a, "step below 1", std::to_string(step), "1 or more; flip the result");
  Dims low(at(a.shape().rank()), 0), high = a.shape().dims(), stride(at(a.shape().rank()), 1);
  std::tie(low[at(which)], high[at(which)]) = held_bounds(start, stop, a.dim(which));
  stride[at(which)] = step;
  if (step == 1 && high[at(which)] - low[at(which)] == a.dim(which)) return a;
  return slice(a, low, high, stride);
}

Tensor select_index(Tensor a, int64_t axis, int64_t index) {
  const int which = axis_in("select_index", a, axis);
  const int64_t extent = a.dim(which), position = index < 0 ? index + extent : index;
  if (position < 0 || position >= extent)
    refuse_call("select_index", a, "index out of range", std::to_string(index),
                std::to_string(-extent) + " to " + std::to_string(extent - 1));
  Dims dims = a.shape().dims();
  dims.erase(dims.begin() + which);
  return reshape(slice_axis(a, which, position, position + 1), Shape(dims));
}

Tensor shift(Tensor a, int64_t axis, int64_t by, double value) {
  const int which = axis_in("shift", a, axis);
  const int64_t extent = a.dim(which), places = std::clamp(by, -extent, extent);
  Dims low(at(a.shape().rank()), 0), high = low;
  low[at(which)] = std::max<int64_t>(0, places);
  high[at(which)] = std::max<int64_t>(0, -places);
  return pad(slice_axis(a, which, high[at(which)], extent - low[at(which)]), low, high, value);
}

Tensor flip(Tensor a, const std::vector<int64_t>& axes) {
  if (axes.empty()) return a;
  return a.builder->op("reverse", {a}, {{"axes", axes}});
}

Tensor roll(Tensor a, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes) {
  if (axes.empty()) {
    if (shifts.size() != 1)
      refuse_call("roll", a, "without axes there is one shift", std::to_string(shifts.size()) + " shifts", "1");
    return reshape(roll(reshape(a, {a.shape().elements()}), shifts, {0}), a.shape());
  }
  if (shifts.size() != axes.size())
    refuse_call("roll", a, "one shift an axis", std::to_string(shifts.size()) + " shifts", std::to_string(axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = axis_in("roll", a, axes[i]);
    const int64_t extent = a.dim(axis);
    if (extent == 0 || shifts[i] % extent == 0) continue;
    const int64_t cut = extent - (shifts[i] % extent + extent) % extent;
    a = concat({slice_axis(a, axis, cut, extent), slice_axis(a, axis, 0, cut)}, axis);
  }
  return a;
}

Tensor tile(Tensor a, std::vector<int64_t> repeats) {
  const size_t rank = at(a.shape().rank());
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), 1);
  Dims own = a.shape().dims(), narrow, wide, joined;
  own.insert(own.begin(), repeats.size() - rank, 1);
  for (size_t i = 0; i < own.size(); ++i) {
    if (repeats[i] < 0) refuse_call("tile", a, "negative repeats", std::to_string(repeats[i]), "0 or more");
    narrow.insert(narrow.end(), {1, own[i]});
    wide.insert(wide.end(), {repeats[i], own[i]});
    joined.push_back(repeats[i] * own[i]);
  }
  return reshape(broadcast_to(reshape(a, Shape(narrow)), Shape(wide)), Shape(joined));
}

Tensor repeat_interleave(Tensor a, int64_t repeats, int64_t axis) {
  const int which = axis_in("repeat_interleave", a, axis);
  if (repeats < 0) refuse_call("repeat_interleave", a, "negative repeats", std::to_string(repeats), "0 or more");
  Dims narrow = a.shape().dims(), wide = narrow, joined = narrow;
  narrow.insert(narrow.begin() + which + 1, 1);
  wide.insert(wide.begin() + which + 1, repeats);
  joined[at(which)] *= repeats;
  return reshape(broadcast_to(reshape(a, Shape(narrow)), Shape(wide)), Shape(joined));
}

Tensor repeat_interleave(Tensor a, const std::vector<int64_t>& repeats, int64_t axis) {
  const int which = axis_in("repeat_interleave", a, axis);
  if (static_cast<int64_t>(repeats.size()) != a.dim(which))
    refuse_call("repeat_interleave", a, "one number of repeats an element", std::to_string(repeats.size()),
                std::to_string(a.dim(which)));
  Dims picks;
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0)
      refuse_call("repeat_interleave", a, "negative repeats", std::to_string(repeats[i]), "0 or more");
    picks.insert(picks.end(), at(repeats[i]), static_cast<int64_t>(i));
  }
  return index_select(a, index_constant(*a.builder, {static_cast<int64_t>(picks.size())}, picks), which);
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) throw Error({.what = "stack of no tensors", .where = "stack", .expected = "1 or more"});
  const int which = normalize_axis(axis, parts[0].shape().rank() + 1, "stack of " + parts[0].type().text());
  Dims dims = parts[0].shape().dims();
  dims.insert(dims.begin() + which, 1);
  std::vector<Tensor> raised;
  for (const Tensor& part : parts) {
    if (part.type() != parts[0].type())
      throw Error({.what = "stack of tensors of different types",
                   .where = "stack",
                   .found = part.type().text(),
                   .expected = parts[0].type().text()});
    raised.push_back(reshape(part, Shape(dims)));
  }
  return concat(raised, which);
}

std::vector<Tensor> unstack(Tensor a, int64_t axis) {
  const int which = axis_in("unstack", a, axis);
  Dims dims = a.shape().dims();
  dims.erase(dims.begin() + which);
  if (a.dim(which) == 0) return {};
  std::vector<Tensor> parts = split(a, Dims(at(a.dim(which)), 1), which);
  for (Tensor& part : parts) part = reshape(part, Shape(dims));
  return parts;
}

namespace {

/// `a` where the condition on (column, row + diagonal) holds in its last two dimensions, else 0.
Tensor triangle(const char* op, Tensor a, int64_t diagonal, const char* condition) {
  const int rank = a.shape().rank();
  if (rank < 2) refuse_call(op, a, "a matrix has two dimensions", a.shape().text(), "rank 2 or more");
  const int64_t most = std::max(a.dim(-1), a.dim(-2));
  Tensor rows = iota(*a.builder, DType::kI32, {a.dim(-2), 1}, 0),
         columns = iota(*a.builder, DType::kI32, {1, a.dim(-1)}, 1);
  rows = add(rows, full(*a.builder, DType::kI32, {}, static_cast<double>(std::clamp(diagonal, -most, most))));
  return select(map_binary(condition, columns, rows), a, zero_of(a));
}

}  // namespace

Tensor tril(Tensor a, int64_t diagonal) { return triangle("tril", a, diagonal, "less_equal"); }
Tensor triu(Tensor a, int64_t diagonal) { return triangle("triu", a, diagonal, "greater_equal"); }

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool xy) {
  Dims extents;
  for (const Tensor& vector : vectors) {
    if (vector.shape().rank() > 1)
      refuse_call("meshgrid", vector, "coordinates are vectors", vector.shape().text(), "rank 0 or 1");
    extents.push_back(vector.shape().elements());
  }
  const bool swaps = xy && vectors.size() > 1;
  if (swaps) std::swap(extents[0], extents[1]);
  std::vector<Tensor> grids;
  for (size_t i = 0; i < vectors.size(); ++i) {
    Dims dims(extents.size(), 1);
    dims[swaps && i < 2 ? 1 - i : i] = vectors[i].shape().elements();
    grids.push_back(broadcast_to(reshape(vectors[i], Shape(dims)), Shape(extents)));
  }
  return grids;
}

namespace {

/// Where the padded dimension's element `place` (counted from the first of the original) comes from.
int64_t source_of(int64_t place, int64_t extent, const std::string& mode) {
  if (mode == "edge") return std::clamp<int64_t>(place, 0, extent - 1);
  const auto modulo = [](int64_t a, int64_t b) { return (a % b + b) % b; };
  if (mode == "wrap") return modulo(place, extent);
  // There and back again: a period of both directions, without or with the edges twice.
  if (mode == "reflect" && extent == 1) return 0;
  const int64_t period = mode == "reflect" ? 2 * extent - 2 : 2 * extent;
  const int64_t within = modulo(place, period);
  return within < extent ? within : (mode == "reflect" ? period : period - 1) - within;
}

}  // namespace

Tensor pad_by(Tensor a, const std::vector<int64_t>& low, const std::vector<int64_t>& high, const std::string& mode) {
  if (mode != "reflect" && mode != "symmetric" && mode != "edge" && mode != "wrap")
    refuse_call("pad_by", a, "unknown mode", "\"" + mode + "\"", "\"reflect\", \"symmetric\", \"edge\" or \"wrap\"");
  if (low.size() != at(a.shape().rank()) || high.size() != low.size())
    refuse_call("pad_by", a, "padding needs one number a dimension", std::to_string(low.size()),
                std::to_string(a.shape().rank()));
  constexpr int64_t kMost = int64_t{1} << 32;
  for (int axis = 0; axis < a.shape().rank(); ++axis) {
    const int64_t before = low[at(axis)], behind = high[at(axis)], extent = a.dim(axis);
    if (before == 0 && behind == 0) continue;
    if (before > kMost || behind > kMost || before < -extent || behind < -extent || before + extent + behind < 0)
      refuse_call("pad_by", a, "padding out of range in dimension " + std::to_string(axis),
                  std::to_string(before) + " and " + std::to_string(behind),
                  "at most 2^32, and cuts within the extent");
    if (extent == 0 && before + behind > 0)
      refuse_call("pad_by", a, "nothing to repeat in dimension " + std::to_string(axis), a.shape().text(),
                  "an extent of 1 or more");
    if (before <= 0 && behind <= 0) {
      a = slice_axis(a, axis, -before, extent + behind);
      continue;
    }
    // What is wrapped around is what a cut of the other side leaves.
    const int64_t first = mode == "wrap" ? std::max<int64_t>(0, -before) : 0;
    const int64_t kept = mode == "wrap" ? extent - first - std::max<int64_t>(0, -behind) : extent;
    if (kept < 1)
      refuse_call("pad_by", a, "nothing to repeat in dimension " + std::to_string(axis),
                  std::to_string(before) + " and " + std::to_string(behind), "a cut that leaves 1 element or more");
    Dims picks;
    for (int64_t place = -before; place < extent + behind; ++place)
      picks.push_back(first + source_of(place - first, kept, mode));
    a = index_select(a, index_constant(*a.builder, {static_cast<int64_t>(picks.size())}, picks), axis);
  }
  return a;
}

Tensor center_crop_pad(Tensor a, const std::vector<int64_t>& sizes, std::vector<int64_t> axes) {
  if (axes.empty()) {
    axes.resize(at(a.shape().rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (axes.size() != sizes.size())
    refuse_call("center_crop_pad", a, "one size an axis", std::to_string(sizes.size()), std::to_string(axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = axis_in("center_crop_pad", a, axes[i]);
    const int64_t extent = a.dim(axis), size = sizes[i];
    if (size < 0) refuse_call("center_crop_pad", a, "negative size", std::to_string(size), "0 or more");
    if (size <= extent) {
      const int64_t start = (extent - size) / 2;
      a = slice_axis(a, axis, start, start + size);
      continue;
    }
    Dims low(at(a.shape().rank()), 0), high = low;
    low[at(axis)] = (size - extent) / 2;
    high[at(axis)] = size - extent - low[at(axis)];
    a = pad(a, low, high);
  }
  return a;
}

Tensor slice_scatter(Tensor a, Tensor part, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  const int which = axis_in("slice_scatter", a, axis);
  if (step < 1) refuse_call("slice_scatter", a, "step below 1", std::to_string(step), "1 or more");
  const int64_t extent = a.dim(which);
  std::tie(start, stop) = held_bounds(start, stop, extent);
  const int64_t count = (stop - start + step - 1) / step;
  Dims dims = a.shape().dims();
  dims[at(which)] = count;
  const TensorType wanted{a.dtype(), Shape(dims)};
  if (part.type() != wanted)
    refuse_call("slice_scatter", a, "the part does not fit the slice", part.type().text(), wanted.text());
  if (count == 0) return a;
  if (count == extent) return part;
  if (step == 1) {
    std::vector<Tensor> pieces;
    if (start > 0) pieces.push_back(slice_axis(a, which, 0, start));
    pieces.push_back(part);
    if (stop < extent) pieces.push_back(slice_axis(a, which, stop, extent));
    return concat(pieces, which);
  }
  Dims low(at(a.shape().rank()), 0), high = low, interior = low;
  low[at(which)] = start;
  high[at(which)] = extent - start - ((count - 1) * step + 1);
  interior[at(which)] = step - 1;
  const Tensor spread = a.builder->op("pad", {part}, {{"low", low}, {"high", high}, {"interior", interior}});
  std::vector<double> chosen(at(extent), 0);
  for (int64_t i = 0; i < count; ++i) chosen[at(start + i * step)] = 1;
  Dims along(at(a.shape().rank()), 1);
  along[at(which)] = extent;
  const Tensor mask = constant(*a.builder, TensorData(HostTensor::of(DType::kBool, Shape(along), chosen)));
  return select(mask, spread, a);
}

Tensor select_scatter(Tensor a, Tensor part, int64_t axis, int64_t index) {
  const int which = axis_in("select_scatter", a, axis);
  const int64_t extent = a.dim(which), position = index < 0 ? index + extent : index;
  if (position < 0 || position >= extent)
    refuse_call("select_scatter", a, "index out of range", std::to_string(index),
                std::to_string(-extent) + " to " + std::to_string(extent - 1));
  Dims dims = a.shape().dims();
  dims[at(which)] = 1;
  return slice_scatter(a, reshape(part, Shape(dims)), which, position, position + 1);
}

namespace {

/// Two axes of a tensor as matrices at its end, and the elements of one of their diagonals.
struct Diagonal {
  int axis1, axis2;
  int64_t rows, columns, start, count;
  Diagonal(const char* op, const Tensor& a, int64_t offset, int64_t first, int64_t second)
      : axis1(axis_in(op, a, first)), axis2(axis_in(op, a, second)), rows(a.dim(axis1)), columns(a.dim(axis2)) {
    if (axis1 == axis2)
      refuse_call(op, a, "a diagonal has two axes", std::to_string(axis1) + " twice", "distinct axes");
    const int64_t held = std::clamp(offset, -rows, columns);
    start = held >= 0 ? held : -held * columns;
    count = std::max<int64_t>(0, held >= 0 ? std::min(rows, columns - held) : std::min(rows + held, columns));
  }
  /// From one element to the next in a flat matrix.
  int64_t step() const { return columns + 1; }
  int64_t stop() const { return count == 0 ? start : start + (count - 1) * step() + 1; }
  /// [..., rows * columns]
  Tensor flat(Tensor a) const {
    const Tensor turned = move_axis(move_axis(a, axis1, -1), axis2 > axis1 ? axis2 - 1 : axis2, -1);
    Dims dims = turned.shape().dims();
    dims.resize(dims.size() - 2);
    dims.push_back(rows * columns);
    return reshape(turned, Shape(dims));
  }
};

}  // namespace

Tensor diagonal(Tensor a, int64_t offset, int64_t axis1, int64_t axis2) {
  const Diagonal lies("diagonal", a, offset, axis1, axis2);
  const Tensor flat = lies.flat(a);
  if (lies.count == 0) return slice_axis(flat, -1, 0, 0);
  return slice_axis(flat, -1, lies.start, lies.stop(), lies.step());
}

Tensor diagonal_scatter(Tensor a, Tensor part, int64_t offset, int64_t axis1, int64_t axis2) {
  const Diagonal lies("diagonal_scatter", a, offset, axis1, axis2);
  const Tensor flat = lies.flat(a);
  if (lies.count == 0) return a;
  const Tensor changed = slice_scatter(flat, part, -1, lies.start, lies.stop(), lies.step());
  Dims dims = flat.shape().dims();
  dims.back() = lies.rows;
  dims.push_back(lies.columns);
  // Back to where the axes were: the inverse of the moves in `flat`, in the other order.
  const Tensor matrices = reshape(changed, Shape(dims));
  return move_axis(move_axis(matrices, -1, lies.axis2 > lies.axis1 ? lies.axis2 - 1 : lies.axis2), -1, lies.axis1);
}

Tensor diagonal_embed(Tensor a, int64_t offset) {
  const int rank = a.shape().rank();
  if (rank < 1) refuse_call("diagonal_embed", a, "a diagonal has a dimension", a.shape().text(), "rank 1 or more");
  if (std::abs(offset) > (int64_t{1} << 20))
    refuse_call("diagonal_embed", a, "offset out of range", std::to_string(offset), "at most 2^20");
  const int64_t count = a.dim(-1), size = count + std::abs(offset);
  const int64_t start = offset >= 0 ? offset : -offset * size;
  const int64_t used = count == 0 ? 0 : (count - 1) * (size + 1) + 1;
  Dims low(at(rank), 0), high = low, interior = low, dims = a.shape().dims();
  low.back() = start;
  high.back() = size * size - start - used;
  interior.back() = size;
  dims.back() = size;
  dims.push_back(size);
  const Tensor flat = a.builder->op("pad", {a}, {{"low", low}, {"high", high}, {"interior", interior}});
  return reshape(flat, Shape(dims));
}

Tensor unfold(Tensor a, int64_t axis, int64_t size, int64_t step) {
  const int which = axis_in("unfold", a, axis);
  const int64_t extent = a.dim(which);
  if (size < 0 || size > extent || step < 1)
    refuse_call("unfold", a, "windows do not fit", "size " + std::to_string(size) + ", step " + std::to_string(step),
                "a size of 0 to " + std::to_string(extent) + " and a step of 1 or more");
  const int64_t count = (extent - size) / step + 1;
  Dims picks;
  for (int64_t window = 0; window < count; ++window)
    for (int64_t i = 0; i < size; ++i) picks.push_back(window * step + i);
  const Tensor windows = index_select(a, index_constant(*a.builder, {count, size}, picks), which);
  return move_axis(windows, which + 1, -1);
}

Tensor difference(Tensor a, int64_t axis, int64_t n) {
  const int which = axis_in("difference", a, axis);
  if (n < 0) refuse_call("difference", a, "negative order", std::to_string(n), "0 or more");
  for (; n > 0 && a.dim(which) > 0; --n) {
    const int64_t extent = a.dim(which);
    a = subtract(slice_axis(a, which, 1, extent), slice_axis(a, which, 0, extent - 1));
  }
  return a;
}

}  // namespace ramet::ops

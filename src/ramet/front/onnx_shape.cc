// ONNX's operators on shapes.
#include <algorithm>
#include <numeric>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

Values reshape(const OnnxCall& at) {
  const Tensor a = at.input(0);
  std::vector<int64_t> dims = at.integers_of(1, "shape");
  const bool keeps_zero = at.flag("allowzero");
  bool empty = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !keeps_zero) {
      if (static_cast<int>(i) >= a.shape().rank()) at.refuse("a shape has 0 where the operand has no dimension");
      dims[i] = a.dim(static_cast<int>(i));
    }
    if (dims[i] < -1) at.refuse("a shape has the extent " + std::to_string(dims[i]));
    if (dims[i] == 0) empty = true;
  }
  // The extent of -1 is not known among extents of 0.
  if (empty)
    for (int64_t& dim : dims)
      if (dim == -1) dim = 0;
  return {ops::reshape(a, Shape(dims))};
}

Values flatten(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int64_t axis = at.integer("axis", 1), rank = a.shape().rank();
  if (axis < -rank || axis > rank) at.refuse("there is no axis " + std::to_string(axis));
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < rank; ++i) (i < (axis < 0 ? axis + rank : axis) ? rows : columns) *= a.dim(i);
  return {ops::reshape(a, {rows, columns})};
}

Values transpose(const OnnxCall& at) {
  const Tensor a = at.input(0);
  std::vector<int64_t> order(static_cast<size_t>(a.shape().rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  order = at.integers("perm", order);
  if (order.empty()) return {a};
  return {ops::transpose(a, order)};
}

Values squeeze(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int rank = a.shape().rank();
  const bool all = !at.has(1) && !at.has("axes");
  const std::vector<int64_t> axes = checked_axes(at.integers_of(1, "axes"), rank);
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    const bool drop = all ? a.dim(i) == 1 : std::find(axes.begin(), axes.end(), i) != axes.end();
    if (drop && a.dim(i) != 1) at.refuse("a dimension of " + std::to_string(a.dim(i)) + " cannot be left out");
    if (!drop) dims.push_back(a.dim(i));
  }
  return {ops::reshape(a, Shape(dims))};
}

Values unsqueeze(const OnnxCall& at) {
  const Tensor a = at.input(0);
  std::vector<int64_t> axes = at.integers_of(1, "axes");
  const int rank = a.shape().rank() + static_cast<int>(axes.size());
  axes = checked_axes(std::move(axes), rank);
  std::vector<int64_t> dims;
  for (int i = 0, from = 0; i < rank; ++i)
    dims.push_back(std::find(axes.begin(), axes.end(), i) != axes.end() ? 1 : a.dim(from++));
  return {ops::reshape(a, Shape(dims))};
}

Values expand(const OnnxCall& at) { return {front::expand(at.input(0), Shape(at.known_integers(1, "a shape")))}; }

Values concat(const OnnxCall& at) {
  const std::vector<Tensor> parts = at.all_inputs();
  if (parts.empty()) at.refuse("no inputs");
  const int axis =
      at.axis("axis", parts[0].shape().rank(), at.version() < 4 ? std::optional<int64_t>(1) : std::nullopt);
  return {parts.size() == 1 ? parts[0] : ops::concat(parts, axis)};
}

Values split(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int axis = at.axis("axis", a.shape().rank(), 0);
  std::vector<int64_t> sizes = at.integers_of(1, "split");
  if (sizes.empty()) {
    const int64_t parts = at.integer("num_outputs", static_cast<int64_t>(at.node().outputs.size()));
    if (parts != static_cast<int64_t>(at.node().outputs.size()))
      at.refuse("num_outputs is another number than that of the outputs");
    const int64_t extent = a.dim(axis), size = (extent + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
  }
  Values made;
  int64_t from = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || from + size > a.dim(axis)) at.refuse("the parts are larger than their dimension");
    made.emplace_back(slice_axis(a, axis, from, from + size));
    from += size;
  }
  if (from != a.dim(axis)) at.refuse("the parts do not make up their dimension");
  return made;
}

Values slice(const OnnxCall& at) {
  Tensor a = at.input(0);
  const std::vector<int64_t> starts = at.integers_of(1, "starts"), stops = at.integers_of(2, "ends");
  std::vector<int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = checked_axes(at.integers_of(3, "axes", axes), a.shape().rank());
  const std::vector<int64_t> steps = at.integers_of(4, "steps", std::vector<int64_t>(starts.size(), 1));
  if (stops.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    at.refuse("starts, ends, axes and steps differ in number");
  for (size_t i = 0; i < starts.size(); ++i) a = slice_by_step(a, axes[i], starts[i], stops[i], steps[i]);
  return {a};
}

Values pad(const OnnxCall& at) {
  Tensor a = at.input(0);
  const int rank = a.shape().rank();
  const std::vector<int64_t> pads = at.integers_of(1, at.version() < 2 ? "paddings" : "pads");
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (at.has(3)) axes = checked_axes(at.known_integers(3, "axes"), rank);
  if (pads.size() != 2 * axes.size()) at.refuse("the number of pads is not twice the number of axes");
  std::vector<int64_t> low(static_cast<size_t>(rank), 0), high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    low[static_cast<size_t>(axes[i])] = pads[i];
    high[static_cast<size_t>(axes[i])] = pads[i + axes.size()];
  }
  const std::string mode = at.text("mode", "constant");
  if (mode != "constant") return {pad_by(a, low, high, mode)};
  for (int i = 0; i < rank; ++i) {
    auto &before = low[static_cast<size_t>(i)], &after = high[static_cast<size_t>(i)];
    const int64_t from = std::max<int64_t>(-before, 0), to = a.dim(i) - std::max<int64_t>(-after, 0);
    if (from > to) at.refuse("negative pads take away more than there is");
    if (before < 0 || after < 0) a = slice_axis(a, i, from, to);
    before = std::max<int64_t>(before, 0), after = std::max<int64_t>(after, 0);
  }
  double value = at.number("value", 0);
  if (at.has(2)) value = at.known_number(2, "the value of padding");
  if (a.dtype() == DType::kBool) return {in_type(ops::pad(cast(a, DType::kU8), low, high, value), DType::kBool)};
  return {ops::pad(a, low, high, value)};
}

Values tile(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (at.version() < 6) {  // a number and an axis
    std::vector<int64_t> repeats(static_cast<size_t>(a.shape().rank()), 1);
    repeats[static_cast<size_t>(normalize_axis(at.known_integer(2, "an axis"), a.shape().rank(), "Tile"))] =
        at.known_integer(1, "a number of repeats");
    return {ops::tile(a, repeats)};
  }
  const std::vector<int64_t> repeats = at.known_integers(1, "numbers of repeats");
  if (std::ssize(repeats) != a.shape().rank()) at.refuse("Tile has another number of repeats than dimensions");
  for (const int64_t each : repeats)
    if (each < 0) at.refuse("a negative number of repeats");
  return {ops::tile(a, repeats)};
}

Values depth_to_space(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (a.shape().rank() != 4) at.refuse("the operand must have four dimensions");
  const int64_t b = at.integer("blocksize"), n = a.dim(0), c = a.dim(1), h = a.dim(2), w = a.dim(3);
  if (b < 1 || b > 65536 || c % (b * b) != 0) at.refuse("the channels are no multiple of the squared block size");
  Tensor made;
  if (at.text("mode", "DCR") == "CRD")
    made = ops::transpose(ops::reshape(a, {n, c / (b * b), b, b, h, w}), {0, 1, 4, 2, 5, 3});
  else
    made = ops::transpose(ops::reshape(a, {n, b, b, c / (b * b), h, w}), {0, 3, 4, 1, 5, 2});
  return {ops::reshape(made, {n, c / (b * b), h * b, w * b})};
}

Values space_to_depth(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (a.shape().rank() != 4) at.refuse("the operand must have four dimensions");
  const int64_t b = at.integer("blocksize"), n = a.dim(0), c = a.dim(1), h = a.dim(2), w = a.dim(3);
  if (b < 1 || b > 65536 || h % b != 0 || w % b != 0) at.refuse("the space is no multiple of the block size");
  const bool crd = at.text("mode", "DCR") == "CRD";
  const Tensor made =
      ops::transpose(ops::reshape(a, {n, c, h / b, b, w / b, b}),
                     crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  return {ops::reshape(made, {n, c * b * b, h / b, w / b})};
}

Values trilu(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (a.shape().rank() < 2) at.refuse("Trilu needs matrices");
  const int64_t limit = std::max<int64_t>(a.dim(-1), a.dim(-2));
  const int64_t diagonal = std::clamp(at.has(1) ? at.known_integer(1, "the diagonal") : 0, -limit, limit);
  if (a.shape().elements() == 0) return {a};
  const auto cut = [&](Tensor b) { return at.flag("upper", true) ? triu(b, diagonal) : tril(b, diagonal); };
  if (a.dtype() == DType::kBool) return {in_type(cut(cast(a, DType::kU8)), DType::kBool)};
  return {cut(a)};
}

Values crop_pad(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const std::vector<int64_t> sizes = at.known_integers(1, "the sizes");
  return {center_crop_pad(a, sizes, checked_axes(at.integers("axes"), a.shape().rank()))};
}

/// Each sample's first elements along the time axis in the opposite order.
Values reverse_sequence(const OnnxCall& at) {
  const Tensor a = at.input(0), lengths = as_i64(at.input(1));
  const int batch = static_cast<int>(at.integer("batch_axis", 1)), time = static_cast<int>(at.integer("time_axis", 0));
  if (a.shape().rank() < 2 || batch + time != 1 || (batch != 0 && batch != 1))
    at.refuse("batch_axis and time_axis must be 0 and 1");
  const Shape grid{a.dim(0), a.dim(1)};
  const Tensor step = iota(at.build(), DType::kI64, grid, time);
  const Tensor length = broadcast_to(ops::reshape(lengths, batch == 0 ? Shape{a.dim(0), 1} : Shape{1, a.dim(1)}), grid);
  const Tensor last = subtract(length, at.integer_constant({}, {1}));
  const Tensor from = select(less(step, length), subtract(last, step), step);
  return {take(a, {iota(at.build(), DType::kI64, grid, batch), from}, {.axes = {batch, time}})};
}

Values size(const OnnxCall& at) { return {at.integer_constant({}, {at.input(0).shape().elements()})}; }

Values shape(const OnnxCall& at) {
  const std::vector<int64_t>& dims = at.input(0).shape().dims();
  const int64_t rank = std::ssize(dims);
  const auto held = [&](int64_t value) { return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank); };
  const int64_t start = held(at.integer("start", 0)), stop = std::max(start, held(at.integer("end", rank)));
  std::vector<int64_t> part(dims.begin() + start, dims.begin() + stop);
  return {at.integer_constant({stop - start}, part)};
}

constexpr OnnxEntry kEntries[] = {
    {"CenterCropPad", crop_pad},
    {"Concat", concat},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Pad", pad},
    {"Reshape", reshape},
    {"ReverseSequence", reverse_sequence},
    {"Shape", shape},
    {"Size", size},
    {"Slice", slice},
    {"SpaceToDepth", space_to_depth},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Trilu", trilu},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const OnnxEntry> onnx_shape_operators() { return kEntries; }

}  // namespace ramet::front

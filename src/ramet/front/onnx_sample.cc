// ONNX's sampling at given positions, and patches of images.
#include <cmath>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

Values grid_sample(const OnnxCall& at) {
  const Tensor a = at.input(0);
  std::string mode = at.text("mode", at.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const Tensor made = ops::grid_sample(
      in_type(a, DType::kF32), in_type(at.input(1), DType::kF32),
      {.method = mode, .padding = at.text("padding_mode", "zeros"), .corners = at.flag("align_corners")});
  return {in_type(made, a.dtype())};
}

Values affine_grid(const OnnxCall& at) {
  const Tensor theta = at.input(0);
  const std::vector<int64_t> size = at.known_integers(1, "the size of AffineGrid");
  if (size.size() < 3) at.refuse("the size of AffineGrid has no space");
  return {
      in_type(ops::affine_grid(in_type(theta, DType::kF32), {size.begin() + 2, size.end()}, at.flag("align_corners")),
              theta.dtype())};
}

Values col2im(const OnnxCall& at) {
  const std::vector<int64_t> sizes = at.known_integers(1, "the extents of the image"),
                             taps = at.known_integers(2, "the extents of a patch");
  const std::vector<int64_t> ones(sizes.size(), 1);
  const std::vector<int64_t> pads = at.integers("pads", std::vector<int64_t>(2 * sizes.size(), 0));
  if (pads.size() != 2 * sizes.size()) at.refuse("the number of pads is not twice the number of dimensions");
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(sizes.size());
  return {ops::col2im(at.input(0), sizes,
                      {.taps = taps,
                       .strides = at.integers("strides", ones),
                       .dilations = at.integers("dilations", ones),
                       .low = {pads.begin(), middle},
                       .high = {middle, pads.end()}})};
}

/// Each tap of a filter reads where its offset says, between elements.
Values deform_conv(const OnnxCall& at) {
  const Tensor a = at.input(0), filter = at.input(1), offset = at.input(2), bias = at.input_if(3),
               mask = at.input_if(4);
  if (a.shape().rank() != 4 || filter.shape().rank() != 4 || offset.shape().rank() != 4)
    at.refuse("two dimensions of space are supported");
  const int64_t n = a.dim(0), channels = a.dim(1), h = a.dim(2), w = a.dim(3), outputs = filter.dim(0);
  const int64_t groups = at.integer("group", 1), parts = at.integer("offset_group", 1);
  const OnnxWindows windows = onnx_windows(at, a.shape(), at.integers("kernel_shape", {filter.dim(2), filter.dim(3)}));
  const int64_t kh = windows.taps[0], kw = windows.taps[1], taps = kh * kw, oh = offset.dim(2), ow = offset.dim(3);
  if (parts < 1 || groups < 1 || channels % parts != 0 || outputs % groups != 0 || offset.dim(1) != parts * taps * 2)
    at.refuse("offsets and groups do not fit the operands");
  // Positions without offsets, [taps, oh, ow] each.
  std::vector<double> rows, columns;
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t i = 0; i < oh; ++i)
      for (int64_t j = 0; j < ow; ++j) {
        rows.push_back(static_cast<double>(i * windows.strides[0] - windows.low[0] + t / kw * windows.dilations[0]));
        columns.push_back(static_cast<double>(j * windows.strides[1] - windows.low[1] + t % kw * windows.dilations[1]));
      }
  const Tensor row = at.constant(DType::kF32, {taps, oh, ow}, rows);
  const Tensor column = at.constant(DType::kF32, {taps, oh, ow}, columns);
  std::vector<Tensor> sampled;
  for (int64_t p = 0; p < parts; ++p) {
    const auto coordinate = [&](int64_t which, Tensor base, int64_t extent) {
      const Tensor moved = slice(reshape(in_type(offset, DType::kF32), {n, parts, taps, 2, oh, ow}),
                                 {0, p, 0, which, 0, 0}, {n, p + 1, taps, which + 1, oh, ow});
      const Tensor place = add(reshape(moved, {n, taps, oh, ow}), base);
      // From element numbers to -1 and 1 at the centres of the outermost elements.
      return add_scalar(scale(place, 2.0 / static_cast<double>(std::max<int64_t>(extent - 1, 1))), -1);
    };
    const Tensor grid = reshape(stack({coordinate(1, column, w), coordinate(0, row, h)}, 4), {n, taps * oh, ow, 2});
    const int64_t width = channels / parts;
    const Tensor part = in_type(slice_axis(a, 1, p * width, (p + 1) * width), DType::kF32);
    Tensor read = reshape(ops::grid_sample(part, grid, {.corners = true}), {n, width, taps, oh, ow});
    if (mask.valid())
      read = multiply(read, slice_axis(reshape(in_type(mask, DType::kF32), {n, parts, taps, oh, ow}), 1, p, p + 1));
    sampled.push_back(read);
  }
  const Tensor all = sampled.size() == 1 ? sampled[0] : concat(sampled, 1);
  const int64_t inner = channels / groups * taps;
  Tensor made = matmul(reshape(in_type(filter, DType::kF32), {1, groups, outputs / groups, inner}),
                       reshape(all, {n, groups, inner, oh * ow}));
  made = reshape(made, {n, outputs, oh, ow});
  if (bias.valid()) made = add(made, along_channels(in_type(bias, DType::kF32), 4));
  return {in_type(made, a.dtype())};
}

/// Means (or maxima) of `samples` x `samples` positions between elements in each cell of each region.
Values roi_align(const OnnxCall& at) {
  const Tensor a = in_type(at.input(0), DType::kF32), boxes = in_type(at.input(1), DType::kF32),
               batch = as_i64(at.input(2));
  if (a.shape().rank() != 4 || boxes.shape().rank() != 2 || batch.shape() != Shape{boxes.dim(0)} || boxes.dim(1) != 4)
    at.refuse("two dimensions of space, and regions [N, 4], are supported");
  const int64_t count = boxes.dim(0), h = a.dim(2), w = a.dim(3), ph = at.integer("output_height", 1),
                pw = at.integer("output_width", 1), ratio = at.integer("sampling_ratio", 0);
  const double factor = at.number("spatial_scale", 1);
  const bool half = at.version() >= 16 && at.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  if (ratio < 1) at.refuse("sampling_ratio 0, by which the number of samples depends on data, is not supported");
  if (ph < 1 || pw < 1 || ph * pw * ratio * ratio > (1 << 20))
    at.refuse("the size of a region's result is out of range");
  struct Axis {
    Tensor low, high, weight, inside;  ///< [R, cells * ratio]
  };
  const auto axis_of = [&](int64_t low_column, int64_t cells, int64_t extent) {
    const auto bound = [&](int64_t column) {
      return add_scalar(scale(slice_axis(boxes, 1, column, column + 1), factor), half ? -0.5 : 0);
    };
    const Tensor start = bound(low_column);
    Tensor size = subtract(bound(low_column + 2), start);
    if (!half) size = maximum(size, at.full(DType::kF32, {}, 1));
    std::vector<double> places;
    for (int64_t i = 0; i < cells * ratio; ++i)
      places.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(cells * ratio));
    const Tensor place = add(start, multiply(size, at.constant(DType::kF32, {1, cells * ratio}, places)));
    const auto limit = [&](double value) { return at.full(DType::kF32, {}, value); };
    Axis made;
    made.inside = logical_and(map_binary("greater_equal", place, limit(-1)),
                              map_binary("less_equal", place, limit(static_cast<double>(extent))));
    const Tensor held = clamp(place, 0.0, static_cast<double>(extent - 1));
    const Tensor floor = map_unary("floor", held);
    made.weight = subtract(held, floor);
    made.low = cast(floor, DType::kI64);
    made.high = minimum(add(made.low, at.integer_constant({}, {1})), at.integer_constant({}, {extent - 1}));
    return made;
  };
  const Axis x = axis_of(0, pw, w), y = axis_of(1, ph, h);
  const auto along_y = [&](Tensor b) { return reshape(b, {count, ph * ratio, 1, 1}); };
  const auto along_x = [&](Tensor b) { return reshape(b, {count, 1, pw * ratio, 1}); };
  const Tensor sample = reshape(batch, {count, 1, 1});
  const auto read = [&](Tensor row, Tensor column) {  // [R, ph * ratio, pw * ratio, C]
    return take(a, {sample, reshape(row, {count, ph * ratio, 1}), reshape(column, {count, 1, pw * ratio})},
                {.axes = {0, 2, 3}});
  };
  const Tensor one = at.full(DType::kF32, {}, 1);
  const Tensor wy = along_y(y.weight), wx = along_x(x.weight), vy = subtract(one, wy), vx = subtract(one, wx);
  const bool maxima = at.text("mode", "avg") == "max";
  const auto part = [&](Tensor row, Tensor column, Tensor a_weight, Tensor b_weight) {
    return multiply(read(row, column), multiply(a_weight, b_weight));
  };
  const Tensor p1 = part(y.low, x.low, vy, vx), p2 = part(y.low, x.high, vy, wx), p3 = part(y.high, x.low, wy, vx),
               p4 = part(y.high, x.high, wy, wx);
  Tensor made = maxima ? maximum(maximum(p1, p2), maximum(p3, p4)) : add(add(p1, p2), add(p3, p4));
  const Tensor inside = logical_and(along_y(y.inside), along_x(x.inside));
  made = select(inside, made, at.full(DType::kF32, {}, 0));
  made = reshape(made, {count, ph, ratio, pw, ratio, a.dim(1)});
  made = maxima ? reduce_max(made, {2, 4}) : reduce_mean(made, {2, 4});
  return {in_type(transpose(made, {0, 3, 1, 2}), at.input(0).dtype())};
}

constexpr OnnxEntry kEntries[] = {
    {"AffineGrid", affine_grid}, {"Col2Im", col2im},      {"DeformConv", deform_conv},
    {"GridSample", grid_sample}, {"RoiAlign", roi_align},
};

}  // namespace

std::span<const OnnxEntry> onnx_sample_operators() { return kEntries; }

}  // namespace ramet::front

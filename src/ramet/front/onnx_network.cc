// ONNX's convolutions and pools.
#include <algorithm>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_pooling.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// Extents of the filter's or window's space.
std::vector<int64_t> space_of(Tensor a) {
  const std::vector<int64_t>& dims = a.shape().dims();
  return dims.size() < 2 ? std::vector<int64_t>{} : std::vector<int64_t>(dims.begin() + 2, dims.end());
}

void check_space(const OnnxCall& at, Tensor a) {
  if (a.shape().rank() < 3 || a.shape().rank() > 5) at.refuse("one to three dimensions of space are supported", "");
}

Tensor convolved(const OnnxCall& at, Tensor a, Tensor filter, const OnnxWindows& w) {
  check_space(at, a);
  return convolution(
      a, filter, at.input_if(2),
      {.strides = w.strides, .dilations = w.dilations, .low = w.low, .high = w.high, .groups = at.integer("group", 1)});
}

/// Of more than three dimensions of space, those along which every element is alone (one tap, steps of 1) are further
/// samples: JAX's exporter writes sums over windows so.
Tensor convolve_apart(const OnnxCall& at, Tensor a, Tensor filter, const OnnxWindows& w) {
  const int rank = a.shape().rank();
  OnnxWindows rest;
  std::vector<int64_t> alone, kept, taps{filter.dim(0), filter.dim(1)};
  for (int i = 2; i < rank; ++i) {
    const auto d = static_cast<size_t>(i) - 2;
    if (w.taps[d] == 1 && w.strides[d] == 1 && w.low[d] == 0 && w.high[d] == 0) {
      alone.push_back(i);
      continue;
    }
    kept.push_back(i), taps.push_back(w.taps[d]);
    rest.strides.push_back(w.strides[d]), rest.dilations.push_back(w.dilations[d]);
    rest.low.push_back(w.low[d]), rest.high.push_back(w.high[d]);
  }
  std::vector<int64_t> order{0}, samples{a.dim(0)}, dims{1, a.dim(1)};
  for (const int64_t axis : alone) order.push_back(axis), samples.push_back(a.dim(static_cast<int>(axis)));
  for (const int64_t extent : samples) dims[0] *= extent;
  order.push_back(1);
  for (const int64_t axis : kept) order.push_back(axis), dims.push_back(a.dim(static_cast<int>(axis)));
  const Tensor made = convolved(at, reshape(transpose(a, order), Shape(dims)), reshape(filter, Shape(taps)), rest);
  samples.insert(samples.end(), made.shape().dims().begin() + 1, made.shape().dims().end());
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return transpose(reshape(made, Shape(samples)), back);
}

Values conv(const OnnxCall& at) {
  const Tensor a = at.input(0), filter = at.input(1);
  const OnnxWindows w = onnx_windows(at, a.shape(), at.integers("kernel_shape", space_of(filter)));
  return {a.shape().rank() > 5 ? convolve_apart(at, a, filter, w) : convolved(at, a, filter, w)};
}

Values conv_transpose(const OnnxCall& at) {
  const Tensor a = at.input(0), filter = at.input(1);
  check_space(at, a);
  const auto space = static_cast<size_t>(a.shape().rank() - 2);
  const std::vector<int64_t> taps = at.integers("kernel_shape", space_of(filter));
  const std::vector<int64_t> ones(space, 1), zeros(space, 0);
  const std::vector<int64_t> strides = at.integers("strides", ones), dilations = at.integers("dilations", ones);
  std::vector<int64_t> extra = at.integers("output_padding", zeros);
  const std::vector<int64_t> wanted = at.integers("output_shape");
  std::vector<int64_t> pads = at.integers("pads", std::vector<int64_t>(2 * space, 0));
  if (taps.size() != space || strides.size() != space || dilations.size() != space || extra.size() != space ||
      pads.size() != 2 * space)
    at.refuse("an attribute has another number of entries than there are dimensions of space");
  const std::string automatic = at.text("auto_pad", "NOTSET");
  std::vector<int64_t> low(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(space)),
      high(pads.begin() + static_cast<std::ptrdiff_t>(space), pads.end());
  const bool same = automatic.starts_with("SAME");
  if (same || !wanted.empty())
    for (size_t i = 0; i < space; ++i) {
      const int64_t in = a.dim(static_cast<int>(i) + 2);
      const std::vector<int64_t> last(
          wanted.end() - std::min<std::ptrdiff_t>(std::ssize(wanted), static_cast<std::ptrdiff_t>(space)),
          wanted.end());
      const int64_t out = last.size() == space ? last[i] : in * strides[i];
      const int64_t total = (in - 1) * strides[i] + extra[i] + (taps[i] - 1) * dilations[i] + 1 - out;
      if (total < 0) {  // more than the filter reaches: zeros behind
        low[i] = high[i] = 0;
        extra[i] -= total;
        continue;
      }
      low[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high[i] = total - low[i];
    }
  // Output padding beyond a stride: elements that no input reaches.
  std::vector<int64_t> inside = extra, behind = zeros;
  for (size_t i = 0; i < space; ++i) {
    inside[i] = std::min(extra[i], std::max(strides[i], dilations[i]) - 1);
    behind[i] = extra[i] - inside[i];
  }
  const ConvolutionOptions options{
      .strides = strides, .dilations = dilations, .low = low, .high = high, .groups = at.integer("group", 1)};
  const Tensor bias = at.input_if(2);
  const bool grows = behind != zeros;
  Tensor made = convolution_transposed(a, filter, grows ? Tensor() : bias, options, inside);
  if (grows) {
    std::vector<int64_t> before(space + 2, 0), after(2, 0);
    after.insert(after.end(), behind.begin(), behind.end());
    made = pad(made, before, after);
    if (bias.valid()) made = add(made, along_channels(bias, a.shape().rank()));
  }
  return {made};
}

PoolOptions pool_options(const OnnxCall& at, Tensor a) {
  check_space(at, a);
  const OnnxWindows w = onnx_windows(at, a.shape(), at.integers("kernel_shape"));
  return {.taps = w.taps,
          .strides = w.strides,
          .dilations = w.dilations,
          .low = w.low,
          .high = w.high,
          .ceil_mode = at.flag("ceil_mode")};
}

/// Places among the elements of a sample's channel, as places in the whole tensor.
Tensor whole_places(const OnnxCall& at, Tensor a, Tensor places) {
  const int rank = a.shape().rank();
  int64_t space = 1;
  for (int i = 2; i < rank; ++i) space *= a.dim(i);
  places = as_i64(places);
  if (at.flag("storage_order")) {
    // Column-major: the first dimension of space is the fastest.
    Tensor rest = places, made;
    int64_t step = space;
    for (int i = rank - 1; i >= 2; --i) {
      step /= a.dim(i);
      const Tensor extent = at.integer_constant({}, {a.dim(i)});
      const Tensor coordinate = map_binary("remainder", rest, extent);
      rest = map_binary("floor_divide", rest, extent);
      const Tensor part = multiply(coordinate, at.integer_constant({}, {step}));
      made = made.valid() ? add(made, part) : part;
    }
    places = made;
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[0] = a.dim(0), dims[1] = a.dim(1);
  const Tensor channel = reshape(iota(at.build(), DType::kI64, {a.dim(0) * a.dim(1)}, 0), Shape(dims));
  return add(places, multiply(channel, at.integer_constant({}, {space})));
}

Values max_pool(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const DType dtype = a.dtype();
  const PoolOptions options = pool_options(at, a);
  const Tensor from = is_floating(dtype) ? a : cast(a, DType::kF32);
  if (!at.wants(1)) return {in_type(ops::max_pool(from, options), dtype)};
  const auto [values, places] = max_pool_with_indices(from, options);
  return {in_type(values, dtype), whole_places(at, a, places)};
}

Values average_pool(const OnnxCall& at) {
  const Tensor a = at.input(0);
  PoolOptions options = pool_options(at, a);
  options.count_padding = at.flag("count_include_pad");
  return {ops::average_pool(a, options)};
}

Values lp_pool(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {ops::lp_pool(a, pool_options(at, a), static_cast<double>(at.integer("p", 2)))};
}

std::vector<int64_t> space_axes(const OnnxCall& at, Tensor a) {
  if (a.shape().rank() < 3) at.refuse("the operand has no dimension of space");
  std::vector<int64_t> axes;
  for (int i = 2; i < a.shape().rank(); ++i) axes.push_back(i);
  return axes;
}
Values global_average_pool(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {through_f32(a, [&](Tensor b) { return reduce_mean(b, space_axes(at, b), true); })};
}
Values global_max_pool(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {reduce_max(a, space_axes(at, a), true)};
}
Values global_lp_pool(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const auto p = static_cast<double>(at.integer("p", 2));
  return {through_f32(a, [&](Tensor b) {
    const Tensor powered = power(map_unary("abs", b), at.full(b.dtype(), {}, p));
    return power(reduce_sum(powered, space_axes(at, b), true), at.full(b.dtype(), {}, 1 / p));
  })};
}

/// Elements at their places in a tensor of zeros.
Values max_unpool(const OnnxCall& at) {
  const Tensor a = at.input(0), places = as_i64(at.input(1));
  check_space(at, a);
  const OnnxWindows w = onnx_windows(at, a.shape(), at.integers("kernel_shape"));
  std::vector<int64_t> inferred = {a.dim(0), a.dim(1)};
  for (size_t i = 0; i < w.taps.size(); ++i)
    inferred.push_back((a.dim(static_cast<int>(i) + 2) - 1) * w.strides[i] + w.taps[i] - w.low[i] - w.high[i]);
  const Shape natural(inferred), whole = at.has(2) ? Shape(at.known_integers(2, "the output's shape")) : natural;
  Tensor made = at.full(a.dtype(), {natural.elements()}, 0);
  made = reshape(put(made, flat(a), {flat(places)}, {.axes = {0}}, {}), natural);
  if (whole == natural) return {made};
  std::vector<int64_t> zeros(inferred.size(), 0), behind;
  for (int i = 0; i < natural.rank(); ++i) {
    if (i >= whole.rank() || whole.dim(i) < natural.dim(i)) at.refuse("the output's shape is too small");
    behind.push_back(whole.dim(i) - natural.dim(i));
  }
  return {pad(made, zeros, behind)};
}

constexpr OnnxEntry kEntries[] = {
    {"AveragePool", average_pool},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalLpPool", global_lp_pool},
    {"GlobalMaxPool", global_max_pool},
    {"LpPool", lp_pool},
    {"MaxPool", max_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const OnnxEntry> onnx_network_operators() { return kEntries; }

}  // namespace ramet::front

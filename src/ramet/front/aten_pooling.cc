#include <algorithm>

#include "ramet/front/aten_network.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_pooling.h"

// Pooling over one to three dimensions of space.

namespace ramet::front {
namespace {

template <size_t kSpace>
Tensor input_of(const Translation& at) {
  const Tensor a = at.tensor("self");
  const int rank = a.shape().rank(), whole = static_cast<int>(kSpace) + 2;
  if (rank != whole && rank != whole - 1) at.refuse("a tensor of " + std::to_string(rank) + " dimensions");
  return with_samples(a, whole);
}

/// In ceil mode a window may be larger than the padded input: it is held to what there is.
template <size_t kSpace>
PoolOptions options_of(const Translation& at) {
  PoolOptions options;
  options.taps = spread(at, "kernel_size", kSpace);
  options.strides = spread(at, "stride", kSpace);
  options.dilations = spread(at, "dilation", kSpace, std::vector<int64_t>(kSpace, 1));
  options.low = options.high = spread(at, "padding", kSpace, std::vector<int64_t>(kSpace, 0));
  options.ceil_mode = at.flag("ceil_mode", false);
  options.count_padding = at.flag("count_include_pad", true);
  const Shape& shape = at.tensor("self").shape();
  for (size_t i = 0; i < kSpace && options.ceil_mode; ++i)
    if (options.dilations[i] == 1)
      options.taps[i] = std::min(options.taps[i], shape.dim(static_cast<int>(i) - static_cast<int>(kSpace)) +
                                                      options.low[i] + options.high[i]);
  return options;
}

std::vector<Tensor> in_shapes(const Translation& at, const std::pair<Tensor, Tensor>& made) {
  return {in_shape_of_result(at, made.first), in_shape_of_result(at, made.second, 1)};
}

template <size_t kSpace>
std::vector<Tensor> max_pools(const Translation& at) {
  return {in_shape_of_result(at, max_pool(input_of<kSpace>(at), options_of<kSpace>(at)))};
}

template <size_t kSpace>
std::vector<Tensor> max_pools_with_indices(const Translation& at) {
  if (!at.reads(1)) return {max_pools<kSpace>(at)[0], {}};
  return in_shapes(at, max_pool_with_indices(input_of<kSpace>(at), options_of<kSpace>(at)));
}

template <size_t kSpace>
std::vector<Tensor> average_pools(const Translation& at) {
  const int64_t divisor = at.integer("divisor_override", 0);
  return {in_shape_of_result(at, average_pool(input_of<kSpace>(at), options_of<kSpace>(at), divisor))};
}

template <size_t kSpace>
std::vector<Tensor> adaptive_averages(const Translation& at) {
  return {in_shape_of_result(at, adaptive_average_pool(input_of<kSpace>(at), spread(at, "output_size", kSpace)))};
}

template <size_t kSpace>
std::vector<Tensor> adaptive_maxima(const Translation& at) {
  const std::vector<int64_t> sizes = spread(at, "output_size", kSpace);
  if (!at.reads(1)) return {in_shape_of_result(at, adaptive_max_pool(input_of<kSpace>(at), sizes)), {}};
  return in_shapes(at, adaptive_max_pool_with_indices(input_of<kSpace>(at), sizes));
}

/// Zeros with each element at the place that its index names among the elements of the space. Where several elements
/// have one place the last one stands there, and PyTorch's gradient goes to all of them.
template <size_t kSpace>
std::vector<Tensor> unpools(const Translation& at) {
  const Tensor a = input_of<kSpace>(at), indices = with_samples(at.tensor("indices"), static_cast<int>(kSpace) + 2);
  int64_t places = 1;
  for (const int64_t extent : spread(at, "output_size", kSpace)) places *= extent;
  const Tensor flat = reshape(a, {a.dim(0), a.dim(1), -1}), at_places = reshape(indices, {a.dim(0), a.dim(1), -1});
  const Tensor zeros = full(at.build(), a.dtype(), {a.dim(0), a.dim(1), places}, 0);
  const Tensor values = scatter_elements(zeros, at_places, without_gradient(flat), 2);
  if (!at.trains()) return {in_shape_of_result(at, values)};
  const Tensor nothing = subtract(flat, without_gradient(flat));
  return {in_shape_of_result(at, add(values, scatter_elements(zeros, at_places, nothing, 2, {.by = "add"})))};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.max_pool1d", max_pools<1>},
    {"aten.max_pool2d", max_pools<2>},
    {"aten.max_pool3d", max_pools<3>},
    {"aten.max_pool1d_with_indices", max_pools_with_indices<1>},
    {"aten.max_pool2d_with_indices", max_pools_with_indices<2>},
    {"aten.max_pool3d_with_indices", max_pools_with_indices<3>},
    {"aten.avg_pool1d", average_pools<1>},
    {"aten.avg_pool2d", average_pools<2>},
    {"aten.avg_pool3d", average_pools<3>},
    {"aten.adaptive_avg_pool1d", adaptive_averages<1>},
    {"aten.adaptive_avg_pool2d", adaptive_averages<2>},
    {"aten.adaptive_avg_pool3d", adaptive_averages<3>},
    {"aten._adaptive_avg_pool2d", adaptive_averages<2>},
    {"aten._adaptive_avg_pool3d", adaptive_averages<3>},
    {"aten.adaptive_max_pool1d", adaptive_maxima<1>},
    {"aten.adaptive_max_pool2d", adaptive_maxima<2>},
    {"aten.adaptive_max_pool3d", adaptive_maxima<3>},
    {"aten.max_unpool2d", unpools<2>},
    {"aten.max_unpool3d", unpools<3>},
};

}  // namespace

std::span<const OperatorEntry> pooling_operators() { return kOperators; }

}  // namespace ramet::front

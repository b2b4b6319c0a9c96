#include "ramet/front/index_support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/build_shapes.h"

// Resizing of images, sampling at given positions, patches.

namespace ramet::front {
namespace {

using Tensors = std::vector<Tensor>;

/// Factors of the sizes, output elements an input element, where the call gave all of them; else none.
std::vector<double> factors(const Translation& at, size_t space) {
  std::vector<double> found;
  if (const TracedArgument* list = at.call().find("scale_factors"))
    for (const TracedArgument& factor : list->list)
      found.push_back(factor.kind == TracedArgument::Kind::kInt ? static_cast<double>(factor.integer) : factor.number);
  for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"})
    if (at.has(name)) found.push_back(at.number(name));
  if (found.size() != space) found.clear();
  return found;
}

Tensors resized(const Translation& at, const char* mode, bool antialias = false) {
  const Tensor a = at.tensor(at.has("input") ? "input" : "self");
  const std::vector<int64_t>& dims = at.result().shape.dims();
  ResizeOptions options;
  options.rule = resample_rule_of_mode(mode, at.flag("align_corners", false), antialias);
  options.scales = factors(at, dims.size() - 2);
  return {resize(a, {dims.begin() + 2, dims.end()}, options)};
}

Tensors translate_nearest(const Translation& at) { return resized(at, "nearest"); }
Tensors translate_nearest_exact(const Translation& at) { return resized(at, "nearest-exact"); }
Tensors translate_linear(const Translation& at) { return resized(at, "linear"); }
Tensors translate_cubic(const Translation& at) { return resized(at, "bicubic"); }
Tensors translate_linear_smooth(const Translation& at) { return resized(at, "linear", true); }
Tensors translate_cubic_smooth(const Translation& at) { return resized(at, "bicubic", true); }

Tensors translate_grid_sampler(const Translation& at) {
  static const char* const kMethods[] = {"linear", "nearest", "cubic"};
  static const char* const kPaddings[] = {"zeros", "border", "reflection"};
  const int64_t method = at.integer("interpolation_mode"), padding = at.integer("padding_mode");
  if (method < 0 || method > 2 || padding < 0 || padding > 2) at.refuse("a mode of grid_sample that is not known");
  return {grid_sample(
      at.tensor("input"), at.tensor("grid"),
      {.method = kMethods[method], .padding = kPaddings[padding], .corners = at.flag("align_corners", false)})};
}

Tensors translate_affine_grid(const Translation& at) {
  const std::vector<int64_t> size = at.integers("size");
  if (size.size() < 4) at.refuse("the size of an affine grid has fewer than 4 extents");
  return {affine_grid(at.tensor("theta"), {size.begin() + 2, size.end()}, at.flag("align_corners"))};
}

PatchOptions patch_options(const Translation& at) {
  PatchOptions options;
  options.taps = integers_for(at, "kernel_size", 2);
  options.dilations = integers_for(at, "dilation", 2, {1});
  options.strides = integers_for(at, "stride", 2, {1});
  options.low = options.high = integers_for(at, "padding", 2, {0});
  return options;
}

/// With a dimension of samples, which torch lets a call leave out.
Tensor with_samples(Tensor a, int rank) {
  if (a.shape().rank() == rank) return a;
  std::vector<int64_t> dims = a.shape().dims();
  dims.insert(dims.begin(), 1);
  return reshape(a, Shape(dims));
}

Tensors translate_im2col(const Translation& at) {
  return {like_result(at, im2col(with_samples(at.tensor("self"), 4), patch_options(at)))};
}

Tensors translate_col2im(const Translation& at) {
  const std::vector<int64_t> sizes = integers_for(at, "output_size", 2);
  return {like_result(at, col2im(with_samples(at.tensor("self"), 3), sizes, patch_options(at)))};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.upsample_nearest1d", translate_nearest},
    {"aten.upsample_nearest2d", translate_nearest},
    {"aten.upsample_nearest3d", translate_nearest},
    {"aten._upsample_nearest_exact1d", translate_nearest_exact},
    {"aten._upsample_nearest_exact2d", translate_nearest_exact},
    {"aten._upsample_nearest_exact3d", translate_nearest_exact},
    {"aten.upsample_linear1d", translate_linear},
    {"aten.upsample_bilinear2d", translate_linear},
    {"aten.upsample_trilinear3d", translate_linear},
    {"aten.upsample_bicubic2d", translate_cubic},
    {"aten._upsample_bilinear2d_aa", translate_linear_smooth},
    {"aten._upsample_bicubic2d_aa", translate_cubic_smooth},
    {"aten.grid_sampler", translate_grid_sampler},
    {"aten.grid_sampler_2d", translate_grid_sampler},
    {"aten.grid_sampler_3d", translate_grid_sampler},
    {"aten.affine_grid_generator", translate_affine_grid},
    {"aten.im2col", translate_im2col},
    {"aten.col2im", translate_col2im},
};

}  // namespace

std::span<const OperatorEntry> resize_operators() { return kOperators; }

}  // namespace ramet::front

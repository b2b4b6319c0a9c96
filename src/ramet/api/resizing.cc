#include "ramet/api/apply.h"
#include "ramet/ops/build_resize.h"

namespace ramet::v0 {
namespace {

ops::PatchOptions engine_options(const PatchOptions& options) {
  return {options.taps, options.strides, options.dilations, options.low, options.high, options.channels_last};
}

}  // namespace

Tensor resize(Operand a, const std::vector<int64_t>& sizes, const ResizeOptions& options) {
  return apply(
      [&](ir::Tensor x) {
        const ops::ResampleRule rule = ops::resample_rule_of_mode(options.mode, options.corners, options.antialias);
        return ops::resize(x, sizes, {rule, options.scales, options.channels_last});
      },
      a);
}

Tensor grid_sample(Operand a, Operand grid, const GridSampleOptions& options) {
  return apply(
      [&](ir::Tensor x, ir::Tensor positions) {
        return ops::grid_sample(x, positions,
                                {options.method, options.padding, options.corners, options.channels_last});
      },
      a, grid);
}
Tensor affine_grid(Operand theta, const std::vector<int64_t>& space, bool corners) {
  return apply([&](ir::Tensor x) { return ops::affine_grid(x, space, corners); }, theta);
}

Tensor pixel_shuffle(Operand a, int64_t factor, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::pixel_shuffle(x, factor, channels_last); }, a);
}
Tensor pixel_unshuffle(Operand a, int64_t factor, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::pixel_unshuffle(x, factor, channels_last); }, a);
}
Tensor channel_shuffle(Operand a, int64_t groups, bool channels_last) {
  return apply([&](ir::Tensor x) { return ops::channel_shuffle(x, groups, channels_last); }, a);
}

Tensor im2col(Operand a, const PatchOptions& options) {
  return apply([&](ir::Tensor x) { return ops::im2col(x, engine_options(options)); }, a);
}
Tensor col2im(Operand columns, const std::vector<int64_t>& sizes, const PatchOptions& options) {
  return apply([&](ir::Tensor x) { return ops::col2im(x, sizes, engine_options(options)); }, columns);
}

}  // namespace ramet::v0

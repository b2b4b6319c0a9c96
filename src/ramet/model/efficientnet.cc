#include <algorithm>
#include <cmath>

#include "ramet/model/image_blocks.h"
#include "ramet/ops/build_pooling.h"

namespace ramet::model {
namespace {

/// A stage of Tan and Le's table 1; `channels` are those of B0.
struct Stage {
  int64_t expansion, taps, stride, channels;
};
constexpr Stage kStages[] = {{1, 3, 1, 16},  {6, 3, 2, 24},  {6, 5, 2, 40}, {6, 3, 2, 80},
                             {6, 5, 1, 112}, {6, 5, 2, 192}, {6, 3, 1, 320}};
constexpr int64_t kStem = 32, kLast = 320;  // channels of the stem and of the last stage

/// Channels of B0 in a network whose last stage has `width` channels: a multiple of 8, at least nine tenths of the
/// exact number.
int64_t channels_at(int64_t channels, int64_t width) {
  const double exact = static_cast<double>(channels * width) / static_cast<double>(kLast);
  int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(exact + 4) / 8 * 8);
  if (static_cast<double>(rounded) < 0.9 * exact) rounded += 8;
  return rounded;
}

Tensor conv_norm_silu(ImageBuilder& of, Tensor x, const std::string& path, int64_t out, const ConvShape& shape) {
  return silu(of.conv_norm(x, path + ".0", path + ".1", out, shape, false));
}

/// Scales channels by what a small network says of their means (Hu et al., arXiv 1709.01507).
Tensor squeeze(ImageBuilder& of, Tensor x, const std::string& path, int64_t narrow) {
  const Tensor means = adaptive_average_pool(x, {1, 1});
  const Tensor hidden = silu(
      of.convolution(means, path + ".fc1", narrow, {.taps = 1, .bias = true, .out_axis = kNoAxis, .in_axis = kMlp}));
  return multiply(x, sigmoid(of.convolution(hidden, path + ".fc2", x.dim(1),
                                            {.taps = 1, .bias = true, .out_axis = kMlp, .in_axis = kNoAxis})));
}

Tensor block(ImageBuilder& of, Tensor x, const std::string& path, const Stage& stage, int64_t stride, int64_t out,
             int64_t index, int64_t count) {
  const int64_t in = x.dim(1), wide = stage.expansion == 1 ? in : in * stage.expansion;
  auto name = [&, part = 0]() mutable { return path + ".block." + std::to_string(part++); };
  Tensor branch = x;
  const LogicalAxis inner = stage.expansion == 1 ? kEmbed : kMlp;
  if (stage.expansion != 1) branch = conv_norm_silu(of, branch, name(), wide, {.taps = 1, .out_axis = kMlp});
  branch = conv_norm_silu(of, branch, name(), wide,
                          {.taps = stage.taps, .stride = stride, .groups = wide, .out_axis = inner, .in_axis = inner});
  branch = squeeze(of, branch, name(), std::max<int64_t>(1, in / 4));
  const std::string last = name();
  branch = of.conv_norm(branch, last + ".0", last + ".1", out, {.taps = 1, .in_axis = inner}, false);
  if (stride != 1 || in != out) return branch;
  return add(x, of.drop_path(branch, index, count, path + ".stochastic_depth"));
}

}  // namespace

Tensor efficientnet(ImageBuilder& of, Tensor x) {
  const VisionConfig& config = of.config();
  {
    Scope scope(of.build(), "stem");
    x = conv_norm_silu(of, x, "features.0", channels_at(kStem, config.width),
                       {.stride = config.small_stem ? 1 : 2, .in_axis = kNoAxis});
  }
  int64_t count = 0, index = 0;
  for (const int64_t blocks : config.blocks) count += blocks;
  for (size_t s = 0; s < std::size(kStages); ++s) {
    const Stage& stage = kStages[s];
    for (int64_t i = 0; i < config.blocks[s]; ++i, ++index) {
      PartScope part(of.build(), "block", index);
      x = block(of, x, "features." + std::to_string(s + 1) + "." + std::to_string(i), stage, i == 0 ? stage.stride : 1,
                channels_at(stage.channels, config.width), index, count);
    }
  }
  Scope scope(of.build(), "head");
  x = conv_norm_silu(of, x, "features.8", 4 * x.dim(1), {.taps = 1});
  return of.classify(of.mean_pixels(x), "classifier.1", 1 / std::sqrt(3 * static_cast<double>(of.task().classes)));
}

}  // namespace ramet::model

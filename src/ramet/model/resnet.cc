#include <cmath>

#include "ramet/model/image_blocks.h"

namespace ramet::model {
namespace {

/// A block from `x`; `width` channels inside, and four times as many outside of a bottleneck.
Tensor block(ImageBuilder& of, Tensor x, const std::string& path, int64_t width, int64_t stride, int64_t index,
             int64_t count) {
  const bool bottleneck = of.config().bottleneck;
  const int64_t out = bottleneck ? 4 * width : width;
  const auto name = [&](const std::string& part) { return path + "." + part; };
  Tensor branch = x;
  if (bottleneck) {
    branch = of.conv_norm(branch, name("conv1"), name("bn1"), width, {.taps = 1});
    branch = of.conv_norm(branch, name("conv2"), name("bn2"), width, {.stride = stride, .out_axis = kMlp});
    branch = of.conv_norm(branch, name("conv3"), name("bn3"), out, {.taps = 1, .in_axis = kMlp}, false);
  } else {
    branch = of.conv_norm(branch, name("conv1"), name("bn1"), width, {.stride = stride, .out_axis = kMlp});
    branch = of.conv_norm(branch, name("conv2"), name("bn2"), out, {.in_axis = kMlp}, false);
  }
  if (stride != 1 || x.dim(1) != out)
    x = of.conv_norm(x, name("downsample.0"), name("downsample.1"), out, {.taps = 1, .stride = stride}, false);
  return relu(add(x, of.drop_path(branch, index, count, name("drop_path"))));
}

}  // namespace

Tensor resnet(ImageBuilder& of, Tensor x) {
  const VisionConfig& config = of.config();
  {
    Scope scope(of.build(), "stem");
    const ConvShape large{.taps = 7, .stride = 2, .in_axis = kNoAxis}, small{.in_axis = kNoAxis};
    x = of.conv_norm(x, "conv1", "bn1", config.width, config.small_stem ? small : large);
    if (!config.small_stem) x = of.max_pool(x, 3, 2, 1);
  }
  int64_t count = 0, index = 0;
  for (const int64_t blocks : config.blocks) count += blocks;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage)
    for (int64_t i = 0; i < config.blocks[stage]; ++i, ++index) {
      PartScope part(of.build(), "block", index);
      x = block(of, x, "layer" + std::to_string(stage + 1) + "." + std::to_string(i), config.width << stage,
                stage > 0 && i == 0 ? 2 : 1, index, count);
    }
  Scope scope(of.build(), "head");
  const Tensor pooled = of.mean_pixels(x);
  return of.classify(pooled, "fc", 1 / std::sqrt(3 * static_cast<double>(pooled.dim(1))));
}

}  // namespace ramet::model

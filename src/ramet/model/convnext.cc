#include "ramet/model/image_blocks.h"

namespace ramet::model {
namespace {

constexpr double kEpsilon = 1e-6, kFirstScale = 1e-6, kDeviation = 0.02;

Tensor block(ImageBuilder& of, Tensor x, const std::string& path, int64_t index, int64_t count) {
  const int64_t width = x.dim(1);
  ModelBuilder& model = of.model();
  Tensor branch =
      of.convolution(x, path + ".conv_dw", width, {.taps = 7, .groups = width, .bias = true, .deviation = kDeviation});
  branch = model.norm(channels_to_back(branch), path + ".norm", kEpsilon);
  branch = gelu(model.dense(branch, path + ".mlp.fc1", 4 * width, kMlp, kEmbed));
  branch = model.dense(branch, path + ".mlp.fc2", width, kEmbed, kMlp);
  branch = channels_to_front(multiply(branch, model.vector(path + ".gamma", width, kEmbed, kFirstScale)));
  return add(x, of.drop_path(branch, index, count, path + ".drop_path"));
}

/// A convolution whose filters lie side by side.
Tensor patches(ImageBuilder& of, Tensor x, const std::string& name, int64_t out, int64_t side,
               const LogicalAxis& in_axis) {
  return of.convolution(
      x, name, out,
      {.taps = side, .stride = side, .pad = 0, .bias = true, .in_axis = in_axis, .deviation = kDeviation});
}

}  // namespace

Tensor convnext(ImageBuilder& of, Tensor x) {
  const VisionConfig& config = of.config();
  {
    Scope scope(of.build(), "stem");
    x = patches(of, x, "stem.0", config.width, config.small_stem ? 1 : 4, kNoAxis);
    x = of.channel_norm(x, "stem.1", kEpsilon);
  }
  int64_t count = 0, index = 0;
  for (const int64_t blocks : config.blocks) count += blocks;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage) {
    const std::string path = "stages." + std::to_string(stage);
    for (int64_t i = 0; i < config.blocks[stage]; ++i, ++index) {
      PartScope part(of.build(), "block", index);
      if (stage > 0 && i == 0)
        x = patches(of, of.channel_norm(x, path + ".downsample.0", kEpsilon), path + ".downsample.1",
                    config.width << stage, 2, kEmbed);
      x = block(of, x, path + ".blocks." + std::to_string(i), index, count);
    }
  }
  Scope scope(of.build(), "head");
  return of.classify(of.model().norm(of.mean_pixels(x), "head.norm", kEpsilon), "head.fc", kDeviation);
}

}  // namespace ramet::model

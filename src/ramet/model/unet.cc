#include "ramet/base/error.h"
#include "ramet/model/image_blocks.h"

namespace ramet::model {
namespace {

/// Two convolutions of 3 x 3, each with a batch norm and relu.
Tensor double_convolution(ImageBuilder& of, Tensor x, const std::string& path, int64_t out,
                          const LogicalAxis& in_axis = kEmbed) {
  const std::string name = path + ".double_conv.";
  x = of.conv_norm(x, name + "0", name + "1", out, {.out_axis = kMlp, .in_axis = in_axis});
  return of.conv_norm(x, name + "3", name + "4", out, {.in_axis = kMlp});
}

/// Zeros around an image, so that it is as large as another.
Tensor pad_to(Tensor x, Tensor other) {
  const int64_t rows = other.dim(2) - x.dim(2), columns = other.dim(3) - x.dim(3);
  if (rows == 0 && columns == 0) return x;
  return pad(x, {0, 0, rows / 2, columns / 2}, {0, 0, rows - rows / 2, columns - columns / 2});
}

}  // namespace

Tensor unet(ImageBuilder& of, Tensor x) {
  const VisionConfig& config = of.config();
  const int64_t levels = config.blocks[0];
  std::vector<Tensor> skips;
  int64_t part_index = 0;
  {
    PartScope part(of.build(), "block", part_index++);
    x = double_convolution(of, x, "inc", config.width, kNoAxis);
  }
  for (int64_t level = 1; level <= levels; ++level) {
    PartScope part(of.build(), "block", part_index++);
    skips.push_back(x);
    x = double_convolution(of, of.max_pool(x, 2, 2), "down" + std::to_string(level) + ".maxpool_conv.1",
                           config.width << level);
  }
  for (int64_t level = 1; level <= levels; ++level) {
    PartScope part(of.build(), "block", part_index++);
    const std::string path = "up" + std::to_string(level);
    const int64_t out = config.width << (levels - level);
    const Tensor skip = skips[static_cast<size_t>(levels - level)];
    const Tensor larger = of.enlarge(x, path + ".up", out, 2);
    x = double_convolution(of, concat({skip, pad_to(larger, skip)}, 1), path + ".conv", out, kNoAxis);
  }
  Scope scope(of.build(), "head");
  return of.convolution(x, "outc.conv", of.task().classes, {.taps = 1, .bias = true, .out_axis = kNoAxis});
}

}  // namespace ramet::model

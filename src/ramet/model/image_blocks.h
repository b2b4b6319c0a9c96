#pragma once

// What networks for images are made of. Inside model/ only.

#include <string>
#include <vector>

#include "ramet/model/blocks.h"
#include "ramet/model/vision.h"

namespace ramet::model {

/// A convolution of square filters, without bias unless it says so.
struct ConvShape {
  int64_t taps = 3, stride = 1;
  int64_t pad = -1;  ///< on all sides; -1: as much as leaves the size alone at a stride of 1
  int64_t groups = 1;
  bool bias = false;
  LogicalAxis out_axis = kEmbed, in_axis = kEmbed;
  double deviation = 0;  ///< of the first weights; 0: He et al.'s (arXiv 1502.01852) by the outputs
};

/// Builds the graphs of one network for images. Activations are [B,C,H,W].
class ImageBuilder {
 public:
  /// `declared` gets weights and running statistics; null: a graph of the same network that does not train.
  ImageBuilder(Graph& graph, Model* declared, const VisionConfig& config, const ImageTask& task);

  const VisionConfig& config() const { return config_; }
  const ImageTask& task() const { return task_; }
  ModelBuilder& model() { return model_; }
  GraphBuilder& build() { return model_.build(); }

  /// The images as numbers: (pixel / 255 - mean) / deviation of their channel, f32.
  Tensor images();
  /// Weights "NAME.weight" [out, in / groups, taps, taps], and "NAME.bias".
  Tensor convolution(Tensor x, const std::string& name, int64_t out, const ConvShape& shape = {});
  /// A transposed convolution with a stride as long as its filters' sides: "NAME.weight" [in, out, taps, taps] and
  /// "NAME.bias".
  Tensor enlarge(Tensor x, const std::string& name, int64_t out, int64_t taps);
  /// Batch norm: by the statistics of the micro-batch in training, else by the running ones.
  Tensor batch_norm(Tensor x, const std::string& name, const LogicalAxis& axis = kEmbed, double epsilon = 1e-5);
  /// Convolution, batch norm and, with `active`, relu.
  Tensor conv_norm(Tensor x, const std::string& conv, const std::string& norm, int64_t out, const ConvShape& shape,
                   bool active = true);
  /// Layer norm over the channels of each pixel.
  Tensor channel_norm(Tensor x, const std::string& name, double epsilon);
  Tensor max_pool(Tensor x, int64_t taps, int64_t stride, int64_t pad = 0);
  Tensor mean_pixels(Tensor x);  ///< [B,C], the mean of all pixels
  /// Leaves a branch out for some samples, and scales it for the others. `block` of `count` decides the rate.
  Tensor drop_path(Tensor branch, int64_t block, int64_t count, const std::string& name);
  /// The classifier on [B,C] -> [B,classes].
  Tensor classify(Tensor x, const std::string& name, double deviation);

 private:
  const VisionConfig& config_;
  const ImageTask& task_;
  Model* const declared_;
  ModelBuilder model_;
};

Tensor silu(Tensor x);
/// [B,C,H,W] -> [B,H,W,C] and back.
Tensor channels_to_back(Tensor x);
Tensor channels_to_front(Tensor x);

// The networks: images as numbers -> [B,classes], or [B,classes,H,W] of the U-Net. A file each.
Tensor resnet(ImageBuilder& of, Tensor x);
Tensor vit(ImageBuilder& of, Tensor x);
Tensor convnext(ImageBuilder& of, Tensor x);
Tensor efficientnet(ImageBuilder& of, Tensor x);
Tensor unet(ImageBuilder& of, Tensor x);

}  // namespace ramet::model

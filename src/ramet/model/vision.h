#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ramet/model/model.h"

namespace ramet::model {

/// Networks that read images.
enum class VisionFamily {
  kResNet,        ///< He et al., arXiv 1512.03385, with the stride in the 3 x 3 convolution as torchvision has it
  kVit,           ///< Dosovitskiy et al., arXiv 2010.11929
  kConvNext,      ///< Liu et al., arXiv 2201.03545
  kEfficientNet,  ///< Tan and Le, arXiv 1905.11946
  kUNet           ///< Ronneberger et al., arXiv 1505.04597, with padding and batch norms: a class for each pixel
};
/// The family of a recipe's model.kind: "resnet", "vit", "convnext", "efficientnet", "unet"; nothing for another name.
std::optional<VisionFamily> vision_family(const std::string& kind);
std::vector<std::string> vision_kinds();

/// Sizes of a network. What a family does not read is ignored.
struct VisionConfig {
  VisionFamily family = VisionFamily::kResNet;
  /// Blocks of each stage (ResNet, ConvNeXt: 4 stages; EfficientNet: 7). ViT: one number, its layers. U-Net: one
  /// number, how often it halves the image.
  std::vector<int64_t> blocks = {2, 2, 2, 2};
  int64_t width = 64;  ///< channels of the first stage (ResNet, ConvNeXt, U-Net), of the last stage (EfficientNet), of
                       ///< all layers (ViT)
  bool bottleneck = false;  ///< ResNet: blocks of three convolutions
  bool small_stem = false;  ///< for images of about 32 x 32: the stem does not shrink them (ResNet: 3 x 3; ConvNeXt and
                            ///< EfficientNet: a stride of 1)
  int64_t patch = 16;       ///< ViT: side of a patch
  int64_t head_size = 64;   ///< ViT: channels of an attention head
  double drop_path = 0;     ///< rate of the last block; those before it have less, in a line (Huang et al., 1603.09382)
  double head_dropout = 0;  ///< before the classifier
  double momentum = 0.1;    ///< of running statistics: r = (1 - momentum) r + momentum b
};

/// Sizes by name: resnet 18, 34, 50, 101, 152; vit tiny, small, base, large; convnext tiny, small, base, large;
/// efficientnet b0 to b4; unet mini, base. Throws Error naming them.
VisionConfig vision_preset(VisionFamily family, const std::string& name);
std::vector<std::string> vision_preset_names(VisionFamily family);

/// How a network meets its images and its task.
struct ImageTask {
  int64_t micro_batch = 8, channels = 3, height = 224, width = 224;
  int64_t classes = 1000;
  std::vector<double> mean = {0.5}, deviation = {0.5};  ///< of pixels from 0 to 1; one of a channel, or one for all
  double label_smoothing = 0;  ///< share of each label that all classes have alike (Szegedy et al., arXiv 1512.00567)
  bool mixed = false;          ///< images may be mixtures of two (data/images.h)
  int64_t seed = 0;            ///< of dropout and drop path
};

/// Whether the network has batch norms, so that its numbers depend on which images make up a micro-batch.
bool has_batch_norms(VisionFamily family);
/// Whether it gives a class for each pixel, and learns from masks instead of labels.
bool gives_masks(VisionFamily family);

/// The network with its loss. Data inputs: images u8 [B,C,H,W], which the graph scales and normalises; labels i32[B]
/// (below 0: does not count) or masks u8 [B,H,W] (255: does not count); of mixtures also other_labels i32[B] and
/// label_shares f32[B]. Outputs: loss, correct, count; evaluate also gives correct5 where there are more than 5 classes
/// and, of masks, hits and unions of each class. The program "predict" reads images alone: classes i32[B] and
/// probabilities f32[B,K], or the same of each pixel: classes i32[B,H,W] and probabilities f32[B,K,H,W]. Weights and
/// running statistics have torchvision's names (ResNet, EfficientNet), timm's (ViT, ConvNeXt) or, of the U-Net, those
/// of milesial/Pytorch-UNet. Throws Error when sizes contradict each other.
Model build_vision(const VisionConfig& config, const ImageTask& task);

}  // namespace ramet::model

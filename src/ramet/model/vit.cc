#include "ramet/base/error.h"
#include "ramet/model/image_blocks.h"

namespace ramet::model {
namespace {

constexpr double kEpsilon = 1e-6;

/// Patches as tokens: [B, patches, width].
Tensor embed_patches(ImageBuilder& of, Tensor x) {
  const int64_t width = of.config().width, patch = of.config().patch;
  const Tensor grid =
      of.convolution(x, "patch_embed.proj", width,
                     {.taps = patch, .stride = patch, .pad = 0, .bias = true, .in_axis = kNoAxis, .deviation = 0.02});
  return transpose(reshape(grid, {x.dim(0), width, grid.dim(2) * grid.dim(3)}), {0, 2, 1});
}

Tensor layer(ImageBuilder& of, Tensor x, int64_t index) {
  const int64_t width = of.config().width, count = of.config().blocks[0];
  const std::string path = "blocks." + std::to_string(index);
  ModelBuilder& model = of.model();
  {
    Scope scope(of.build(), "attention");
    const Tensor qkv =
        model.dense(model.norm(x, path + ".norm1", kEpsilon), path + ".attn.qkv", 3 * width, kJointHeads, kEmbed);
    const Tensor mixed = model.self_attention(qkv, {}, width / of.config().head_size, 0, false, path + ".attn");
    const Tensor out = model.dense(mixed, path + ".attn.proj", width, kEmbed, kHeads);
    x = add(x, of.drop_path(out, index, count, path + ".drop_path1"));
  }
  Scope scope(of.build(), "feed_forward");
  const Tensor wide =
      gelu(model.dense(model.norm(x, path + ".norm2", kEpsilon), path + ".mlp.fc1", 4 * width, kMlp, kEmbed));
  const Tensor out = model.dense(wide, path + ".mlp.fc2", width, kEmbed, kMlp);
  return add(x, of.drop_path(out, index, count, path + ".drop_path2"));
}

}  // namespace

Tensor vit(ImageBuilder& of, Tensor x) {
  const VisionConfig& config = of.config();
  const int64_t batch = x.dim(0), width = config.width;
  ModelBuilder& model = of.model();
  {
    Scope scope(of.build(), "embeddings");
    const Tensor patches = embed_patches(of, x);
    const Tensor first = model.matrix("cls_token", {1, 1, width}, {kNoAxis, kNoAxis, kEmbed});
    const Tensor positions = model.matrix("pos_embed", {1, patches.dim(1) + 1, width}, {kNoAxis, kNoAxis, kEmbed});
    x = add(concat({cast(broadcast_to(first, {batch, 1, width}), patches.dtype()), patches}, 1), positions);
  }
  for (int64_t i = 0; i < config.blocks[0]; ++i) {
    PartScope part(of.build(), "layer", i);
    x = layer(of, x, i);
  }
  Scope scope(of.build(), "head");
  // A norm of a token reads that token alone.
  const Tensor first = reshape(slice(x, {0, 0, 0}, {batch, 1, width}), {batch, width});
  return of.classify(model.norm(first, "norm", kEpsilon), "head", 0.02);
}

}  // namespace ramet::model

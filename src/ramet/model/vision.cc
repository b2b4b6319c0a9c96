#include "ramet/model/vision.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/image_blocks.h"
#include "ramet/model/image_loss.h"

namespace ramet::model {
namespace {

struct Preset {
  const char* name;
  VisionConfig config;
};

/// All that the passes below need to know of a family.
struct FamilyDef {
  VisionFamily family;
  const char* kind;
  Tensor (*network)(ImageBuilder&, Tensor);
  bool batch_norms, masks;
  size_t stages;  ///< numbers of blocks
  std::vector<Preset> presets;
};

const std::vector<FamilyDef>& families() {
  using Family = VisionFamily;
  // He et al., table 1; Dosovitskiy et al., table 1, and Touvron et al. (arXiv 2012.12877), table 1; Liu et al.,
  // section 3; Tan and Le, section 4, for the depth of b1 to b4.
  static const std::vector<FamilyDef> all = {
      {Family::kResNet,
       "resnet",
       resnet,
       true,
       false,
       4,
       {{"18", {.blocks = {2, 2, 2, 2}}},
        {"34", {.blocks = {3, 4, 6, 3}}},
        {"50", {.blocks = {3, 4, 6, 3}, .bottleneck = true}},
        {"101", {.blocks = {3, 4, 23, 3}, .bottleneck = true}},
        {"152", {.blocks = {3, 8, 36, 3}, .bottleneck = true}}}},
      {Family::kVit,
       "vit",
       vit,
       false,
       false,
       1,
       {{"tiny", {.blocks = {12}, .width = 192}},
        {"small", {.blocks = {12}, .width = 384}},
        {"base", {.blocks = {12}, .width = 768}},
        {"large", {.blocks = {24}, .width = 1024}}}},
      {Family::kConvNext,
       "convnext",
       convnext,
       false,
       false,
       4,
       {{"tiny", {.blocks = {3, 3, 9, 3}, .width = 96}},
        {"small", {.blocks = {3, 3, 27, 3}, .width = 96}},
        {"base", {.blocks = {3, 3, 27, 3}, .width = 128}},
        {"large", {.blocks = {3, 3, 27, 3}, .width = 192}}}},
      {Family::kEfficientNet,
       "efficientnet",
       efficientnet,
       true,
       false,
       7,
       {{"b0", {.blocks = {1, 2, 2, 3, 3, 4, 1}, .width = 320, .head_dropout = 0.2}},
        {"b1", {.blocks = {2, 3, 3, 4, 4, 5, 2}, .width = 320, .head_dropout = 0.2}},
        {"b2", {.blocks = {2, 3, 3, 4, 4, 5, 2}, .width = 352, .head_dropout = 0.3}},
        {"b3", {.blocks = {2, 3, 3, 5, 5, 6, 2}, .width = 384, .head_dropout = 0.3}},
        {"b4", {.blocks = {2, 4, 4, 6, 6, 8, 2}, .width = 448, .head_dropout = 0.4}}}},
      {Family::kUNet,
       "unet",
       unet,
       true,
       true,
       1,
       {{"mini", {.blocks = {3}, .width = 16}}, {"base", {.blocks = {4}, .width = 64}}}}};
  return all;
}

const FamilyDef& def_of(VisionFamily family) {
  for (const FamilyDef& def : families())
    if (def.family == family) return def;
  internal_error("vision", "no such family of networks");
}

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& found,
                         const std::string& expected) {
  throw Error({.what = what, .where = where, .found = found, .expected = expected});
}

void check_task(const ImageTask& task) {
  if (task.micro_batch < 1 || task.channels < 1 || task.height < 1 || task.width < 1)
    refuse("model", "images have positive sizes",
           Shape{task.micro_batch, task.channels, task.height, task.width}.text(), "");
  if (task.classes < 2)
    refuse("model.classes", "a network tells classes apart", std::to_string(task.classes), "2 or more");
  for (const auto& [key, numbers] : {std::pair("data.mean", &task.mean), {"data.deviation", &task.deviation}})
    if (numbers->size() != 1 && std::ssize(*numbers) != task.channels)
      refuse(key, "one number for each channel, or one for all", std::to_string(numbers->size()) + " numbers",
             "1 or " + std::to_string(task.channels));
  for (const double deviation : task.deviation)
    if (!(deviation > 0)) refuse("data.deviation", "a deviation must be above 0", std::to_string(deviation), "above 0");
}

void check_config(const FamilyDef& def, const VisionConfig& config, const ImageTask& task) {
  if (config.blocks.size() != def.stages)
    refuse("model.blocks", std::string("the numbers of blocks of a ") + def.kind, std::to_string(config.blocks.size()),
           std::to_string(def.stages) + (def.stages == 1 ? " number" : " numbers, as 2,2,2,2"));
  for (const int64_t blocks : config.blocks)
    if (blocks < 1 || blocks > 1000) refuse("model.blocks", "a number of blocks", std::to_string(blocks), "1 to 1000");
  if (config.width < 1) refuse("model.width", "a number of channels", std::to_string(config.width), "1 or more");
  const auto size = std::to_string(task.height) + " x " + std::to_string(task.width);
  if (def.family == VisionFamily::kVit) {
    if (config.patch < 1 || task.height % config.patch != 0 || task.width % config.patch != 0)
      refuse("model.patch", "patches must cover the image", std::to_string(config.patch) + " of " + size,
             "a number that divides both sides of the image");
    if (config.head_size < 1 || config.width % config.head_size != 0)
      refuse("model.head_size", "attention heads must share the width",
             std::to_string(config.head_size) + " of " + std::to_string(config.width),
             "a number that divides model.width");
  }
  if (def.family == VisionFamily::kUNet) {
    if (config.blocks[0] > 16 || std::min(task.height, task.width) >> config.blocks[0] < 1)
      refuse("model.blocks", "the image cannot be halved so often",
             std::to_string(config.blocks[0]) + " times of " + size, "a pixel must be left");
    if (task.mixed || task.label_smoothing > 0)
      refuse("train.label_smoothing", "masks are neither mixed nor smoothed", "a unet", "0");
    if (task.classes > 255)
      refuse("model.classes", "a mask has a byte for each pixel", std::to_string(task.classes), "2 to 255");
  }
}

/// One graph of the network; `declared` as ImageBuilder takes it.
Tensor network(ImageBuilder& of, const FamilyDef& def) { return def.network(of, of.images()); }

/// Multiplications and additions of the matrix products of a graph, convolutions among them.
double product_flops(const Graph& graph) {
  double flops = 0;
  for (NodeId id = 0; id < std::ssize(graph.nodes()); ++id) {
    const OpDef& op = *graph.node(id).op;
    if (!op.products) continue;
    for (const MatrixProduct& product : op.products(graph.signature(id)))
      flops += 2 * static_cast<double>(product.batch) * static_cast<double>(product.m) *
               static_cast<double>(product.k) * static_cast<double>(product.n);
  }
  return flops;
}

}  // namespace

std::optional<VisionFamily> vision_family(const std::string& kind) {
  for (const FamilyDef& def : families())
    if (kind == def.kind) return def.family;
  return {};
}

std::vector<std::string> vision_kinds() {
  std::vector<std::string> kinds;
  for (const FamilyDef& def : families()) kinds.emplace_back(def.kind);
  return kinds;
}

VisionConfig vision_preset(VisionFamily family, const std::string& name) {
  std::string known;
  for (const Preset& preset : def_of(family).presets) {
    if (name == preset.name) {
      VisionConfig config = preset.config;
      config.family = family;
      return config;
    }
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw Error({.what = std::string("unknown preset of ") + def_of(family).kind,
               .where = "model.preset",
               .found = "'" + name + "'",
               .expected = "one of " + known});
}

std::vector<std::string> vision_preset_names(VisionFamily family) {
  std::vector<std::string> names;
  for (const Preset& preset : def_of(family).presets) names.emplace_back(preset.name);
  return names;
}

bool has_batch_norms(VisionFamily family) { return def_of(family).batch_norms; }
bool gives_masks(VisionFamily family) { return def_of(family).masks; }

Model build_vision(const VisionConfig& config, const ImageTask& task) {
  const FamilyDef& def = def_of(config.family);
  check_task(task);
  check_config(def, config, task);
  Model model;
  model.name = def.kind;
  const auto add_loss = [&](Graph& graph, Model* declared) {
    ImageBuilder of(graph, declared, config, task);
    const Tensor logits = network(of, def);
    (def.masks ? add_mask_loss : add_label_loss)(of, logits, declared == nullptr);
  };
  add_loss(model.forward, &model);
  add_loss(model.evaluate, nullptr);
  NamedGraph predict{"predict", Graph("predict"), When::on_request()};
  ImageBuilder of(predict.graph, nullptr, config, task);
  add_answers(of, network(of, def));
  model.programs.push_back(std::move(predict));
  describe_image_model(model, task, def.masks);
  if (def.family == VisionFamily::kVit) model.units_of_axes = {{"heads", config.width / config.head_size}};
  model.tokens_per_micro_batch = task.micro_batch;
  model.flops_per_token = 3 * product_flops(model.forward) / static_cast<double>(task.micro_batch);
  return model;
}

}  // namespace ramet::model

// Networks for images beside PyTorch's. bench/peers/torch_vision_reference.py printed the numbers, in double precision.
#include "ramet/model/vision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "ramet/base/host_tensor.h"
#include "ramet/kernel/interpret.h"
#include "ramet/transform/differentiate.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Feeds = std::map<std::string, HostTensor>;

/// Numbers in [-0.5, 0.5), by the name and the place alone: FNV-1a of the name, then a multiplicative hash.
std::vector<double> made(const std::string& name, int64_t count) {
  uint32_t start = 2166136261u;
  for (const char letter : name) start = (start ^ static_cast<uint8_t>(letter)) * 16777619u;
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t mixed = (static_cast<uint32_t>(i) + start) * 2654435761u;
    mixed = (mixed ^ mixed >> 15) * 2246822519u;
    numbers.push_back((mixed ^ mixed >> 13) / 4294967296.0 - 0.5);
  }
  return numbers;
}

double along(const std::string& name, const HostTensor& tensor) {
  const std::vector<double> direction = made(name, tensor.elements());
  double sum = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) sum += tensor.get(i) * direction[static_cast<size_t>(i)];
  return sum;
}

HostTensor first_value(const std::string& name, const TensorType& type) {
  HostTensor tensor(type);
  const std::vector<double> numbers = made(name, type.elements());
  const bool matrix = type.shape.rank() > 1;
  const double fan = matrix ? static_cast<double>(type.elements() / type.shape[0]) : 1;
  for (int64_t i = 0; i < type.elements(); ++i) {
    const double number = numbers[static_cast<size_t>(i)];
    tensor.set(i, matrix ? number * std::sqrt(3 / fan) * 2 : number * 0.4 + (name.ends_with("bias") ? 0 : 0.8));
  }
  return tensor;
}

Feeds feeds_of(const Model& model, const ImageTask& task) {
  Feeds feeds;
  for (const StateTensor& weight : model.weights) feeds[weight.name] = first_value(weight.name, weight.type);
  for (const InputSpec& input : model.inputs) {
    HostTensor tensor(input.type);
    const std::vector<double> numbers = made(input.name == "masks" ? "labels" : input.name, input.type.elements());
    const double range = input.name == "images" ? 256 : static_cast<double>(task.classes);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, std::floor((numbers[static_cast<size_t>(i)] + 0.5) * range));
    feeds[input.name] = std::move(tensor);
  }
  return feeds;
}

std::map<std::string, HostTensor> run(const Graph& graph, const Feeds& feeds) {
  const auto results = interpret(graph, reference_backend(), feeds);
  std::map<std::string, HostTensor> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[graph.outputs()[i].name] = results[i];
  return outputs;
}

using Numbers = std::vector<std::pair<std::string, double>>;
struct Expected {
  std::string name;
  double loss;
  Numbers gradients, statistics;
  double evaluated;  ///< loss by running statistics after one step
};

void expect_equal_to_torch(const VisionConfig& config, const ImageTask& task, const Expected& expected) {
  SCOPED_TRACE(expected.name);
  const Model model = build_vision(config, task);
  Feeds feeds = feeds_of(model, task);
  std::vector<std::string> names;
  for (const StateTensor& weight : model.weights) names.push_back(weight.name);
  const auto found = run(differentiate(model.forward, "loss", names), feeds);
  EXPECT_NEAR(found.at("loss").get(0), expected.loss, 1e-5);
  for (const auto& [name, value] : expected.gradients)
    EXPECT_NEAR(along("grad." + name, found.at("grad." + name)), value, 2e-4 * std::max(0.1, std::fabs(value))) << name;
  for (const StateTensor& state : model.states) {
    EXPECT_EQ(state.kind, StateKind::kDeferred);
    HostTensor running = found.at(state.name);
    for (int64_t i = 0; i < running.elements(); ++i)
      running.set(i, (1 - state.fold.momentum) * state.init.a + state.fold.momentum * running.get(i));
    feeds[state.name] = std::move(running);
  }
  for (const auto& [name, value] : expected.statistics)
    EXPECT_NEAR(along("of." + name, feeds.at(name)), value, 1e-5 * std::max(1.0, std::fabs(value))) << name;
  EXPECT_NEAR(run(model.evaluate, feeds).at("loss").get(0), expected.evaluated, 2e-5);
}

ImageTask task_of(int64_t channels, int64_t height, int64_t width, int64_t classes) {
  return {.micro_batch = 3,
          .channels = channels,
          .height = height,
          .width = width,
          .classes = classes,
          .mean = {0.4},
          .deviation = {0.3}};
}

TEST(Vision, NetworksHaveTheNumbersOfPyTorch) {
  using Family = VisionFamily;
  const std::vector<int64_t> ones(4, 1);
  expect_equal_to_torch({.family = Family::kResNet, .blocks = ones, .width = 4, .small_stem = true},
                        task_of(1, 9, 10, 7),
                        {"resnet",
                         2.27180527,
                         {{"conv1.weight", -0.594400912},
                          {"layer1.0.bn1.bias", 0.0320544494},
                          {"layer2.0.bn1.weight", -0.135346185},
                          {"layer2.0.downsample.0.weight", -0.00560350103},
                          {"layer3.0.bn1.bias", -0.0211075813},
                          {"layer3.0.downsample.1.weight", 0.0277530955},
                          {"layer4.0.conv2.weight", 0.537388852},
                          {"layer4.0.downsample.1.bias", 0.0140860677}},
                         {{"bn1.running_mean", -0.016150221},
                          {"layer2.0.bn2.running_mean", -0.0271679106},
                          {"layer3.0.downsample.1.running_mean", 0.0310414746}},
                         1.90702738});
  expect_equal_to_torch({.family = Family::kResNet, .blocks = ones, .width = 4, .bottleneck = true},
                        task_of(3, 34, 30, 7),
                        {"resnet large stem",
                         2.0672727,
                         {{"conv1.weight", -16.8539957},
                          {"layer1.0.bn2.weight", 0.0190847105},
                          {"layer1.0.downsample.1.bias", -0.258249983},
                          {"layer2.0.conv3.weight", -0.513170309},
                          {"layer3.0.bn1.weight", 0.100030748},
                          {"layer3.0.bn3.bias", -0.0299718071},
                          {"layer4.0.conv2.weight", 3.45958194},
                          {"layer4.0.downsample.1.weight", -0.0640448385}},
                         {{"bn1.running_mean", -0.00738189703},
                          {"layer2.0.bn1.running_var", 0.162160993},
                          {"layer3.0.bn3.running_mean", 0.0514769089},
                          {"layer4.0.downsample.1.running_var", -3.5828557}},
                         1.93786792});
  expect_equal_to_torch({.family = Family::kVit, .blocks = {2}, .width = 8, .patch = 4, .head_size = 4},
                        task_of(3, 12, 12, 7),
                        {"vit",
                         2.90057106,
                         {{"cls_token", -0.0987468608},
                          {"blocks.0.norm1.weight", -0.0751767155},
                          {"blocks.0.attn.qkv.weight", 0.292796387},
                          {"blocks.0.mlp.fc1.weight", 0.114547856},
                          {"blocks.1.norm1.weight", -0.0173508989},
                          {"blocks.1.attn.qkv.weight", 0.125470411},
                          {"blocks.1.mlp.fc1.weight", 0.00304389673},
                          {"norm.weight", -0.379095044}},
                         {},
                         2.90057106});
  expect_equal_to_torch({.family = Family::kConvNext, .blocks = ones, .width = 4, .small_stem = true},
                        task_of(3, 9, 10, 7),
                        {"convnext",
                         2.23186896,
                         {{"stem.0.weight", -0.0202591777},
                          {"stages.0.blocks.0.norm.bias", -0.0731229647},
                          {"stages.1.blocks.0.norm.weight", -0.0654936021},
                          {"stages.1.downsample.1.weight", -0.148864477},
                          {"stages.2.blocks.0.mlp.fc1.bias", -0.00262491354},
                          {"stages.3.blocks.0.conv_dw.weight", -0.674346147},
                          {"stages.3.downsample.0.weight", 0.0774009425}},
                         {},
                         2.23186896});
  expect_equal_to_torch({.family = Family::kEfficientNet, .blocks = std::vector<int64_t>(7, 1), .width = 80},
                        task_of(3, 34, 30, 7),
                        {"efficientnet",
                         1.99732724,
                         {{"features.0.0.weight", -2.28599676},
                          {"features.2.0.block.0.0.weight", -0.0917068514},
                          {"features.3.0.block.0.0.weight", 0.734136154},
                          {"features.4.0.block.0.0.weight", 0.809143632},
                          {"features.5.0.block.0.0.weight", -0.378067715},
                          {"features.6.0.block.0.0.weight", -2.13037204},
                          {"features.7.0.block.0.0.weight", 0.175000842},
                          {"features.8.0.weight", -0.673280811}},
                         {{"features.0.1.running_mean", -0.0119043862},
                          {"features.3.0.block.1.1.running_mean", -0.0175090429},
                          {"features.5.0.block.3.1.running_mean", -0.00551053335},
                          {"features.8.1.running_mean", 0.000410938258}},
                         1.86689109});
  expect_equal_to_torch({.family = Family::kUNet, .blocks = {2}, .width = 4}, task_of(3, 14, 12, 5),
                        {"unet",
                         1.71362987,
                         {{"inc.double_conv.0.weight", -0.00372466828},
                          {"inc.double_conv.4.bias", -0.0161785496},
                          {"down1.maxpool_conv.1.double_conv.4.weight", -0.00182198581},
                          {"down2.maxpool_conv.1.double_conv.3.weight", -0.00094976251},
                          {"up1.conv.double_conv.0.weight", -0.100020422},
                          {"up1.conv.double_conv.4.bias", -0.00901673968},
                          {"up2.conv.double_conv.1.bias", -0.000849565453},
                          {"outc.conv.bias", -0.00071523135}},
                         {{"inc.double_conv.1.running_mean", -0.00760578003},
                          {"down1.maxpool_conv.1.double_conv.4.running_mean", 0.0270690122},
                          {"up1.conv.double_conv.1.running_mean", -0.00237809995},
                          {"up2.conv.double_conv.4.running_mean", -0.000819646485}},
                         1.61712751});
}

TEST(Vision, PresetsHaveAsManyParametersAsTheirPapersModels) {
  using Family = VisionFamily;
  const auto parameters = [](Family family, const std::string& preset, int64_t classes) {
    return build_vision(vision_preset(family, preset), {.micro_batch = 1, .classes = classes}).parameters();
  };
  // As torchvision, timm and milesial/Pytorch-UNet count them.
  EXPECT_EQ(parameters(Family::kResNet, "18", 1000), 11'689'512);
  EXPECT_EQ(parameters(Family::kResNet, "34", 1000), 21'797'672);
  EXPECT_EQ(parameters(Family::kResNet, "50", 1000), 25'557'032);
  EXPECT_EQ(parameters(Family::kResNet, "101", 1000), 44'549'160);
  EXPECT_EQ(parameters(Family::kVit, "tiny", 1000), 5'717'416);
  EXPECT_EQ(parameters(Family::kVit, "base", 1000), 86'567'656);
  EXPECT_EQ(parameters(Family::kConvNext, "tiny", 1000), 28'589'128);
  EXPECT_EQ(parameters(Family::kConvNext, "base", 1000), 88'591'464);
  EXPECT_EQ(parameters(Family::kEfficientNet, "b0", 1000), 5'288'548);
  EXPECT_EQ(parameters(Family::kEfficientNet, "b1", 1000), 7'794'184);
  EXPECT_EQ(parameters(Family::kEfficientNet, "b2", 1000), 9'109'994);
  EXPECT_EQ(parameters(Family::kEfficientNet, "b3", 1000), 12'233'232);
  EXPECT_EQ(parameters(Family::kEfficientNet, "b4", 1000), 19'341'616);
  EXPECT_EQ(parameters(Family::kUNet, "base", 2), 31'037'698);
}

TEST(Vision, FlopsAreThoseOfThePublishedNetworks) {
  const auto giga = [](VisionFamily family, const std::string& preset) {
    return build_vision(vision_preset(family, preset), {.micro_batch = 2}).flops_per_token /
           6e9;  // multiply-adds, forward
  };
  EXPECT_NEAR(giga(VisionFamily::kResNet, "18"), 1.81, 0.02);
  EXPECT_NEAR(giga(VisionFamily::kResNet, "50"), 4.09, 0.02);
  EXPECT_NEAR(giga(VisionFamily::kConvNext, "tiny"), 4.46, 0.03);
  EXPECT_NEAR(giga(VisionFamily::kEfficientNet, "b0"), 0.39, 0.01);
}

TEST(Vision, PartsNumberTheBlocksOfEveryFamily) {
  for (const auto& [family, preset, parts] : {std::tuple(VisionFamily::kResNet, "18", 8),
                                              {VisionFamily::kVit, "tiny", 12},
                                              {VisionFamily::kConvNext, "tiny", 18},
                                              {VisionFamily::kEfficientNet, "b0", 16},
                                              {VisionFamily::kUNet, "mini", 7}}) {
    const Model model =
        build_vision(vision_preset(family, preset), {.micro_batch = 2, .height = 32, .width = 32, .classes = 10});
    std::set<int32_t> indices;
    std::set<std::string> stacks;
    for (const Graph* graph : {&model.forward, &model.evaluate})
      for (const Node& node : graph->nodes())
        if (node.part.known()) indices.insert(node.part.index), stacks.insert(node.part.stack);
    EXPECT_EQ(stacks.size(), 1u) << preset;
    EXPECT_EQ(std::ssize(indices), parts) << preset;
    EXPECT_EQ(*indices.begin(), 0) << preset;
  }
}

/// Loss of a narrow network whose logits are all alike: its head is 0.
double loss_of_equal_logits(const ImageTask& task, const std::function<void(Feeds&)>& change) {
  const Model model =
      build_vision({.family = VisionFamily::kVit, .blocks = {1}, .width = 8, .patch = 4, .head_size = 4}, task);
  Feeds feeds = feeds_of(model, task);
  for (const char* name : {"head.weight", "head.bias"})
    for (int64_t i = 0; i < feeds[name].elements(); ++i) feeds[name].set(i, 0);
  change(feeds);
  return run(model.forward, feeds).at("loss").get(0);
}

TEST(Vision, SmoothedAndMixedLabelsShareTheLoss) {
  ImageTask task = task_of(3, 8, 8, 4);
  // log-softmax is (-a, -b, -b, -b) with head bias (1, 0, 0, 0).
  const double b = std::log(std::exp(1.0) + 3), a = b - 1;
  const auto feed = [&](Feeds& feeds) {
    feeds["head.bias"].set(0, 1);
    for (int64_t i = 0; i < 3; ++i) feeds["labels"].set(i, i < 2 ? 0 : -1);  // the last does not count
    if (!feeds.count("other_labels")) return;
    for (int64_t i = 0; i < 3; ++i) feeds["other_labels"].set(i, 2), feeds["label_shares"].set(i, i == 0 ? 0.75 : 1);
  };
  EXPECT_NEAR(loss_of_equal_logits(task, feed), a, 1e-6);
  task.label_smoothing = 0.2;
  EXPECT_NEAR(loss_of_equal_logits(task, feed), 0.8 * a + 0.2 * (a + 3 * b) / 4, 1e-6);
  task.label_smoothing = 0, task.mixed = true;
  EXPECT_NEAR(loss_of_equal_logits(task, feed), (0.75 * a + 0.25 * b + a) / 2, 1e-6);
}

TEST(Vision, AnEvaluationCountsTheFiveLikeliestAndUnionsOfMasks) {
  const ImageTask task = task_of(3, 8, 8, 12);
  const Model model =
      build_vision({.family = VisionFamily::kVit, .blocks = {1}, .width = 8, .patch = 4, .head_size = 4}, task);
  Feeds feeds = feeds_of(model, task);
  for (int64_t i = 0; i < feeds["head.weight"].elements(); ++i) feeds["head.weight"].set(i, 0);
  for (int64_t k = 0; k < 12; ++k) feeds["head.bias"].set(k, -static_cast<double>(k));
  for (const auto& [i, label] : {std::pair(0, 0), {1, 4}, {2, 5}}) feeds["labels"].set(i, label);
  const auto found = run(model.evaluate, feeds);
  EXPECT_EQ(found.at("correct").get(0), 1);
  EXPECT_EQ(found.at("correct5").get(0), 2);
  EXPECT_EQ(found.at("count").get(0), 3);

  ImageTask pixels = task_of(3, 4, 4, 3);
  const Model unet = build_vision({.family = VisionFamily::kUNet, .blocks = {1}, .width = 2}, pixels);
  Feeds masks = feeds_of(unet, pixels);
  for (int64_t i = 0; i < masks["outc.conv.weight"].elements(); ++i) masks["outc.conv.weight"].set(i, 0);
  for (int64_t k = 0; k < 3; ++k) masks["outc.conv.bias"].set(k, k == 1);  // every pixel is taken for class 1
  for (int64_t i = 0; i < 48; ++i) masks["masks"].set(i, i < 10 ? 1 : i < 30 ? 0 : i < 36 ? 2 : 255);
  for (const StateTensor& state : unet.states) masks[state.name] = HostTensor(state.type);
  const auto counts = run(unet.evaluate, masks);
  EXPECT_EQ(counts.at("count").get(0), 36);
  EXPECT_EQ(counts.at("correct").get(0), 10);
  for (const auto& [k, hits, both] : {std::tuple(0, 0, 20), {1, 10, 36}, {2, 0, 6}}) {
    EXPECT_EQ(counts.at("hits_" + std::to_string(k)).get(0), hits);
    EXPECT_EQ(counts.at("union_" + std::to_string(k)).get(0), both);
  }
}

TEST(Vision, SizesThatContradictEachOtherAreRefused) {
  const auto error = [](const VisionConfig& config, const ImageTask& task) {
    return error_of([&] { build_vision(config, task); });
  };
  EXPECT_THAT(error({.blocks = {2, 2}}, {}),
              HasSubstr("model.blocks: the numbers of blocks of a resnet; found 2; expected 4"));
  EXPECT_THAT(error({.family = VisionFamily::kVit, .blocks = {2}, .width = 64}, {.height = 30}),
              HasSubstr("model.patch: patches must cover"));
  EXPECT_THAT(error({.family = VisionFamily::kVit, .blocks = {2}, .width = 65}, {}), HasSubstr("model.head_size"));
  EXPECT_THAT(error({.family = VisionFamily::kUNet, .blocks = {9}}, {.classes = 4}),
              HasSubstr("cannot be halved so often"));
  EXPECT_THAT(error({.family = VisionFamily::kUNet, .blocks = {2}}, {.classes = 300}), HasSubstr("2 to 255"));
  EXPECT_THAT(error({}, {.mean = {0.5, 0.5}}), HasSubstr("data.mean: one number for each channel"));
  EXPECT_THAT(error({}, {.deviation = {0}}), HasSubstr("data.deviation: a deviation must be above 0"));
  EXPECT_THAT(error_of([] { vision_preset(VisionFamily::kResNet, "19"); }),
              HasSubstr("model.preset: unknown preset of resnet; found '19'; expected one of 18, 34, 50, 101, 152"));
}

}  // namespace
}  // namespace ramet::tests

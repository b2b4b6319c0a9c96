// The commands on networks for images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "ramet/weights/safetensors.h"
#include "support/small_arrays.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ImagesCli : public ::testing::Test {
 protected:
  ImagesCli() {
    save_images("train.npz", 32);
    save_images("test.npz", 12);
    write_file_atomic(folder_ / "small.toml", R"([model]
kind = "resnet"
blocks = "1,1,1,1"
width = 8
[data]
kind = "arrays"
train = "train.npz"
held_out = "test.npz"
[data.augment]
pad = 1
flip = 0.5
[train]
steps = 6
micro_batch = 4
accumulation = 2
lanes = 2
chunks = 2
precision = "f32"
[train.checkpoint]
every = 2
)");
  }
  /// Images of two shades in eight classes, channels last.
  void save_images(const std::string& name, int64_t count) {
    std::vector<uint8_t> pixels;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<int32_t>(i % 8));
      for (int64_t k = 0; k < 10 * 9 * 3; ++k) pixels.push_back(static_cast<uint8_t>(30 * (i % 8) + k % 7));
    }
    save_npz(folder_ / name, {array_of("images", DType::kU8, {count, 10, 9, 3}, pixels),
                              array_of("labels", DType::kI32, {count}, labels)});
  }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  /// Expects success; the last line as JSON.
  json told(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line(), nullptr, false);
  }
  TemporaryFolder folder_;
};

TEST_F(ImagesCli, TrainsResumesEvaluatesAndExports) {
  const json whole = told({"train", "small.toml", "--run", "whole"});
  EXPECT_EQ(whole["steps"], 6);
  EXPECT_GT(whole["images_per_second"].get<double>(), 0);
  EXPECT_TRUE(whole.contains("held_out_accuracy"));
  EXPECT_TRUE(whole.contains("held_out_accuracy_of_5"));
  told({"train", "small.toml", "--run", "half", "--steps", "3"});
  const json resumed = told({"train", "--resume", "half", "--layout", "p=2"});
  EXPECT_EQ(resumed["weights_hash"], whole["weights_hash"]);
  EXPECT_EQ(resumed["held_out_loss"], whole["held_out_loss"]);
  EXPECT_EQ(told({"eval", "whole"})["held_out_loss"], whole["held_out_loss"]);
  EXPECT_EQ(ramet({"export", "whole", "--out", "weights.safetensors"}).status, 0);
  std::set<std::string> names;
  const SafetensorsReader weights(folder_ / "weights.safetensors");
  for (const auto& entry : weights.tensors()) names.insert(entry.name);
  for (const char* name : {"conv1.weight", "bn1.running_var", "layer2.0.downsample.1.running_mean", "fc.bias"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_EQ(told({"eval", "small.toml", "--set", "model.init_from=weights.safetensors"})["held_out_loss"],
            whole["held_out_loss"]);
  EXPECT_THAT(ramet({"export", "whole", "--out", "folder"}).err,
              HasSubstr("no class of transformers has this network"));
}

TEST_F(ImagesCli, PredictsOfArraysOfAnyFormAndBatch) {
  told({"train", "small.toml", "--run", "run", "--steps", "2"});
  const json predicted = told({"predict", "run", "--in", "test.npz", "--out", "results.npz"});
  EXPECT_EQ(predicted["samples"], 12);
  EXPECT_EQ(predicted["results"], json({"classes", "probabilities"}));
  for (const ArrayColumn& column : open_npz(folder_ / "results.npz"))
    EXPECT_EQ(column.shape, column.name == "classes" ? Shape({12}) : Shape({12, 8}));
  // The same images with channels in front, one sample fewer than whole batches have.
  std::vector<uint8_t> pixels(11 * 3 * 10 * 9);
  const auto arrays = open_npz(folder_ / "test.npz");
  for (int64_t n = 0; n < 11; ++n)
    for (int64_t k = 0; k < 90; ++k)
      for (int64_t c = 0; c < 3; ++c)
        pixels[static_cast<size_t>((n * 3 + c) * 90 + k)] = static_cast<uint8_t>(arrays[0].data[(n * 90 + k) * 3 + c]);
  save_npz(folder_ / "first.npz", {array_of("images", DType::kU8, {11, 3, 10, 9}, pixels)});
  told({"predict", "run", "--in", "first.npz", "--out", "again.npz"});
  const auto one = open_npz(folder_ / "results.npz"), other = open_npz(folder_ / "again.npz");
  for (size_t i = 0; i < one.size(); ++i) {
    const auto bytes =
        static_cast<size_t>(other[i].shape.elements()) * static_cast<size_t>(stored_size(other[i].stored));
    EXPECT_EQ(std::memcmp(one[i].data, other[i].data, bytes), 0) << one[i].name;
  }
  EXPECT_THAT(ramet({"predict", "run", "--in", "small.toml", "--out", "x.npz"}).err, HasSubstr("small.toml"));
  save_npz(folder_ / "grey.npz", {array_of("images", DType::kU8, {2, 10, 9}, std::vector<uint8_t>(180))});
  EXPECT_THAT(
      ramet({"predict", "run", "--in", "grey.npz", "--out", "x.npz"}).err,
      HasSubstr("grey.npz: the images have another number of channels than the model reads; found 1; expected 3"));
}

TEST_F(ImagesCli, PlansSimulatesAndMeasures) {
  const json plan = told({"plan", "small.toml", "--no-time"});
  EXPECT_EQ(plan["images_per_step"], 8);
  EXPECT_GT(
      told({"simulate", "small.toml", "--machine", "dgx-a100", "--layout", "p=2"})["images_per_second"].get<double>(),
      0);
  EXPECT_GT(told({"bench", "small.toml", "--batch", "3", "--seconds", "0"})["samples_per_second"].get<double>(), 0);
}

}  // namespace
}  // namespace ramet::tests

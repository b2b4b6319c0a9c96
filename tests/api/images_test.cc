// Ops of images as a user sees them, in training on layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <cmath>

#include "support/errors.h"

namespace ramet::tests {
namespace {

constexpr int64_t kBatch = 4, kWidth = 8;

/// Rows become images, which are resized and read at positions that the rows choose.
Model images_model(const std::string& mode) {
  ModelBuilder m("images");
  const Tensor x = m.input("rows", DType::kF32, {kBatch, kWidth}), wanted = m.input("wanted", DType::kF32, {kBatch});
  const Tensor up = m.weight("up", {32, kWidth}, Init::normal(0.5), {.axes = {"mlp", "embed"}});
  const Tensor image = reshape(matmul(x, up, false, true), {kBatch, 8, 2, 2});
  const Tensor larger = resize(image, {5, 3}, {.mode = mode});
  const Tensor theta = linear(x, m.weight("where", {6, kWidth}, Init::normal(0.3)), m.weight("bias", {6}));
  const Tensor grid = affine_grid(reshape(theta, {kBatch, 2, 3}), {4, 4});
  const Tensor read = grid_sample(larger, grid, {.padding = "reflection"});
  const Tensor shuffled = pixel_unshuffle(pixel_shuffle(read, 2), 2);
  const PatchOptions patches{.taps = {2, 2}, .low = {1, 1}};
  const Tensor again = col2im(im2col(channel_shuffle(shuffled, 4), patches), {4, 4}, patches);
  const Tensor off = reduce_mean(again * again, {1, 2, 3}) - wanted;
  m.loss(reduce_mean(off * off));
  return m.build();
}

TEST(Images, TrainingGivesTheSameBitsOnAnyLayout) {
  std::vector<float> rows, wanted;
  for (int i = 0; i < 16 * kWidth; ++i) rows.push_back(static_cast<float>(std::sin(i * 1.7)));
  for (int i = 0; i < 16; ++i) wanted.push_back(static_cast<float>(std::cos(i)));
  for (const char* mode : {"nearest", "linear", "bicubic"}) {
    std::string expected;
    for (const char* layout : {"", "t=2", "r=2", "t=2 r=2"}) {
      SCOPED_TRACE(std::string(mode) + " on " + layout);
      Training training(images_model(mode), {.schedule = {.learning_rate = 0.01},
                                             .micro_batches = 4,
                                             .lanes = 4,
                                             .chunks = 4,
                                             .layout = layout,
                                             .threads = 2});
      const std::string before = training.weights_hash();
      for (int step = 0; step < 2; ++step) training.step({{"rows", rows}, {"wanted", wanted}});
      EXPECT_NE(training.weights_hash(), before);
      if (expected.empty()) expected = training.weights_hash();
      EXPECT_EQ(training.weights_hash(), expected);
    }
  }
}

TEST(Images, RefusalsNameTheUsersLine) {
  ModelBuilder m("images");
  const Tensor image = m.input("image", DType::kF32, {1, 3, 4, 4});
  EXPECT_THAT(error_of([&] { resize(image, {8}); }), testing::HasSubstr("images_test.cc"));
  EXPECT_THAT(error_of([&] { resize(image, {8, 8}, {.mode = "area"}); }),
              testing::HasSubstr("unknown mode of resizing"));
  EXPECT_THAT(error_of([&] { pixel_shuffle(image, 2); }), testing::HasSubstr("the factor does not fit"));
}

}  // namespace
}  // namespace ramet::tests

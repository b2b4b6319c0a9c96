// Losses and random numbers as a user sees them: nothing here includes a header of src/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <cmath>

namespace ramet::tests {
namespace {

constexpr int64_t kSamples = 8, kFeatures = 6, kClasses = 4;

/// Two parts with dropped paths and noise, and a loss of smoothed and weighted classes.
Model noisy_model() {
  ModelBuilder m("noisy");
  Tensor x = m.input("x", DType::kF32, {kSamples, kFeatures});
  const Tensor labels = m.input("labels", DType::kI32, {kSamples});
  const Tensor image = m.input("image", DType::kU8, {kSamples, kFeatures});
  x = x + scale(cast(image, DType::kF32), 1.0 / 255);
  for (int i = 0; i < 2; ++i) {
    PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up", {16, kFeatures}, Init::fan_in(), {.axes = {"mlp", "embed"}});
    const Tensor down = m.weight(name + ".down", {kFeatures, 16}, Init::fan_in(), {.axes = {"embed", "mlp"}});
    x = x + drop_path(matmul(mish(matmul(x, up, false, true)), down, false, true), 0.3);
    x = x + scale(random_normal(x), 0.05);
  }
  const Tensor logits =
      linear(x, m.weight("head", {kClasses, kFeatures}, Init::fan_in()), m.weight("bias", {kClasses}));
  const Tensor weight = m.full(DType::kF32, {kClasses}, 1.5);
  m.loss(cross_entropy_loss(logits, labels, weight, {.label_smoothing = 0.1}));
  m.output("logits", logits);
  return m.build();
}

struct Batch {
  std::vector<float> x;
  std::vector<int32_t> labels;
  std::vector<uint8_t> image;
  explicit Batch(int64_t count) {
    for (int64_t i = 0; i < count * kFeatures; ++i) {
      x.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 2.3)));
      image.push_back(static_cast<uint8_t>(i * 37 % 256));
    }
    for (int64_t i = 0; i < count; ++i) labels.push_back(i % 5 == 4 ? -100 : static_cast<int32_t>(i % kClasses));
  }
  NamedViews views() const { return {{"x", x}, {"labels", labels}, {"image", image}}; }
};

TEST(Ops, RandomNumbersAndLossesAreTheSameOnAnyLayout) {
  std::string hash;
  std::vector<double> losses;
  for (const char* layout : {"", "p=2", "r=2", "t=2", "recompute=layer"}) {
    SCOPED_TRACE(layout);
    Training training(noisy_model(), {.schedule = {.learning_rate = 0.01},
                                      .micro_batches = 4,
                                      .lanes = 4,
                                      .chunks = 2,
                                      .layout = layout,
                                      .threads = 2});
    std::vector<double> now;
    for (int step = 0; step < 3; ++step) now.push_back(training.step(Batch(4 * kSamples).views()).loss);
    if (hash.empty()) hash = training.weights_hash(), losses = now;
    EXPECT_EQ(training.weights_hash(), hash);
    EXPECT_EQ(now, losses);
  }
  EXPECT_GT(losses[0], 0);
}

TEST(Ops, EvaluationsHaveNoNoise) {
  Training training(noisy_model(), {.schedule = {.learning_rate = 0.01}, .micro_batches = 1});
  const Metrics first = training.evaluate(Batch(kSamples).views()), second = training.evaluate(Batch(kSamples).views());
  EXPECT_EQ(first["loss"], second["loss"]);
}

TEST(Ops, ComplexNumbersAreRefusedByName) {
  try {
    dtype_from_name("complex64");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("complex numbers are not supported"));
  }
}

}  // namespace
}  // namespace ramet::tests

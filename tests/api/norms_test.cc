// Norms and pooling of the library: nothing here includes a header of src/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <cmath>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kWidth = 6, kSize = 5;

/// Images [kBatch, kSize, kSize, kWidth] through every norm and pooling; a program reads the running statistics.
Model images_model() {
  ModelBuilder m("images");
  Tensor x = m.input("images", DType::kF32, {kBatch, kSize, kSize, kWidth});
  for (int i = 0; i < 2; ++i) {
    const PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up", {8, kWidth}, Init::fan_in(), {.axes = {"mlp", "embed"}});
    const Tensor down = m.weight(name + ".down", {kWidth, 8}, Init::fan_in(), {.axes = {"embed", "mlp"}});
    Tensor wide = matmul(x, up, false, true);
    wide = relu(batch_norm_layer(m, wide, name + ".norm", {.channels_last = true, .axis = "mlp"}));
    const PoolOptions window{.taps = {3, 3}, .strides = {1, 1}, .low = {1, 1}, .high = {1, 1}, .channels_last = true};
    wide = i == 0 ? max_pool(wide, window) : average_pool(wide, window);
    x = x + matmul(wide, down, false, true);
  }
  x = group_norm(x, m.weight("gain", {kWidth}, Init::constant(1)), m.weight("bias", {kWidth}), 2, 1e-5, true);
  x = instance_norm(local_response_norm(x, 3, 1e-2, 0.75, 1, true), Tensor(), Tensor(), 1e-3, true);
  const Tensor pooled = reshape(global_average_pool(x * x, true), {kBatch, kWidth});
  m.loss(reduce_mean(pooled * reshape(global_max_pool(x, true), {kBatch, kWidth})));
  m.output("pooled", reshape(adaptive_max_pool(x, {1, 1}, true), {kBatch, kWidth}));
  m.program("statistics", When::on_request(), [](ProgramBuilder& p) {
    p.output("mean", p.state("layer0.norm.running_mean"));
    p.output("variance", p.state("layer0.norm.running_var"));
  });
  return m.build();
}

struct Images {
  std::vector<float> numbers;
  explicit Images(int64_t first) {
    const int64_t of_step = 4 * kBatch * kSize * kSize * kWidth;
    for (int64_t i = 0; i < of_step; ++i)
      numbers.push_back(static_cast<float>(0.5 + std::sin(static_cast<double>(first * of_step + i) * 1.7)));
  }
  NamedViews views() const { return {{"images", numbers}}; }
};

TEST(LibraryNorms, HaveTheSameBitsOnAnyLayout) {
  const Model model = images_model();
  EXPECT_EQ(model.type_of("layer1.norm.running_var"), (TensorType{DType::kF32, {8}}));
  EXPECT_THAT(model.weights(), ::testing::Contains("layer0.norm.weight"));
  std::string hash;
  std::vector<float> mean;
  for (const char* layout : {"", "p=2", "t=2", "r=2 rts=optimizer"}) {
    SCOPED_TRACE(layout);
    Training training(model, {.schedule = {.learning_rate = 0.01},
                              .micro_batches = 4,
                              .lanes = 2,
                              .chunks = 2,
                              .layout = layout,
                              .threads = 1});
    for (int64_t step = 0; step < 2; ++step) training.step(Images(step).views());
    if (hash.empty()) hash = training.weights_hash();
    EXPECT_EQ(training.weights_hash(), hash);
    const std::vector<float> now = training.run("statistics")["mean"].floats();
    if (mean.empty()) mean = now;
    EXPECT_EQ(now, mean);
    EXPECT_NE(now, std::vector<float>(8, 0.0f)) << "what micro-batches gave was folded";
  }
}

TEST(LibraryNorms, SayWhatIsWrongAndWhere) {
  ModelBuilder m("wrong");
  const Tensor x = m.input("x", DType::kF32, {1, 3}), y = m.input("y", DType::kF32, {1});
  const int line = __LINE__ + 1;
  EXPECT_THAT(error_of([&] { batch_norm_layer(m, x, "norm"); }),
              AllOf(HasSubstr("one element in each channel"), HasSubstr("norms_test.cc:" + std::to_string(line))));
  EXPECT_THAT(error_of([&] { batch_norm_layer(m, y, "other"); }), HasSubstr("has no channels"));
  EXPECT_THAT(error_of([&] { max_pool(x, {.taps = {2}}); }), HasSubstr("wrong rank"));
}

}  // namespace
}  // namespace ramet::tests

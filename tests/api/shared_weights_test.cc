// Weights that several layers read, as a user sees them: nothing here includes a header of src/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <cmath>
#include <functional>

namespace ramet::tests {
namespace {

constexpr int64_t kSamples = 4, kFeatures = 8, kPlaces = 6;
constexpr int kLayers = 3;

struct Batch {
  std::vector<float> x, y;
  explicit Batch(int64_t samples) {
    for (int64_t i = 0; i < samples * kFeatures; ++i) {
      x.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7)));
      y.push_back(static_cast<float>(std::cos(static_cast<double>(i) * 0.9)));
    }
  }
  NamedViews views() const { return {{"x", x}, {"y", y}}; }
};

/// A model of layers with a mean squared error; `layer(m, x, i)` is what layer i adds to x.
template <typename Layer>
Model model_of(const Layer& layer) {
  ModelBuilder m("shared");
  Tensor x = m.input("x", DType::kF32, {kSamples, kFeatures});
  const Tensor y = m.input("y", DType::kF32, {kSamples, kFeatures});
  const auto weigh = layer(m);
  for (int i = 0; i < kLayers; ++i) {
    const PartScope part(m, "layer", i);
    x = x + weigh(x, i);
  }
  const Tensor difference = x - y;
  m.loss(reduce_mean(difference * difference));
  return m.build();
}

/// DeBERTa's relative positions: each layer multiplies the one table of positions by a weight of its own. The product,
/// and the norm of the table, depend on weights alone.
Model table_of_positions() {
  return model_of([](ModelBuilder& m) {
    const Tensor table = m.weight("table", {kPlaces, kFeatures}, Init::normal(0.5));
    const Tensor gain = m.weight("gain", {kFeatures}, Init::constant(1)),
                 bias = m.weight("bias", {kFeatures}, Init::constant(0.1));
    const Tensor normal = layer_norm(table, gain, bias);
    return [&m, normal](const Tensor& x, int i) {
      const std::string name = "layer" + std::to_string(i);
      const Tensor own = m.weight(name + ".position", {kFeatures, kFeatures}, Init::normal(0.3)),
                   back = m.weight(name + ".back", {kFeatures, kPlaces}, Init::normal(0.3));
      const Tensor places = matmul(normal, own, false, true);
      return matmul(tanh(matmul(x, places, false, true)), back, false, true);
    };
  });
}

/// ALBERT: every layer has the same weights.
Model one_layer_for_all() {
  return model_of([](ModelBuilder& m) {
    const Tensor up = m.weight("up", {16, kFeatures}, Init::normal(0.3)),
                 down = m.weight("down", {kFeatures, 16}, Init::normal(0.3));
    return [up, down](const Tensor& x, int) { return matmul(tanh(matmul(x, up, false, true)), down, false, true); };
  });
}

void expect_equal_bits(const std::function<Model()>& make, Precision precision,
                       const std::vector<const char*>& layouts) {
  std::string hash;
  std::vector<double> losses;
  for (const char* layout : layouts) {
    SCOPED_TRACE(layout);
    Training training(make(), {.schedule = {.learning_rate = 0.01},
                               .precision = precision,
                               .micro_batches = 4,
                               .lanes = 2,
                               .chunks = 2,
                               .layout = layout,
                               .threads = 2});
    std::vector<double> now;
    for (int step = 0; step < 3; ++step) now.push_back(training.step(Batch(4 * kSamples).views()).loss);
    now.push_back(training.evaluate(Batch(kSamples).views())["loss"]);
    if (hash.empty()) hash = training.weights_hash(), losses = now;
    EXPECT_EQ(training.weights_hash(), hash);
    EXPECT_EQ(now, losses);
  }
  EXPECT_LT(losses[2], losses[0]);
}

void expect_equal_bits(const std::function<Model()>& make) {
  expect_equal_bits(make, Precision::kF32,
                    {"", "p=2", "p=3", "p=2 schedule=zero-bubble", "p=2 r=2 rts=weights,grads,optimizer", "p=2 t=2",
                     "phases=3 offload=optimizer", "p=3 recompute=layer"});
  expect_equal_bits(make, Precision::kBF16, {"", "p=2", "p=3"});
}

TEST(SharedWeights, ProductsOfWeightsOfSeveralStagesHaveTheBitsOfOneDevice) { expect_equal_bits(table_of_positions); }

TEST(SharedWeights, ALayerThatStandsOnEveryStageHasTheBitsOfOneDevice) { expect_equal_bits(one_layer_for_all); }

}  // namespace
}  // namespace ramet::tests

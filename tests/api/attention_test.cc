// Attention of many kinds through the public headers alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <cmath>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 2, kLength = 6, kWidth = 8, kHeads = 4, kSize = 4;

Tensor heads(ModelBuilder& m, Tensor x, const std::string& name, int64_t count) {
  const Tensor weight = m.weight(name, {count * kSize, kWidth}, Init::normal(0.4), {.axes = {"heads", "embed"}});
  return reshape(matmul(x, weight, false, true), {kBatch, kLength, count, kSize});
}

/// One layer of grouped heads with rotary positions, ALiBi, T5's bias and a window, or of Swin's bias.
Model attention_model(bool window) {
  ModelBuilder m("attention");
  const Tensor x = m.input("x", DType::kF32, {kBatch, kLength, kWidth});
  const Tensor key = heads(m, x, "key", 2), value = heads(m, x, "value", 2);
  Tensor mixed;
  if (window) {
    ScoreOptions scores;
    scores.bias =
        t5_bias(m.weight("table", {8, kHeads}, Init::normal(0.4), {.axes = {"", "heads"}}), kLength, kLength, true);
    scores.alibi = true, scores.window_left = 3, scores.soft_cap = 4;
    mixed = attention_with(rotary(heads(m, x, "query", kHeads)), rotary(key), value, scores,
                           {.causal = true, .dropout = 0.1});
  } else {
    ScoreOptions scores;
    scores.bias = swin_bias(m.weight("table", {15, kHeads}, Init::normal(0.4), {.axes = {"", "heads"}}), 2, 3);
    mixed = attention_with(heads(m, x, "query", kHeads), key, value, scores);
  }
  m.loss(reduce_mean(mixed * mixed));
  m.output("mixed", mixed);
  return m.build();
}

std::vector<float> waves(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7)));
  return values;
}

TEST(LibraryAttention, OfManyKindsHasTheSameBitsOnAnyLayout) {
  for (bool window : {false, true}) {
    std::string hash;
    std::vector<float> mixed;
    for (const char* layout : {"", "t=2", "r=2"}) {
      SCOPED_TRACE(layout);
      Training training(attention_model(window), {.schedule = {.learning_rate = 0.01},
                                                  .micro_batches = 2,
                                                  .lanes = 2,
                                                  .chunks = 2,
                                                  .layout = layout,
                                                  .threads = 2});
      const std::vector<float> x = waves(2 * kBatch * kLength * kWidth);
      const double before = training.step({{"x", x}}).loss, after = training.step({{"x", x}}).loss;
      EXPECT_LT(after, before);
      const auto found = training.predict({{"x", x}})["mixed"].floats();
      if (hash.empty()) hash = training.weights_hash(), mixed.assign(found.begin(), found.end());
      EXPECT_EQ(training.weights_hash(), hash);
      EXPECT_EQ(std::vector<float>(found.begin(), found.end()), mixed);
    }
  }
}

/// With the identity as values, the output holds the probabilities: far keys get less, hidden ones nothing.
TEST(LibraryAttention, SlopesAndWindowsShowInTheProbabilities) {
  ModelBuilder m("probabilities");
  const Tensor x = m.input("x", DType::kF32, {1, 4, 1, 4});
  const Tensor zero = m.full(DType::kF32, {1, 4, 1, 4}, 0);
  m.loss(reduce_mean(x * m.weight("factor", {1})));
  m.output("alibi", attention_with(zero, zero, x, {.alibi = true}, {.causal = true}));
  m.output("window", attention_with(zero, zero, x, {.window_left = 1}, {.causal = true}));
  Training training(m.build(), {});
  const std::vector<float> identity{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  const auto result = training.predict({{"x", identity}});
  const auto window = result["window"].floats(), alibi = result["alibi"].floats();
  EXPECT_THAT(std::vector<float>(window.begin() + 12, window.end()), testing::ElementsAre(0, 0, 0.5f, 0.5f));
  // One head has the slope 2^-8.
  for (int64_t i = 13; i < 16; ++i)
    EXPECT_NEAR(std::log(alibi[static_cast<size_t>(i)] / alibi[static_cast<size_t>(i - 1)]), 1.0 / 256, 1e-5);
}

TEST(LibraryAttention, ErrorsNameTheUsersLine) {
  ModelBuilder m("errors");
  const Tensor x = m.input("x", DType::kF32, {1, 6, 2, 4}), table = m.weight("table", {15, 2});
  EXPECT_THAT(error_of([&] { swin_bias(table, 3, 3); }),
              AllOf(HasSubstr("attention_test.cc"), HasSubstr("found f32[15,2]; expected [25,heads]")));
  EXPECT_THAT(error_of([&] { attention_with(x, x, x, {.bias = table}); }),
              AllOf(HasSubstr("attention_test.cc"), HasSubstr("the bias has the wrong type")));
  EXPECT_THAT(error_of([&] { rotary(table); }), HasSubstr("rotary positions need queries or keys"));
}

}  // namespace
}  // namespace ramet::tests

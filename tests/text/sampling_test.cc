// How tokens are chosen, against distributions computed by hand.
#include "ramet/text/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Logits whose softmax is 0.5, 0.25, 0.125, 0.0625, 0.0625.
std::vector<float> halves() {
  std::vector<float> logits;
  for (const double share : {0.5, 0.25, 0.125, 0.0625, 0.0625}) logits.push_back(static_cast<float>(std::log(share)));
  return logits;
}

std::map<int32_t, double> chances(const std::vector<float>& logits, const SamplingOptions& options,
                                  const std::vector<int32_t>& context = {}) {
  std::map<int32_t, double> result;
  for (const TokenChance& chance : next_token_chances(logits, context, options))
    result[chance.token] = chance.probability;
  return result;
}

void expect_chances(const std::map<int32_t, double>& found, const std::map<int32_t, double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [token, chance] : wanted) {
    ASSERT_TRUE(found.count(token)) << token;
    EXPECT_NEAR(found.at(token), chance, 1e-6) << token;
  }
}

TEST(Sampling, GreedyTakesTheLikeliestAndOfEqualsTheFirst) {
  expect_chances(chances(halves(), {}), {{0, 1}});
  expect_chances(chances({1, 3, 3, 2}, {}), {{1, 1}});
  EXPECT_EQ(next_token(std::vector<float>{1, 3, 3, 2}, {}, {}, 0, 0), 1);
}

TEST(Sampling, TemperatureFlattensAndSharpens) {
  expect_chances(chances(halves(), {.temperature = 1}), {{0, 0.5}, {1, 0.25}, {2, 0.125}, {3, 0.0625}, {4, 0.0625}});
  // Shares to the power of 2: 1/4, 1/16, 1/64, 1/256, 1/256, of a sum of 86/256.
  expect_chances(chances(halves(), {.temperature = 0.5}),
                 {{0, 64.0 / 86}, {1, 16.0 / 86}, {2, 4.0 / 86}, {3, 1.0 / 86}, {4, 1.0 / 86}});
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  expect_chances(chances(halves(), {.temperature = 1, .top_k = 2}), {{0, 2.0 / 3}, {1, 1.0 / 3}});
  expect_chances(chances(halves(), {.temperature = 1, .top_k = 4}),
                 {{0, 8.0 / 15}, {1, 4.0 / 15}, {2, 2.0 / 15}, {3, 1.0 / 15}});  // of two equals the first
  expect_chances(chances({0, 0, 0}, {.temperature = 1, .top_k = 9}), {{0, 1.0 / 3}, {1, 1.0 / 3}, {2, 1.0 / 3}});
}

TEST(Sampling, TopPKeepsTheFewestThatReachTheShare) {
  const auto kept = [&](double share) { return chances(halves(), {.temperature = 1, .top_p = share}); };
  expect_chances(kept(0.4), {{0, 1}});
  expect_chances(kept(0.6), {{0, 2.0 / 3}, {1, 1.0 / 3}});
  expect_chances(kept(0.8), {{0, 4.0 / 7}, {1, 2.0 / 7}, {2, 1.0 / 7}});
  // Behind top_k the shares are those of what is left: 2/3 is less than 0.7.
  expect_chances(chances(halves(), {.temperature = 1, .top_k = 2, .top_p = 0.7}), {{0, 2.0 / 3}, {1, 1.0 / 3}});
  expect_chances(chances(halves(), {.temperature = 1, .top_k = 2, .top_p = 0.6}), {{0, 1}});
}

TEST(Sampling, RepetitionPenaltyLowersWhatTheTextHolds) {
  // 2 / 2 = 1 and -1 * 2 = -2, however often a token stands in the text.
  const std::vector<float> logits = {2, -1, 0.5};
  const double sum = std::exp(1.0) + std::exp(-2.0) + std::exp(0.5);
  expect_chances(chances(logits, {.temperature = 1, .repetition_penalty = 2}, {0, 1, 0}),
                 {{0, std::exp(1.0) / sum}, {1, std::exp(-2.0) / sum}, {2, std::exp(0.5) / sum}});
  expect_chances(chances({2, 1.5}, {.repetition_penalty = 2}, {0}), {{1, 1}});
}

TEST(Sampling, NeverTakesWhatHasNoChance) {
  const float none = -std::numeric_limits<float>::infinity(), nan = std::nanf("");
  expect_chances(chances({none, 1, nan, 1}, {.temperature = 1}), {{1, 0.5}, {3, 0.5}});
  EXPECT_THAT(error_of([&] { next_token(std::vector<float>{none, nan}, {}, {}, 0, 0); }),
              HasSubstr("the model gives no token a chance"));
}

TEST(Sampling, DrawsAsOftenAsTheChancesSay) {
  const SamplingOptions options{.temperature = 1, .seed = 7};
  std::map<int32_t, int> counts;
  constexpr int kDraws = 16000;
  for (int64_t position = 0; position < kDraws; ++position) ++counts[next_token(halves(), {}, options, 3, position)];
  for (const auto& [token, chance] : chances(halves(), options)) {
    const double deviation = std::sqrt(kDraws * chance * (1 - chance));
    EXPECT_NEAR(counts[token], kDraws * chance, 4 * deviation) << token;
  }
}

TEST(Sampling, ADrawIsAFunctionOfSeedTextAndPosition) {
  const std::vector<float> even(1000, 0);
  const auto draw = [&](uint64_t seed, int64_t text, int64_t position) {
    return next_token(even, {}, {.temperature = 1, .seed = seed}, text, position);
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(Sampling, RefusesOptionsOutOfRange) {
  const auto refused = [](const SamplingOptions& options) { return error_of([&] { check_sampling(options); }); };
  EXPECT_THAT(refused({.temperature = -1}), HasSubstr("temperature"));
  EXPECT_THAT(refused({.top_k = -1}), HasSubstr("top_k"));
  EXPECT_THAT(refused({.top_p = 0}), HasSubstr("top_p"));
  EXPECT_THAT(refused({.top_p = 1.1}), HasSubstr("found 1.1"));
  EXPECT_THAT(refused({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_EQ(refused({}), "no error");
}

}  // namespace
}  // namespace ramet::tests

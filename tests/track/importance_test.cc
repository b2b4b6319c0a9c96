#include "ramet/track/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ramet::tests {
namespace {

using Config = std::vector<std::pair<std::string, FieldValue>>;

TEST(Importance, RankCorrelationIsSpearmans) {
  // R: cor(c(1,2,3,4,5), c(5,6,7,8,7), method = "spearman") = 0.8207827
  const double x[] = {1, 2, 3, 4, 5}, y[] = {5, 6, 7, 8, 7}, constant[] = {1, 1, 1, 1, 1};
  EXPECT_NEAR(rank_correlation(x, y), 0.8207826816681233, 1e-12);
  const double down[] = {9, 7, 5, 3, -100};
  EXPECT_NEAR(rank_correlation(x, down), -1, 1e-12);
  EXPECT_TRUE(std::isnan(rank_correlation(x, constant)));
}

TEST(Importance, FindsTheKeysThatDecide) {
  std::mt19937_64 random(7);
  std::vector<Config> configs;
  std::vector<double> results;
  for (int i = 0; i < 200; ++i) {
    const auto rate = static_cast<double>(random() % 1000) / 1000, noise = static_cast<double>(random() % 1000) / 1000;
    const std::string kind = std::vector<std::string>{"adamw", "lamb", "sgd"}[random() % 3];
    Config config = {{"constant", int64_t{3}}, {"kind", kind}, {"noise", noise}, {"rate", rate}};
    if (i % 10 == 0) config.emplace_back("rare", true);
    configs.push_back(config);
    results.push_back(-2 * rate + (kind == "lamb" ? 1.5 : 0) + 0.05 * noise);
  }
  const auto keys = importance_of(configs, results);
  ASSERT_EQ(keys.size(), 4u);  // not the constant one
  double sum = 0;
  for (const auto& key : keys) sum += key.importance;
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_TRUE((keys[0].key == "kind" && keys[1].key == "rate") || (keys[0].key == "rate" && keys[1].key == "kind"));
  EXPECT_GT(keys[1].importance, 5 * keys[2].importance);
  for (const auto& key : keys) {
    if (key.key == "rate") {
      EXPECT_LT(key.correlation, -0.5);
    }
    if (key.key == "kind") {
      EXPECT_TRUE(std::isnan(key.correlation));
    }
    if (key.key == "rare") {
      EXPECT_EQ(key.runs, 20);
    }
  }
  EXPECT_EQ(importance_of(configs, results)[0].importance, keys[0].importance);
  EXPECT_TRUE(importance_of({{}, {}}, {1, 2}).empty());
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ramet {
namespace {

Recipe recipe_of(const std::string& kind, int64_t steps, int64_t warmup, double peak, double end = 0,
                 double power = 1) {
  Recipe recipe;
  recipe.train.steps = steps;
  recipe.schedule.kind = kind;
  recipe.schedule.warmup_steps = warmup;
  recipe.schedule.learning_rate = peak;
  recipe.schedule.end = end;
  recipe.schedule.power = power;
  return recipe;
}

TEST(Schedule, WarmsUpInALine) {
  const Recipe recipe = recipe_of("linear", 100, 9, 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 8), 0.9);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 9), 1.0);
}

TEST(Schedule, Linear) {
  const Recipe recipe = recipe_of("linear", 110, 10, 2.0, 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 10), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 35), 1.75);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 109), 1.01);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 110), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 100000), 1.0);
}

TEST(Schedule, Cosine) {
  const Recipe recipe = recipe_of("cosine", 120, 0, 1.0, 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0), 1.0);
  EXPECT_NEAR(learning_rate_at(recipe, 40), 0.1 + 0.9 * 0.75, 1e-15);  // cos(pi/3) = 1/2
  EXPECT_NEAR(learning_rate_at(recipe, 60), 0.55, 1e-15);
  EXPECT_NEAR(learning_rate_at(recipe, 80), 0.1 + 0.9 * 0.25, 1e-15);
  EXPECT_NEAR(learning_rate_at(recipe, 120), 0.1, 1e-15);
  for (int step = 0; step <= 120; ++step)
    EXPECT_NEAR(learning_rate_at(recipe, step), 0.1 + 0.45 * (1 + std::cos(M_PI * step / 120.0)), 1e-14);
}

TEST(Schedule, Polynomial) {
  const Recipe recipe = recipe_of("polynomial", 100, 0, 4.0, 0.0, 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0), 4.0);
  EXPECT_NEAR(learning_rate_at(recipe, 75), 2.0, 1e-14);  // sqrt(1/4) = 1/2
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 100), 0.0);
  for (const double power : {0.1, 0.5, 2.0, 3.5, 20.0})
    for (int step = 0; step < 100; ++step)
      EXPECT_NEAR(learning_rate_at(recipe_of("polynomial", 100, 0, 4.0, 0.0, power), step),
                  4 * std::pow(1 - step / 100.0, power), 1e-13)
          << power << " " << step;
}

TEST(Schedule, ConstantAndItsOwnLength) {
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe_of("constant", 10, 2, 0.5), 7), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe_of("constant", 10, 3, 0.5), 0), 0.125);
  Recipe recipe = recipe_of("linear", 10, 0, 1.0);
  recipe.schedule.steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe_of("linear", 5, 8, 1.0), 8), 0.0);  // all warm-up, then over
}

TEST(Schedule, BiasCorrection) {
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 0), 1 - 0.9);
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 1), 1 - 0.81);
  EXPECT_NEAR(bias_correction(0.999, 99), 1 - std::pow(0.999, 100), 1e-15);
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 1'000'000), 1.0);
  EXPECT_DOUBLE_EQ(bias_correction(0.0, 5), 1.0);
}

}  // namespace
}  // namespace ramet

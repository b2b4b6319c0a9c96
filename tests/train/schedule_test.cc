
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/plain_math.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/learning_rate.h"

namespace ramet::tests {
namespace {

Recipe recipe_of(const std::string& kind, int64_t steps, int64_t warmup, double peak, double end = 0,
                 double power = 1) {
  Recipe recipe;
  recipe.train.steps = steps;
  recipe.train.schedule.kind = kind;
  recipe.train.schedule.warmup_steps = warmup;
  recipe.train.schedule.learning_rate = peak;
  recipe.train.schedule.end = end;
  recipe.train.schedule.power = power;
  return recipe;
}

TEST(Schedule, WarmsUpInALine) {
  const Recipe recipe = recipe_of("linear", 100, 9, 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 8), 0.9);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 9), 1.0);
}

TEST(Schedule, Linear) {
  const Recipe recipe = recipe_of("linear", 110, 10, 2.0, 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 10), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 35), 1.75);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 109), 1.01);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 110), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 100000), 1.0);
}

TEST(Schedule, Cosine) {
  const Recipe recipe = recipe_of("cosine", 120, 0, 1.0, 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 0), 1.0);
  EXPECT_NEAR(learning_rate_at(recipe.train, 40), 0.1 + 0.9 * 0.75, 1e-15);  // cos(pi/3) = 1/2
  EXPECT_NEAR(learning_rate_at(recipe.train, 60), 0.55, 1e-15);
  EXPECT_NEAR(learning_rate_at(recipe.train, 80), 0.1 + 0.9 * 0.25, 1e-15);
  EXPECT_NEAR(learning_rate_at(recipe.train, 120), 0.1, 1e-15);
  for (int step = 0; step <= 120; ++step)
    EXPECT_NEAR(learning_rate_at(recipe.train, step), 0.1 + 0.45 * (1 + std::cos(M_PI * step / 120.0)), 1e-14);
}

TEST(Schedule, Polynomial) {
  const Recipe recipe = recipe_of("polynomial", 100, 0, 4.0, 0.0, 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 0), 4.0);
  EXPECT_NEAR(learning_rate_at(recipe.train, 75), 2.0, 1e-14);  // sqrt(1/4) = 1/2
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 100), 0.0);
  for (const double power : {0.1, 0.5, 2.0, 3.5, 20.0})
    for (int step = 0; step < 100; ++step)
      EXPECT_NEAR(learning_rate_at(recipe_of("polynomial", 100, 0, 4.0, 0.0, power).train, step),
                  4 * std::pow(1 - step / 100.0, power), 1e-13)
          << power << " " << step;
}

TEST(Schedule, ConstantAndItsOwnLength) {
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe_of("constant", 10, 2, 0.5).train, 7), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe_of("constant", 10, 3, 0.5).train, 0), 0.125);
  Recipe recipe = recipe_of("linear", 10, 0, 1.0);
  recipe.train.schedule.steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe_of("linear", 5, 8, 1.0).train, 8), 0.0);  // all warm-up, then over
}

TEST(Schedule, BiasCorrection) {
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 0), 1 - 0.9);
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 1), 1 - 0.81);
  EXPECT_NEAR(bias_correction(0.999, 99), 1 - std::pow(0.999, 100), 1e-15);
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 1'000'000), 1.0);
  EXPECT_DOUBLE_EQ(bias_correction(0.0, 5), 1.0);
}

TEST(Schedule, RisingDecayIsAdafactors) {
  EXPECT_EQ(rising_decay(0.8, 0), 0.0);
  for (const int64_t step : {1, 2, 9, 999, 1'000'000})
    EXPECT_NEAR(rising_decay(0.8, step), 1 - std::pow(static_cast<double>(step + 1), -0.8), 1e-14) << step;
}

Recipe with(const std::vector<std::string>& settings) {
  return complete_recipe(parse_recipe("", "a.toml", ".", settings));
}

std::string error_of(const std::vector<std::string>& settings) {
  try {
    with(settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Schedule, LengthsInSamples) {
  const Recipe recipe = with({"train.micro_batch=8", "train.accumulation=4", "train.samples=1000",
                              "train.schedule.warmup_samples=100", "train.schedule.learning_rate=1"});
  EXPECT_EQ(recipe.train.steps, 32);  // of 32 samples
  EXPECT_EQ(recipe.train.schedule.warmup_steps, 4);
  EXPECT_EQ(recipe.train.schedule.steps, 32);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe.train, 18), 0.5);
  EXPECT_EQ(print_recipe(complete_recipe(parse_recipe(print_recipe(recipe), "b.toml", "."))), print_recipe(recipe));
  EXPECT_EQ(with({"train.steps=50", "train.schedule.warmup_share=0.1"}).train.schedule.warmup_steps, 5);
}

/// The rates of BERT-large in You et al. (arXiv 1904.00962, table 4): 5/2^3/10^3 at 512, twice per fourfold batch.
TEST(Schedule, RatesFollowTheBatch) {
  const std::vector<std::string> lamb = {"train.optimizer.kind=lamb", "train.schedule.base_batch=512",
                                         "train.schedule.learning_rate=0.000625", "train.micro_batch=64",
                                         "train.schedule.kind=constant"};
  const auto rate = [](std::vector<std::string> settings, const std::vector<std::string>& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return learning_rate_at(with(settings).train, 0);
  };
  EXPECT_DOUBLE_EQ(rate(lamb, {"train.accumulation=8"}), 0.000625);
  EXPECT_DOUBLE_EQ(rate(lamb, {"train.accumulation=32"}), 0.00125);
  EXPECT_DOUBLE_EQ(rate(lamb, {"train.accumulation=512"}), 0.005);
  EXPECT_DOUBLE_EQ(rate(lamb, {"train.accumulation=16", "train.schedule.scaling=linear"}), 0.00125);
  EXPECT_DOUBLE_EQ(rate(lamb, {"train.accumulation=16", "train.optimizer.kind=adamw"}), 0.00125);
  EXPECT_DOUBLE_EQ(rate(lamb, {"train.accumulation=32", "train.optimizer.kind=adamw", "train.schedule.scaling=sqrt"}),
                   0.00125);
}

TEST(Schedule, RelativeStepsOfAdafactor) {
  const std::vector<std::string> settings = {"train.optimizer.kind=adafactor", "train.optimizer.relative_step=true",
                                             "train.schedule.kind=constant", "train.schedule.learning_rate=0.01"};
  EXPECT_DOUBLE_EQ(learning_rate_at(with(settings).train, 24), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate_at(with(settings).train, 39'999), 0.005);
}

TEST(Schedule, LengthsThatContradict) {
  EXPECT_EQ(error_of({"train.micro_batch=10", "train.steps=5", "train.samples=100"}),
            "--set train.samples: train.steps and train.samples contradict each other; found train.steps = 5; expected "
            "10, as train.samples means with a global batch of 10. Leave one of the two out");
  EXPECT_EQ(error_of({"train.schedule.warmup_samples=100", "train.schedule.warmup_share=0.1"}),
            "--set train.schedule.warmup_share: train.schedule.warmup_samples and train.schedule.warmup_share say the "
            "same thing in two ways. Leave one of the two out");
  EXPECT_EQ(error_of({"train.samples=100", "train.epochs=1"}),
            "--set train.epochs: train.samples and train.epochs say the same thing in two ways. Leave one of the two "
            "out");
  try {
    prepare(parse_recipe("", "a.toml", ".", std::vector<std::string>{"train.epochs=2"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--set train.epochs: synthetic data has no epochs. Give train.steps or train.samples "
                 "instead, or a corpus");
  }
}

}  // namespace
}  // namespace ramet::tests

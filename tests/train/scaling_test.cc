#include "ramet/train/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/scales.h"
#include "ramet/train/step.h"
#include "ramet/train/training.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

Recipe recipe_of(const std::string& kind, const Settings& more) {
  Settings settings = {"model.kind=" + kind,        "model.preset=mini",       "model.layers=3",
                       "model.hidden=128",          "model.heads=4",           "model.vocabulary_size=500",
                       "model.max_positions=64",    "data.sequence_length=64", "train.micro_batch=8",
                       "train.evaluation.batches=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_recipe("", "scaled.toml", ".", settings);
}

std::vector<TensorScale> measured(const Recipe& recipe) {
  const Preparation ready = prepare(recipe);
  return measure_scales(ready.workload, ready.options);
}

/// What unit scaling promises: every tensor near 1 before the first step, forward and backward.
TEST(UnitScales, AreWithinHalfAndTwoForBertAndGpt2) {
  for (const char* kind : {"bert", "gpt2"})
    for (const char* precision : {"f32", "f16", "f8"}) {
      SCOPED_TRACE(std::string(kind) + " " + precision);
      const auto scales =
          measured(recipe_of(kind, {"train.scaling=unit", "train.precision=" + std::string(precision)}));
      std::map<TensorScale::Kind, int> seen;
      for (const TensorScale& scale : scales) {
        ++seen[scale.kind];
        EXPECT_GE(scale.deviation, 0.5) << name_of(scale.kind) << " " << scale.name;
        EXPECT_LE(scale.deviation, 2.0) << name_of(scale.kind) << " " << scale.name;
      }
      EXPECT_GE(seen[TensorScale::Kind::kActivation], 25);
      EXPECT_GE(seen[TensorScale::Kind::kGradient], 25);
      EXPECT_GE(seen[TensorScale::Kind::kWeight], 14);
      EXPECT_GE(seen[TensorScale::Kind::kWeightGradient], 38);
    }
}

/// Without it most gradients are orders of magnitude away, or the test above would show nothing.
TEST(UnitScales, AreNotWithinHalfAndTwoWithoutScaling) {
  int outside = 0, gradients = 0;
  for (const TensorScale& scale : measured(recipe_of("bert", {"train.precision=f32"}))) {
    if (scale.kind != TensorScale::Kind::kGradient) continue;
    ++gradients;
    outside += scale.deviation < 0.01;
  }
  EXPECT_GT(outside, gradients * 3 / 4);
}

std::vector<double> losses_of(const Settings& more, int steps) {
  Settings settings = {"train.micro_batch=4", "train.schedule.warmup_steps=2", "train.schedule.learning_rate=1e-3",
                       "model.dropout=0",     "model.attention_dropout=0",     "train.seed=1"};
  settings.insert(settings.end(), more.begin(), more.end());
  Training trainer = make_training(prepare(recipe_of("gpt2", settings)), {});
  trainer.initialize();
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(number_of(trainer.step(), "loss"));
  return losses;
}

TEST(UnitScaledTraining, FollowsF32InSixteenAndEightBitsWithoutALossScale) {
  constexpr int kSteps = 12;
  const auto wide = losses_of({"train.scaling=unit", "train.precision=f32"}, kSteps);
  const auto half = losses_of({"train.scaling=unit", "train.precision=f16"}, kSteps);
  const auto narrow = losses_of({"train.scaling=unit", "train.precision=f8"}, kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const auto at = static_cast<size_t>(step);
    EXPECT_NEAR(half[at], wide[at], 0.002 * wide[at]) << step;
    EXPECT_NEAR(narrow[at], wide[at], 0.01 * wide[at]) << step;
  }
  EXPECT_LT(wide.back(), wide.front() - 0.1);
}

TEST(UnitScaledRecipe, NeedsNoLossScale) {
  EXPECT_EQ(complete_recipe(recipe_of("bert", {"train.precision=f16", "train.scaling=unit"})).train.loss_scale.number,
            1);
  EXPECT_EQ(complete_recipe(recipe_of("bert", {"train.precision=f8"})).train.loss_scale.number, 1024);
}

TEST(UnitScaledRecipe, KeepsTheMeaningOfLearningRateAndDecay) {
  const auto scale_of = [](const Settings& settings, const std::string& weight, const ScaledWeight& scaled) {
    const Recipe recipe = complete_recipe(recipe_of("gpt2", settings));
    const Model model = build_model(recipe);
    for (const StateTensor& state : model.weights)
      if (state.name == weight) return weight_scale(recipe.train, model, state, scaled);
    throw std::runtime_error("no weight " + weight);
  };
  const std::string matrix = "transformer.h.0.mlp.c_fc.weight", bias = "transformer.h.0.mlp.c_fc.bias";
  const ScaledWeight hidden{
      .kind = ScaledWeight::Kind::kHidden, .gradient = 8, .forward = 0.5, .fan_in = 64, .depth = 4};
  const WeightScale unit = scale_of({"train.scaling=unit"}, matrix, hidden);
  EXPECT_NEAR(unit.rate, 2, 1e-9) << "of a product by its factor";
  EXPECT_NEAR(scale_of({"train.scaling=unit"}, matrix, {.kind = ScaledWeight::Kind::kInput}).rate, 50, 1e-9)
      << "of a table by the deviation that it would have had";
  EXPECT_NEAR(unit.rate * unit.decay, 1, 1e-12);
  EXPECT_NEAR(unit.gradient, 0.25, 1e-12);
  EXPECT_EQ(scale_of({"train.scaling=unit"}, bias, {}).rate, 1);
  EXPECT_EQ(scale_of({"train.scaling=unit", "train.optimizer.kind=lamb"}, matrix, hidden).rate, 1);
  const WeightScale u_mup = scale_of({"train.scaling=u-mup"}, matrix, hidden);
  EXPECT_NEAR(u_mup.rate, 1.0 / 8 / 2, 1e-12);
  EXPECT_NEAR(u_mup.rate * u_mup.decay, 1, 1e-12);
  ScaledWeight table{.kind = ScaledWeight::Kind::kInput, .width = 16};
  EXPECT_NEAR(scale_of({"train.scaling=u-mup"}, matrix, table).rate, 0.25, 1e-12);
  table.kind = ScaledWeight::Kind::kOutput;
  EXPECT_NEAR(scale_of({"train.scaling=u-mup"}, matrix, table).rate, 1, 1e-12);
  const WeightScale none = scale_of({}, matrix, {});
  EXPECT_EQ(none.rate, 1);
  EXPECT_EQ(none.gradient, 1);
}

TEST(UnitScaledRecipe, RefusesWeightsOfUnscaledModelsAndDoesNotExport) {
  const auto says = [](const std::function<void(Training&)>& act, const Settings& settings) -> std::string {
    try {
      Training trainer = make_training(prepare(recipe_of("gpt2", settings)), {});
      act(trainer);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string imported = says([](Training& trainer) { trainer.initialize(); },
                                    {"train.scaling=unit", "model.init_from=model.safetensors"});
  EXPECT_THAT(imported, HasSubstr("weights of a model without scaling cannot be the first ones of a scaled model"));
  const std::string exported = says(
      [](Training& trainer) {
        trainer.initialize();
        trainer.export_weights("exported.safetensors");
      },
      {"train.scaling=unit"});
  EXPECT_THAT(exported, HasSubstr("weights of a scaled model cannot be exported"));
}

std::string refused(const Settings& settings) {
  try {
    recipe_of("bert", settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(UnitScaledRecipe, RefusesKeysThatSayNothing) {
  EXPECT_THAT(refused({"train.residual_tau=0.5"}),
              HasSubstr("train.residual_tau has no meaning without train.scaling = \"unit\""));
  EXPECT_THAT(refused({"train.scaling=unit", "train.multipliers.attention=2"}),
              HasSubstr("train.multipliers.attention has no meaning without train.scaling = \"u-mup\""));
  EXPECT_THAT(refused({"train.scaling=u-mup", "train.optimizer.kind=lamb"}),
              HasSubstr("u-muP's learning rates are made for Adam"));
  EXPECT_THAT(refused({"train.scaling=units"}), HasSubstr("none, unit or u-mup"));
}

}  // namespace
}  // namespace ramet::tests

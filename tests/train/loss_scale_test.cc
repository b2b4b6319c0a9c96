#include "ramet/train/loss_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

Recipe small(std::vector<std::string> more = {}, const std::string& layout = "") {
  std::vector<std::string> settings = {"model.preset=tiny",
                                       "model.layers=2",
                                       "model.hidden=32",
                                       "model.heads=4",
                                       "model.max_positions=16",
                                       "model.vocabulary_size=96",
                                       "data.sequence_length=16",
                                       "train.micro_batch=2",
                                       "train.accumulation=4",
                                       "train.lanes=4",
                                       "train.chunks=4",
                                       "train.precision=f16",
                                       "train.loss_scale=auto",
                                       "train.loss_scale_window=2",
                                       "train.evaluation.batches=1"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe made = parse_recipe("", "small.toml", ".", settings);
  if (!layout.empty()) set_layout(made, layout);
  return made;
}

TEST(LossScale, HalvesAndDoubles) {
  const LossScale start{.scale = 1024, .calm = 1, .skipped = 3};
  EXPECT_EQ(after_overflow(start), (LossScale{.scale = 512, .calm = 0, .skipped = 4}));
  EXPECT_EQ(after_step(start, 1e-3, 1e-3, 2), (LossScale{.scale = 512, .calm = 0, .skipped = 3}));
  EXPECT_EQ(after_step(start, 0, 1e-3, 2), (LossScale{.scale = 1024, .calm = 0, .skipped = 3}));
  EXPECT_EQ(after_step(start, 0, 0, 3), (LossScale{.scale = 1024, .calm = 2, .skipped = 3}));
  EXPECT_EQ(after_step(start, 0, 0, 2), (LossScale{.scale = 2048, .calm = 0, .skipped = 3}));
  EXPECT_EQ(after_step(start, 0.9e-7, 0.9e-7, 2).scale, 2048);
  EXPECT_EQ(after_overflow({.scale = kLeastLossScale}).scale, kLeastLossScale);
  EXPECT_EQ(after_step({.scale = kMostLossScale}, 0, 0, 1).scale, kMostLossScale);
}

TEST(LossScale, BelongsToNarrowTypes) {
  EXPECT_EQ(first_loss_scale(small().train).scale, 65536);
  EXPECT_EQ(first_loss_scale(small({"train.precision=bf16"}).train).scale, 1);
  EXPECT_FALSE(loss_scale_range(small({"train.precision=f32"}).train).has_value());
  EXPECT_EQ(loss_scale_range(small().train)->near(), 13);
}

struct Steps {
  std::vector<double> losses, scales, skipped, norms;
  std::string hash;
  friend bool operator==(const Steps&, const Steps&) = default;
};

void run(Training& trainer, int steps, Steps& into) {
  for (int i = 0; i < steps; ++i) {
    const Numbers numbers = trainer.step();
    into.losses.push_back(number_of(numbers, "loss"));
    into.scales.push_back(number_of(numbers, "loss_scale"));
    into.skipped.push_back(number_of(numbers, "skipped_steps"));
    const double norm = number_of(numbers, "grad_norm");
    into.norms.push_back(std::isnan(norm) ? -1 : norm);
  }
  into.hash = trainer.weights_hash();
}

Steps trained(const Recipe& recipe, int steps) {
  Training trainer = make_training(prepare(recipe), {.threads = 1});
  trainer.initialize();
  Steps result;
  run(trainer, steps, result);
  return result;
}

/// As long as nothing leaves the range the scale shows nowhere, and it grows where there is room.
TEST(LossScale, AutomaticOnesTakeNoPart) {
  const Steps automatic = trained(small({"train.precision=f32"}), 4),
              fixed = trained(small({"train.precision=f32", "train.loss_scale=256"}), 4);
  EXPECT_EQ(automatic.losses, fixed.losses);
  EXPECT_EQ(automatic.hash, fixed.hash);
  EXPECT_EQ(automatic.scales, std::vector<double>(4, 1.0));
  const Steps f16 = trained(small({"train.loss_scale_start=16"}), 9);
  EXPECT_GT(f16.scales.back(), 16) << "there is room";
  EXPECT_EQ(f16.skipped.back(), 0);
}

const std::vector<std::string> kTooLarge = {"train.loss_scale_start=4294967296", "train.clip_norm=0"};

/// A scale that is far too large comes down by steps that change nothing, and the run goes on.
TEST(LossScale, OverflowsAreSkippedAndCounted) {
  Training trainer = make_training(prepare(small(kTooLarge)), {.threads = 1});
  trainer.initialize();
  Steps steps;
  do {
    const std::string before = trainer.weights_hash();
    run(trainer, 1, steps);
    const auto done = static_cast<double>(steps.skipped.size());
    EXPECT_EQ(steps.scales.back(), std::ldexp(1.0, 33 - static_cast<int>(done)));
    EXPECT_EQ(trainer.weights_hash() == before, steps.skipped.back() == done);
    EXPECT_EQ(steps.norms.back() == -1, steps.skipped.back() == done);
    EXPECT_TRUE(std::isfinite(steps.losses.back()));
  } while (steps.norms.back() == -1 && steps.skipped.size() < 30);
  EXPECT_GE(steps.skipped.back(), 3);
  EXPECT_GT(steps.norms.back(), 0);
  EXPECT_TRUE(trainer.whole());
  EXPECT_EQ(trainer.steps_done(), static_cast<int64_t>(steps.skipped.size()));
}

TEST(LossScale, GoesOnFromACheckpoint) {
  const Steps expected = trained(small(kTooLarge), 24);
  EXPECT_GE(expected.skipped.back(), 3);
  for (const int done : {2, 20}) {
    const TemporaryFolder folder;
    Steps found;
    {
      Training trainer = make_training(prepare(small(kTooLarge)), {.threads = 1});
      trainer.initialize();
      run(trainer, done, found);
      trainer.save(folder.path());
    }
    Training trainer = make_training(prepare(small(kTooLarge, "r=2")), {.threads = 1});
    const auto all = list_checkpoints(folder.path());
    EXPECT_EQ(trainer.restore(Checkpoint(all.back())), "");
    run(trainer, 24 - done, found);
    EXPECT_EQ(found, expected) << done;
  }
}

TEST(LossScale, IsTheSameOnAnyLayout) {
  const Steps expected = trained(small(kTooLarge), 24);
  EXPECT_EQ(expected.skipped.back(), expected.skipped[21]) << "scales must have settled: " << expected.scales.back();
  for (const char* layout :
       {"p=2 head=first", "t=2", "r=4 rts=weights:2,grads,optimizer", "t=2x2", "phases=2 offload=weights,optimizer",
        "p=2 t=2 r=2 rts=optimizer recompute=layer offload=grads"}) {
    SCOPED_TRACE(layout);
    EXPECT_EQ(trained(small(kTooLarge, layout), 24), expected);
  }
}

TEST(LossScale, SaysWhatDoesNotGoTogether) {
  const auto error_of = [](std::vector<std::string> settings) -> std::string {
    try {
      parse_recipe("", "a.toml", ".", settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(
      error_of({"train.loss_scale=auto", "train.clip_norm=0", "train.optimizer.in_backward=true"}),
      "--set train.loss_scale: a step that overflows cannot be skipped when weights are updated in the backward "
      "pass; found train.optimizer.in_backward = true; expected false. Give a number as train.loss_scale, or leave "
      "train.optimizer.in_backward out");
  EXPECT_EQ(error_of({"train.loss_scale=automatic"}),
            "--set train.loss_scale: unknown choice; found 'automatic'; expected \"auto\", or a number from "
            "9.5367431640625e-07 to 1099511627776");
  EXPECT_THAT(error_of({"train.loss_scale=0"}), HasSubstr("train.loss_scale: out of range; found 0"));
  EXPECT_THAT(error_of({"train.loss_scale=true"}), HasSubstr("train.loss_scale: wrong kind of value; found true"));
}

}  // namespace
}  // namespace ramet::tests

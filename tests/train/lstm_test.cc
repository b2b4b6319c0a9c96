#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/recipe/prepare.h"
#include "ramet/text/batches.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained.h"

// The language model of LSTM layers, as recipes train it.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

Recipe recipe(const std::string& layout, const Settings& more = {}) {
  Settings settings = {"model.kind=lstm",
                       "model.layers=3",
                       "model.hidden=24",
                       "model.dropout=0.2",
                       "model.vocabulary_size=96",
                       "data.sequence_length=9",
                       "train.micro_batch=4",
                       "train.accumulation=4",
                       "train.lanes=2",
                       "train.chunks=2",
                       "train.clip_norm=0.5",
                       "train.schedule.learning_rate=0.01",
                       "train.schedule.warmup_steps=1",
                       "train.evaluation.batches=3",
                       "train.seed=5"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe made = parse_recipe("", "small.toml", ".", settings);
  set_layout(made, layout);
  return made;
}

Trained train(const std::string& layout, const Settings& more = {}, int steps = 2, int threads = 0) {
  Training training = make_training(prepare(recipe(layout, more)), {.threads = threads});
  training.initialize();
  return train_steps(training, steps);
}

const Settings kCarry = {"model.carry=true", "train.lanes=1"};

TEST(Lstm, HasTheBitsOfOneDeviceOnEveryLayout) {
  for (const Settings& more : {Settings{"train.precision=f32", "model.tied=true"}, Settings{"train.precision=bf16"}}) {
    SCOPED_TRACE(more[0]);
    const Trained expected = train("", more);
    expect_same(train("", more, 2, 1), expected);
    expect_same(train("", more, 2, 3), expected);
    for (const char* layout :
         {"p=2", "r=2", "r=2 rts=optimizer", "t=2", "phases=2 offload=weights,optimizer,activations", "recompute=layer",
          "recompute=all", "p=3 r=2 recompute=layer"}) {
      SCOPED_TRACE(layout);
      expect_same(train(layout, more), expected);
    }
  }
}

TEST(Lstm, CarriesItsStatesOnEveryLayoutThatKeepsTheChain) {
  for (const char* precision : {"train.precision=f32", "train.precision=bf16"}) {
    SCOPED_TRACE(precision);
    Settings more = kCarry;
    more.push_back(precision);
    const Trained expected = train("", more);
    for (const char* layout :
         {"p=2", "t=2", "phases=2 offload=weights,optimizer,activations", "recompute=layer", "p=3 recompute=all"}) {
      SCOPED_TRACE(layout);
      expect_same(train(layout, more), expected);
    }
    more.push_back("model.tied=true");  // the head is then a part of its own
    expect_same(train("p=3", more), train("", more));
    more = {"train.lanes=1", precision};
    const Trained zeros = train("", more);
    EXPECT_NE(zeros.losses[0], expected.losses[0]) << "the second micro-batch begins with the states of the first";
    EXPECT_NE(zeros.hash, expected.hash);
  }
}

TEST(Lstm, RefusesWhatWouldBreakTheChain) {
  const auto refusal = [](const std::string& layout, const Settings& more) {
    return error_of([&] { make_training(prepare(recipe(layout, more)), {}); });
  };
  EXPECT_THAT(refusal("", {"model.carry=true"}), HasSubstr("chained state 'rnn.cell_l0': lanes would break the chain"));
  EXPECT_THAT(refusal("r=2", {"model.carry=true", "train.lanes=2"}), HasSubstr("break the chain"));
  EXPECT_THAT(refusal("", {"model.heads=2"}),
              HasSubstr("model.heads: a language model of LSTM layers has no such size"));
  EXPECT_THAT(error_of([] { recipe("", {"model.kind=gpt2", "model.carry=true"}); }), HasSubstr("a key of a lstm"));
}

TEST(Lstm, ResumesWithItsStates) {
  for (const Settings& more : {kCarry, Settings{}}) {
    SCOPED_TRACE(more.size());
    const Trained whole = train("", more, 3);
    const TemporaryFolder folder;
    Training first = make_training(prepare(recipe("", more)), {});
    first.initialize();
    train_steps(first, 2);
    const auto saved = first.save(folder.path());
    for (const char* layout : {"", "p=2", "phases=2 offload=optimizer"}) {
      SCOPED_TRACE(layout);
      Training resumed = make_training(prepare(recipe(layout, more)), {});
      EXPECT_EQ(resumed.restore(Checkpoint(saved)), "");
      EXPECT_EQ(train_steps(resumed, 1).hash, whole.hash);
    }
  }
}

TEST(Lstm, LearnsAndReportsItsPerplexity) {
  const Settings more = {"model.dropout=0", "train.schedule.learning_rate=0.05", "train.optimizer.kind=adamw"};
  Training training = make_training(prepare(recipe("", more)), {});
  training.initialize();
  const double before = number_of(training.evaluate(), "perplexity");
  EXPECT_NEAR(before, 96, 3);
  for (int step = 0; step < 25; ++step) training.step();
  EXPECT_LT(number_of(training.evaluate(), "perplexity"), 0.75 * before) << "the frequencies of words, at least";
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/model/tgn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "ramet/base/rng.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/transform.h"
#include "ramet/recipe/event_predictor.h"
#include "ramet/recipe/link_scores.h"
#include "ramet/recipe/prepare.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using graphs::GraphTables;
using testing::HasSubstr;
using Settings = std::vector<std::string>;

TEST(LinkScores, AreThoseOfTheirDefinitions) {
  // Thresholds 4, 3, 2, 1: precision 1, 2/3, 2/4, 3/6 at recall 1/3, 2/3, 2/3, 1.
  const LinkScores scores{.right = {4, 3, 1}, .wrong = {3, 2, 1}};
  EXPECT_DOUBLE_EQ(average_precision(scores), (1 + 2 / 3.0 + 3 / 6.0) / 3);
  // Right above wrong: 4 above all three; 3 above two and even with one; 1 even with one.
  EXPECT_DOUBLE_EQ(roc_auc(scores), (3 + 1.5 + 1 + 0.5) / 9);
  EXPECT_DOUBLE_EQ(average_precision({.right = {1, 1}, .wrong = {1, 1}}), 0.5);
  EXPECT_DOUBLE_EQ(average_precision({.right = {2}, .wrong = {}}), 1);
  EXPECT_TRUE(std::isnan(average_precision({.right = {}, .wrong = {1}})));
  EXPECT_TRUE(std::isnan(roc_auc({.right = {1}, .wrong = {}})));
}

/// Events of 24 nodes, most of which go to one of four.
std::string popular(int64_t count) {
  const RandomStream random(11, RandomPurpose::kTest, 0, 0);
  std::string text;
  for (uint64_t i = 0; std::cmp_less(i, count); ++i) {
    const uint32_t from = random.below(4 * i, 24);
    const uint32_t to = random.below(4 * i + 1, 24) % (random.below(4 * i + 2, 8) == 0 ? 24 : 4);
    text += "n" + std::to_string(from) + " n" + std::to_string(to) + " " + std::to_string(i / 3) + " 0." +
            std::to_string(i % 7) + "\n";
  }
  return text;
}

class TemporalNets : public testing::Test {
 protected:
  void SetUp() override {
    GraphTables tables = graphs::parse_events(popular(200), "popular.txt");
    graphs::apply_transform(tables, "split-by-time=70:15:15", "edge");
    GraphSet(std::move(tables), "popular").save(folder_ / "popular.safetensors");
  }

  Recipe recipe(const Settings& more = {}) const {
    return adam_recipe(
        "popular.toml",
        {"model.kind=tgn", "model.tgn.memory=12", "model.tgn.time=8", "model.tgn.embedding=16", "data.kind=events",
         "data.events.set=" + (folder_ / "popular.safetensors").string(), "data.events.batch=20",
         "data.events.recent=4", "train.chunks=2", "train.epochs=4", "train.schedule.learning_rate=0.01"},
        more);
  }

  TemporaryFolder folder_;
};

// An epoch is 7 steps, so that these go beyond one.
constexpr int kSteps = 9;

TEST_F(TemporalNets, HaveTheSameBitsOnEveryLayoutThatKeepsTheChain) {
  const Trained expected = train(recipe(), "", kSteps);
  EXPECT_TRUE(std::isfinite(expected.losses.back()));
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  for (const std::string layout :
       {"p=1", "t=2", "t=1x2", "phases=1", "phases=1 offload=optimizer", "phases=1 offload=weights,optimizer",
        "offload=grads,activations", "recompute=cheap", "recompute=layer", "recompute=all", "t=2 recompute=layer",
        "t=2 phases=1", "t=2 phases=1 offload=optimizer"})
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(layout + ", threads " + std::to_string(threads));
      expect_same(train(recipe(), layout, kSteps, threads), expected);
    }
}

TEST_F(TemporalNets, WhatWouldBreakTheChainIsRefused) {
  const auto error = [&](const Settings& more, const std::string& layout = "") {
    return error_of([&] { train(recipe(more), layout, 1); });
  };
  for (const Settings& more : {Settings{}, Settings{"train.accumulation=2", "train.lanes=2"}}) {
    EXPECT_THAT(error(more, "r=2"), HasSubstr("replicas would break the chain of a temporal graph network"));
    EXPECT_THAT(error(more, "r=2"), HasSubstr("Cut the network instead"));
  }
  EXPECT_THAT(error({"train.accumulation=2", "train.lanes=2"}), HasSubstr("lanes would break the chain"));
  EXPECT_THAT(error({"train.accumulation=2", "train.lanes=2"}), HasSubstr("Set train.lanes=1"));
  EXPECT_THAT(error({"train.micro_batch=2"}), HasSubstr("samples of one micro-batch would break the chain"));
  EXPECT_THAT(error({"train.micro_batch=2"}), HasSubstr("set data.events.batch"));
}

/// Micro-batches of a step are one chain too: two runs whose weights never move go through the same memories.
TEST_F(TemporalNets, AccumulationKeepsTheChain) {
  const Settings still{"train.schedule.learning_rate=1e-30", "model.tgn.dropout=0"};
  Settings two = still;
  two.push_back("train.accumulation=2");
  const Trained single = train(recipe(still), "", 6), pairs = train(recipe(two), "", 3);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(pairs.losses[i], (single.losses[2 * i] + single.losses[2 * i + 1]) / 2, 1e-6);
}

/// A step counts on the memory of the steps before it.
TEST_F(TemporalNets, TheMemoryGoesOnFromStepToStep) {
  Training training = make_training(prepare(recipe()), {.threads = 1});
  training.initialize();
  train_steps(training, 5);
  const std::filesystem::path checkpoint = training.save(folder_.path() / "checkpoints", 3);
  const Trained rest = train_steps(training, 5);
  for (const std::string layout : {"", "t=2", "phases=1 offload=optimizer"}) {
    SCOPED_TRACE(layout);
    Recipe other = recipe();
    if (!layout.empty()) set_layout(other, layout);
    Training again = make_training(prepare(other), {.threads = 1});
    again.restore(Checkpoint(checkpoint));
    const Trained resumed = train_steps(again, 5);
    EXPECT_EQ(resumed.hash, rest.hash);
    EXPECT_EQ(resumed.losses, rest.losses);
    EXPECT_EQ(resumed.evaluation, rest.evaluation);
  }
}

TEST_F(TemporalNets, AnEvaluationChangesNothing) {
  Training plain = make_training(prepare(recipe()), {.threads = 1}),
           asked = make_training(prepare(recipe()), {.threads = 1});
  plain.initialize(), asked.initialize();
  for (int i = 0; i < kSteps; ++i) {
    plain.step(), asked.step();
    const Numbers first = asked.evaluate();
    EXPECT_EQ(asked.evaluate(), first);
  }
  EXPECT_EQ(plain.weights_hash(), asked.weights_hash());
}

TEST_F(TemporalNets, LearnWhichEventsComeNext) {
  Training training = make_training(prepare(recipe({"data.events.held_out=test", "train.epochs=30"})), {.threads = 1});
  training.initialize();
  const Numbers before = training.evaluate();
  train_steps(training, 210);
  const Numbers after = training.evaluate();
  EXPECT_GT(number_of(after, "average_precision"), number_of(before, "average_precision") + 0.1);
  EXPECT_GT(number_of(after, "test_average_precision"), 0.7);
  EXPECT_GT(number_of(after, "roc_auc"), 0.7);
  // What EdgeBank says does not depend on weights.
  EXPECT_EQ(number_of(after, "edgebank_precision"), number_of(before, "edgebank_precision"));
  EXPECT_GT(number_of(after, "edgebank_precision"), 0.5);
}

template <typename T>
std::vector<T> elements(const NamedTensor& tensor) {
  std::vector<T> made(tensor.bytes.size() / sizeof(T));
  std::memcpy(made.data(), tensor.bytes.data(), tensor.bytes.size());
  return made;
}

TEST_F(TemporalNets, PredictionsHaveTheScoresOfAnEvaluation) {
  Preparation ready = prepare(recipe({"data.events.held_out=test"}));
  const Recipe complete = ready.recipe;
  Training training = make_training(std::move(ready), {.threads = 1});
  training.initialize();
  const Numbers wanted = train_steps(training, 7).evaluation;
  const std::filesystem::path checkpoint = training.save(folder_.path() / "checkpoints", 3);
  for (const std::string layout : {"p=1", "t=2"}) {
    EventPredictor predictor(complete, parse_layout(layout, "the test"), {.threads = 1});
    predictor.predictor().load(Checkpoint(checkpoint));
    const std::vector<NamedTensor> rows = predictor.predict();
    std::map<std::string, NamedTensor> named;
    for (const NamedTensor& row : rows) named[row.name] = row;
    const auto event = elements<int64_t>(named["event"]);
    const auto part = elements<uint8_t>(named["part"]);
    const auto score = elements<float>(named["score"]), negative = elements<float>(named["negative_score"]);
    ASSERT_GT(event.size(), 50u);
    EXPECT_EQ(event.back(), 199);
    EXPECT_EQ(event.front() + std::ssize(event), 200);
    std::map<int, std::pair<double, double>> found;  // of a part: the sum over its batches, and their number
    for (size_t begin = 0, end = 0; begin < event.size(); begin = end) {
      LinkScores scores;
      for (; end < event.size() && end < begin + 20 && part[end] == part[begin]; ++end)
        scores.right.push_back(score[end]), scores.wrong.push_back(negative[end]);
      found[part[begin]].first += average_precision(scores), ++found[part[begin]].second;
    }
    EXPECT_DOUBLE_EQ(found[1].first / found[1].second, number_of(wanted, "average_precision"));
    EXPECT_DOUBLE_EQ(found[2].first / found[2].second, number_of(wanted, "test_average_precision"));
  }
  EXPECT_THAT(error_of([&] { EventPredictor(prepare(recipe({"data.events.split="})).recipe, {}, {.threads = 1}); }),
              HasSubstr("no part of the events is held out"));
}

TEST_F(TemporalNets, BadRecipesAreNamed) {
  const auto error = [&](const Settings& more) { return error_of([&] { prepare(recipe(more)); }); };
  EXPECT_THAT(error({"data.events.set="}), HasSubstr("a temporal graph network needs a graph set of events"));
  EXPECT_THAT(error({"data.events.split=edge.part"}), HasSubstr("data.events.split"));
  EXPECT_THAT(error({"model.tgn.heads=5"}), HasSubstr("the heads of the attention do not divide its features"));
  EXPECT_THAT(error({"data.events.batch=0"}), HasSubstr("data.events.batch"));
}

}  // namespace
}  // namespace ramet::tests

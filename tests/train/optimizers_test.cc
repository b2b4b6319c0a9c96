#include "ramet/train/optimizers/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/groups.h"
#include "ramet/train/step.h"
#include "ramet/train/training.h"
#include "support/errors.h"

// Optimizers as a table, groups of weights, and rates that a caller gives.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

Recipe small(const Settings& more = {}, const std::string& layout = "") {
  Settings settings = {"model.preset=mini",
                       "model.layers=4",
                       "model.hidden=32",
                       "model.heads=4",
                       "model.vocabulary_size=96",
                       "model.max_positions=16",
                       "data.sequence_length=16",
                       "train.micro_batch=2",
                       "train.accumulation=4",
                       "train.lanes=2",
                       "train.chunks=2",
                       "train.clip_norm=0.5",
                       "train.precision=f32",
                       "train.schedule.kind=constant",
                       "train.schedule.learning_rate=0.01",
                       "train.evaluation.batches=0",
                       "train.seed=5"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe recipe = parse_recipe("", "small.toml", ".", settings);
  set_layout(recipe, layout);
  return recipe;
}

using Weights = std::map<std::string, std::vector<float>>;

Weights weights_of(const Training& trainer) {
  Weights weights;
  for (const StateTensor& weight : trainer.model().weights) {
    auto& values = weights[weight.name];
    values.resize(static_cast<size_t>(weight.type.elements()));
    trainer.read_state(weight.name, std::as_writable_bytes(std::span(values)));
  }
  return weights;
}

std::string hash_after(const Recipe& recipe, int steps = 2, const StepScalars& given = {}) {
  Training trainer = make_training(prepare(recipe), {.threads = 1});
  trainer.initialize();
  for (int i = 0; i < steps; ++i) trainer.step(given);
  return trainer.weights_hash();
}

TEST(Optimizers, EachHasTheStatesAndScalarsOfItsEntry) {
  for (const OptimizerDef& optimizer : optimizers()) {
    SCOPED_TRACE(optimizer.name);
    EXPECT_FALSE(optimizer.doc.empty());
    const Preparation ready =
        prepare(small({"train.optimizer.kind=" + optimizer.name, "train.optimizer.first_moment=true"}));
    const StepGraph step = make_training_step(ready.workload.model, ready.recipe.train);
    verify(step, "the test");
    std::set<std::string> found, expected;
    for (const StateTensor& state : step.states)
      if (state.kind == StateKind::kOptimizer) found.insert(state.name);
    for (const StateTensor& weight : ready.workload.model.weights)
      for (const OptimizerState& state : optimizer.states)
        if (!state.kept || state.kept(ready.recipe.train.optimizer, weight))
          expected.insert("optimizer." + state.name + "." + weight.name);
    EXPECT_EQ(found, expected);
    EXPECT_FALSE(expected.empty());
    std::set<std::string> scalars, declared = {"learning_rate"};
    for (const GraphInput& input : step.update.inputs())
      if (input.role == InputRole::kScalar) scalars.insert(step.update.value(input.value).name);
    for (const OptimizerScalar& scalar : optimizer.scalars) declared.insert(scalar.name);
    EXPECT_EQ(scalars, declared);
  }
}

TEST(Optimizers, AnUnknownOneIsRefusedWithAllNames) {
  EXPECT_EQ(
      error_of([] { find_optimizer("adamax"); }),
      "unknown optimizer; found 'adamax'; expected one of sgd, adam, adamw, lamb, lars, adafactor, lion, rmsprop, "
      "centered_rmsprop, adagrad");
  EXPECT_THAT(error_of([] { small({"train.optimizer.kind=adamax"}); }), HasSubstr("expected sgd, adam, adamw, lamb"));
}

TEST(Groups, PatternsStandForWholeNames) {
  EXPECT_TRUE(matches_pattern("bert.*.bias", "bert.encoder.layer.0.bias"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(matches_pattern("layer.?.x", "layer.7.x"));
  EXPECT_TRUE(matches_pattern("**", "x"));
  EXPECT_FALSE(matches_pattern("layer.?.x", "layer.17.x"));
  EXPECT_FALSE(matches_pattern("bert", "bert.x"));
  EXPECT_FALSE(matches_pattern("a*b*c", "a-b-b"));
  EXPECT_FALSE(matches_pattern("", "x"));
  EXPECT_FALSE(matches_pattern(std::string(40, '*') + "b", std::string(4000, 'a')));
}

const std::string kGroups =
    "train.groups=[{name = \"head\", weights = [\"cls.*\"], learning_rate = 0.02, weight_decay = 0.1, beta1 = 0.8, "
    "beta2 = 0.95, epsilon = 1e-5}, {weights = \"*.bias\", rate = 0.25}]";

TEST(Groups, HaveTheBitsOfOneDeviceOnEveryLayout) {
  for (const char* kind : {"adamw", "adafactor"}) {
    const Settings more = {kGroups, "train.optimizer.kind=" + std::string(kind), "train.optimizer.first_moment=true"};
    const std::string expected = hash_after(small(more));
    EXPECT_NE(hash_after(small({more[1], more[2]})), expected);
    for (const char* layout : {"p=2 head=first", "r=2 rts=optimizer", "t=2", "p=2 phases=2 offload=optimizer"}) {
      SCOPED_TRACE(std::string(kind) + " " + layout);
      EXPECT_EQ(hash_after(small(more, layout)), expected);
    }
  }
}

TEST(Groups, ThatSayWhatHoldsForAllChangeNoBit) {
  EXPECT_EQ(hash_after(small({"train.groups=[{weights = \"bert.encoder.*\", rate = 1, beta1 = 0.9, epsilon = 1e-6}]"})),
            hash_after(small()));
}

/// Plain descent without clipping: a step is the rate times the gradient, and decay.
TEST(Groups, GiveEachWeightItsRateAndDecay) {
  const Settings plain = {"train.optimizer.kind=sgd", "train.optimizer.momentum=0", "train.clip_norm=0",
                          "train.optimizer.weight_decay=0.5"};
  const auto moved = [&](const std::string& groups) {
    Settings settings = plain;
    if (!groups.empty()) settings.push_back("train.groups=" + groups);
    Training trainer = make_training(prepare(small(settings)), {.threads = 1});
    trainer.initialize();
    Weights before = weights_of(trainer);
    trainer.step();
    Weights after = weights_of(trainer);
    for (auto& [name, values] : after)
      for (size_t i = 0; i < values.size(); ++i) values[i] -= before[name][i];
    return std::pair(before, after);
  };
  const std::string norm = "bert.embeddings.LayerNorm.weight", table = "bert.embeddings.position_embeddings.weight";
  const auto [start, plainly] = moved("");
  const auto [same, grouped] = moved("[{weights = \"" + norm + "\", rate = 2, weight_decay = 0.25}, {weights = [\"" +
                                     table + "\"], weight_decay = 0}]");
  EXPECT_EQ(start, same);
  for (size_t i = 0; i < start.at(norm).size(); ++i)  // does not decay by the model's rule
    EXPECT_NEAR(grouped.at(norm)[i], 2 * (plainly.at(norm)[i] - 0.01 * 0.25 * start.at(norm)[i]), 1e-6);
  for (size_t i = 0; i < start.at(table).size(); ++i)
    EXPECT_NEAR(grouped.at(table)[i], plainly.at(table)[i] + 0.01 * 0.5 * start.at(table)[i], 1e-6);
}

TEST(Groups, FrozenWeightsKeepTheirBitsAndHaveNoStates) {
  const std::string frozen =
      "train.groups=[{name = \"still\", weights = [\"bert.embeddings.*\", \"*.0.*\"], frozen = true}]";
  for (const Settings& held :
       std::vector<Settings>{{}, {"train.precision=bf16", "train.weights=split", "train.optimizer.state=bf16"}}) {
    Settings more = held;
    more.push_back(frozen);
    const Preparation ready = prepare(small(more));
    const StepGraph step = make_training_step(ready.workload.model, ready.recipe.train);
    verify(step, "the test");
    int still = 0;
    for (const StateTensor& weight : ready.workload.model.weights) {
      const bool is_still = is_frozen(ready.recipe.train, weight);
      still += is_still;
      const bool has_states = std::any_of(step.states.begin(), step.states.end(), [&](const StateTensor& state) {
        return state.kind != StateKind::kWeight && state.name.ends_with("." + weight.name);
      });
      EXPECT_EQ(has_states, !is_still) << weight.name;
    }
    EXPECT_GT(still, 10);
    std::string expected;
    for (const char* layout :
         {"", "p=2 head=first", "r=2 rts=weights,grads,optimizer", "t=2", "p=2 phases=2 offload=weights,optimizer"}) {
      SCOPED_TRACE(layout);
      Training trainer = make_training(prepare(small(more, layout)), {.threads = 1});
      trainer.initialize();
      const auto bytes_of = [&](const std::string& name) {
        const auto& states = trainer.compiled().states;
        const auto state = std::find_if(states.begin(), states.end(), [&](const auto& s) { return s.name == name; });
        std::vector<std::byte> bytes(static_cast<size_t>(state->type.bytes()));
        trainer.read_state(name, bytes);
        return bytes;
      };
      const std::string one = "bert.embeddings.word_embeddings.weight",
                        other = "cls.predictions.transform.dense.weight";
      const auto before = bytes_of(one), moving = bytes_of(other);
      trainer.step(), trainer.step();
      EXPECT_EQ(bytes_of(one), before);
      EXPECT_NE(bytes_of(other), moving);
      if (expected.empty()) expected = trainer.weights_hash();
      EXPECT_EQ(trainer.weights_hash(), expected);
    }
  }
}

TEST(Groups, ThatContradictAreRefused) {
  const auto refused = [](const std::string& groups) {
    return error_of([&] {
      const Preparation ready = prepare(small({"train.groups=" + groups}));
      make_training_step(ready.workload.model, ready.recipe.train);
    });
  };
  EXPECT_THAT(refused("[{weights = \"bert.embedings.*\", rate = 2}]"),
              HasSubstr("train.groups, 'group1': no weight has a name like this; found 'bert.embedings.*'"));
  EXPECT_THAT(refused("[{weights = \"*\", frozen = true}]"), HasSubstr("all weights are frozen"));
  EXPECT_THAT(refused("[{name = \"a\", weights = \"*\", rate = 2, learning_rate = 1}]"),
              HasSubstr("--set train.groups: a group with a rate and a learning rate of its own; found group 'a'"));
  EXPECT_THAT(refused("[{name = \"a\", weights = \"*\"}, {name = \"a\", weights = \"*\"}]"),
              HasSubstr("two groups have the same name"));
  EXPECT_THAT(refused("[{name = \"a.b\", weights = \"*\"}]"), HasSubstr("letters, digits, _ and -"));
  EXPECT_THAT(refused("[{rate = 2}]"), HasSubstr("a group without weights"));
  EXPECT_THAT(refused("[{weights = \"*\", frozen = true, rate = 2}]"), HasSubstr("a frozen group is not updated"));
}

TEST(Groups, OfARecipeAreReadPrintedAndHashed) {
  const auto parse = [](const std::string& text) { return parse_recipe(text, "bert.toml", "."); };
  const std::string text =
      "[train]\nsteps = 3\n[[train.groups]]\nname = \"head\"\nweights = [\"cls.*\", \"a\\\"b\"]\nrate = 2\n"
      "[[train.groups]]\nweights = \"*.bias\"\nfrozen = true\n";
  const Recipe recipe = parse(text);
  ASSERT_EQ(recipe.train.groups.size(), 2U);
  EXPECT_EQ(recipe.train.groups[0].weights, (std::vector<std::string>{"cls.*", "a\"b"}));
  EXPECT_EQ(recipe.train.groups[0].rate, 2);
  EXPECT_TRUE(recipe.train.groups[1].frozen);
  const std::string printed = print_recipe(recipe);
  EXPECT_EQ(parse(printed).train.groups, recipe.train.groups) << printed;
  EXPECT_EQ(print_recipe(parse(printed)), printed);
  EXPECT_EQ(recipe_hash(parse(printed)), recipe_hash(recipe));
  EXPECT_NE(recipe_hash(parse("[train]\nsteps = 3\n")), recipe_hash(recipe));
  const auto wrong = [&](const std::string& line) {
    return error_of([&] { parse("[[train.groups]]\nweights = \"*\"\n" + line); });
  };
  EXPECT_EQ(wrong("rat = 2"), "bert.toml:3: unknown key 'rat' of a group; expected perhaps 'rate'");
  EXPECT_THAT(wrong("rate = -1"), HasSubstr("bert.toml:3 train.groups.rate: out of range; expected a number from 0"));
  EXPECT_THAT(wrong("beta1 = \"x\""), HasSubstr("bert.toml:3 train.groups.beta1: wrong kind of value"));
  EXPECT_THAT(wrong("frozen = 1"), HasSubstr("bert.toml:3 train.groups.frozen: wrong kind of value; expected true"));
  EXPECT_THAT(error_of([&] { parse("[train]\ngroups = 3\n"); }), HasSubstr("bert.toml:2 train.groups: wrong kind"));
  EXPECT_THAT(error_of([&] { parse("[train]\ngroups = [3]\n"); }), HasSubstr("bert.toml:2 train.groups: wrong kind"));
  EXPECT_THAT(recipe_help("train.groups"), HasSubstr("factor of the learning rate"));
}

TEST(GivenRates, TakeThePlaceOfTheSchedule) {
  const std::string expected = hash_after(small({"train.schedule.learning_rate=0.003"}));
  EXPECT_EQ(hash_after(small(), 2, {{"learning_rate", 0.003}}), expected);
  EXPECT_NE(hash_after(small()), expected);
  // A group follows by its factor, or has its own.
  const std::string factor = "train.groups=[{name = \"head\", weights = \"cls.*\", rate = 0.5}]";
  const std::string halved = hash_after(small({factor, "train.schedule.learning_rate=0.003"}));
  EXPECT_EQ(hash_after(small({factor}), 2, {{"learning_rate", 0.003}}), halved);
  EXPECT_EQ(hash_after(small({factor}), 2, {{"learning_rate", 0.003}, {"learning_rate.head", 0.0015}}), halved);
  EXPECT_NE(hash_after(small({factor}), 2, {{"learning_rate", 0.003}, {"learning_rate.head", 0.001}}), halved);
}

TEST(GivenRates, AreTakenOnAllLayoutsAndToldAsTheStepsRate) {
  const StepScalars given = {{"learning_rate", 0.003}};
  const std::string expected = hash_after(small(), 2, given);
  for (const char* layout : {"p=2 head=first", "r=2 rts=optimizer"})
    EXPECT_EQ(hash_after(small({}, layout), 2, given), expected) << layout;
  Training trainer = make_training(prepare(small()), {.threads = 1});
  trainer.initialize();
  EXPECT_EQ(number_of(trainer.step(given), "learning_rate"), 0.003);
}

TEST(GivenRates, ThatAreWrongLeaveAllAsItWas) {
  Training trainer = make_training(prepare(small({kGroups})), {.threads = 1});
  trainer.initialize();
  const std::string before = trainer.weights_hash();
  EXPECT_EQ(error_of([&] { trainer.step({{"learning_rates", 1}}); }),
            "no such rate of a step; found 'learning_rates'; expected learning_rate, learning_rate.group2, "
            "learning_rate.head");
  EXPECT_THAT(error_of([&] { trainer.step({{"learning_rate.head", NAN}}); }),
              HasSubstr("learning_rate.head: not a rate of a step"));
  EXPECT_THAT(error_of([&] { trainer.step({{"learning_rate", -1}}); }),
              HasSubstr("expected a finite number, 0 or more"));
  EXPECT_EQ(trainer.weights_hash(), before);
  EXPECT_EQ(trainer.steps_done(), 0);
  EXPECT_TRUE(trainer.whole());
  trainer.step();
  EXPECT_EQ(trainer.weights_hash(), hash_after(small({kGroups}), 1)) << "no batch was lost";
}

TEST(StepScalars, FollowTheScheduleOfEachGroup) {
  TrainOptions options;
  options.optimizer.kind = "adam";
  options.steps = 100;
  options.schedule.learning_rate = 1, options.schedule.end = 0.1;
  options.groups = {{.name = "a", .weights = {"x"}, .rate = 0.5},
                    {.name = "b", .weights = {"y"}, .learning_rate = 0.01, .beta1 = 0.5},
                    {.name = "c", .weights = {"z"}, .frozen = true}};
  const auto all = step_scalars(options, 50, {});
  const auto value = [&](const std::string& name) {
    for (const ScalarValue& scalar : all)
      if (scalar.name == name) return scalar.value;
    return std::nan("");
  };
  EXPECT_DOUBLE_EQ(value("learning_rate"), 0.55);
  EXPECT_DOUBLE_EQ(value("learning_rate.a"), 0.275);
  EXPECT_DOUBLE_EQ(value("learning_rate.b"), 0.0055);
  EXPECT_TRUE(std::isnan(value("learning_rate.c")));
  EXPECT_DOUBLE_EQ(value("correction1.b"), 1 - std::pow(0.5, 51));
  EXPECT_DOUBLE_EQ(value("correction1.a"), value("correction1"));
}

}  // namespace
}  // namespace ramet::tests

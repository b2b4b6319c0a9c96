#include "ramet/sweep/sweep_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/file.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

const std::string kHead = "recipe = \"tiny.toml\"\npoints = 8\n";
const std::string kRate = "[parameters]\n'train.schedule.learning_rate' = {low = 1e-5, high = 1e-2, scale = \"log\"}\n";

SweepOptions parsed(const std::string& text) { return sweep::parse_sweep(text, "s.toml", "/folder"); }
std::string fault(const std::string& text) {
  return error_of([&] { parsed(text); });
}

TEST(SweepFile, ReadsEveryKindOfParameter) {
  const SweepOptions options = parsed(kHead + R"(
method = "tpe"
seeds = 3
goal = "max"
[stop]
target = 0.5
[set]
'train.steps' = 40
train.optimizer.beta1 = 0.8
[parameters]
'train.precision' = ["f32", "bf16"]
'train.optimizer.nesterov' = [true, false]
model.layers = {low = 2, high = 8, step = 2}
'train.clip_norm' = {values = [0, 1.5]}
'train.schedule.learning_rate' = {low = 1e-5, high = 1, scale = "log"}
)");
  EXPECT_EQ(options.name, "s");
  EXPECT_EQ(options.recipe, "/folder/tiny.toml");
  EXPECT_EQ(options.seeds, 3);
  EXPECT_TRUE(options.maximizes());
  EXPECT_EQ(options.stop.target, 0.5);
  ASSERT_EQ(options.settings.size(), 2u);
  EXPECT_EQ(setting_of(options.settings[1].first, options.settings[1].second), "train.steps=40");
  ASSERT_EQ(options.parameters.size(), 5u);
  EXPECT_EQ(options.parameters[0].key, "model.layers") << "in alphabetical order";
  EXPECT_EQ(options.parameters[0].kind, Parameter::Kind::kInteger);
  EXPECT_EQ(options.parameters[0].count(), 4);
  EXPECT_EQ(options.parameters[1].values[0], RecipeValue(0.0)) << "a whole number, where the key takes any number";
  EXPECT_EQ(options.parameters[3].values[1], RecipeValue(std::string("bf16")));
  EXPECT_TRUE(options.parameters[4].log);
  EXPECT_EQ(options.parameters[4].high, 1.0);
}

TEST(SweepFile, PrintsWhatParsesBackToTheSame) {
  const SweepOptions options = parsed(kHead + kRate + R"('model.layers' = {low = 1, high = 9, step = 2, grid = 3}
'train.precision' = ["f32", "bf16"]
[use]
parallel = 2
memory = "3GiB"
[set]
'train.steps' = 40
[stop]
seconds = 2.5
)");
  const std::string printed = print_sweep(options);
  EXPECT_EQ(print_sweep(sweep::parse_sweep(printed, "other.toml", "/elsewhere")), printed);
  EXPECT_THAT(printed, HasSubstr("\"train.schedule.learning_rate\" = {low = 1e-05, high = 0.01, scale = \"log\"}"));
  EXPECT_THAT(printed, HasSubstr("name = \"s\""));
}

TEST(SweepFile, NamesTheNearestKeyOfTheSweepAndOfTheRecipe) {
  EXPECT_THAT(fault(kHead + "pointz = 3\n" + kRate),
              HasSubstr("s.toml:3: unknown key 'pointz'; expected perhaps 'points'"));
  EXPECT_THAT(fault(kHead + kRate + "[stop]\nsecnds = 3\n"), HasSubstr("expected perhaps 'stop.seconds'"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.schedule.learningrate' = [1]\n"),
              HasSubstr("s.toml:4: unknown key 'train.schedule.learningrate'; expected perhaps "
                        "'train.schedule.learning_rate'"));
  EXPECT_THAT(fault(kHead + "train.steps = 3\n" + kRate), HasSubstr("a key of the recipe"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.clip_norm' = {low = 1, hihg = 2}\n"), HasSubstr("perhaps 'high'"));
}

TEST(SweepFile, RefusesValuesThatTheRecipeWouldRefuse) {
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.precision' = [\"f33\"]\n"),
              HasSubstr("s.toml:4 train.precision: unknown choice; found 'f33'"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.steps' = [0]\n"), HasSubstr("out of range"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.steps' = {low = 1, high = 2.5}\n"), HasSubstr("wrong kind of value"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.precision' = {low = \"f32\", high = \"bf16\"}\n"),
              HasSubstr("a range is of numbers"));
}

TEST(SweepFile, RefusesWhatDoesNotGoTogether) {
  EXPECT_THAT(fault(kHead), HasSubstr("nothing to vary"));
  EXPECT_THAT(fault("points = 3\n" + kRate), HasSubstr("a sweep has one recipe"));
  EXPECT_THAT(fault("recipe = \"a\"\n" + kRate), HasSubstr("needs a number of points"));
  EXPECT_THAT(fault("recipe = \"a\"\nmethod = \"grid\"\n" + kRate), HasSubstr("a grid needs the number of values"));
  EXPECT_THAT(fault("recipe = \"a\"\nmethod = \"grid\"\npoints = 3\n[parameters]\n'train.seed' = [1, 2]\n"),
              HasSubstr("the grid has 2 points"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.clip_norm' = {low = 0, high = 1, scale = \"log\"}\n"),
              HasSubstr("begins above 0"));
  EXPECT_THAT(fault(kHead + "[parameters]\n'train.clip_norm' = {low = 2, high = 1}\n"), HasSubstr("below `high`"));
  EXPECT_THAT(fault(kHead + "method = \"halving\"\n" + kRate), HasSubstr("halving.steps"));
  EXPECT_THAT(fault(kHead + kRate + "[set]\n'train.schedule.learning_rate' = 1.0\n"), HasSubstr("varied too"));
  EXPECT_THAT(fault(kHead + "name = \"../x\"\n" + kRate), HasSubstr("not a name of a folder"));
  EXPECT_THAT(fault(kHead + kRate + "[use]\ncores = 2\nparallel = 3\n"), HasSubstr("need more than 2 cores"));
  EXPECT_THAT(fault(kHead + kRate + "[use]\nmemory = \"much\"\n"), HasSubstr("s.toml use.memory"));
}

TEST(SweepFile, TakesARecipeInTheFileItself) {
  const SweepOptions options = parsed("points = 1\n[recipe]\nname = \"x\"\n[recipe.train]\nsteps = 7\n" + kRate);
  EXPECT_EQ(base_recipe(options).train.steps, 7);
}

TEST(SweepFile, PathsAreTakenFromTheFilesFolder) {
  const SweepOptions options = parsed(kHead + "[parameters]\n'data.corpus' = [\"a\", \"/b\"]\n");
  EXPECT_EQ(options.parameters[0].values[0], RecipeValue(std::string("/folder/a")));
  EXPECT_EQ(options.parameters[0].values[1], RecipeValue(std::string("/b")));
}

}  // namespace
}  // namespace ramet::tests

// Recipes of models that were saved as files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/model/array_file.h"
#include "ramet/model/model_file.h"
#include "ramet/recipe/array_predictor.h"
#include "ramet/recipe/plan_recipe.h"
#include "support/onnx_file.h"
#include "support/small_arrays.h"
#include "support/small_machine.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelFileRecipe : public ::testing::Test {
 protected:
  ModelFileRecipe() {
    save_model(folder_ / "small.ramet", small_model(), {.name = "rows"});
    save_samples(folder_ / "train.npz", 64);
    save_samples(folder_ / "test.npz", 18, 2);
  }
  Recipe read(const std::string& text, const std::vector<std::string>& settings = {}) {
    return parse_recipe(text, "small.toml", folder_.path(), settings);
  }
  std::string error_of(const std::string& text) {
    try {
      prepare(read(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  Training training(const std::string& layout, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> all = settings;
    all.push_back("layout=" + layout);
    return make_training(prepare(read(small_model_recipe("held_out = \"test.npz\"\n"), all)), {.threads = 1});
  }
  /// Results for a file of arrays, with the weights of a checkpoint.
  std::vector<NamedTensor> predict(const Recipe& recipe, const std::filesystem::path& checkpoint,
                                   const std::string& arrays, const std::string& program,
                                   const std::string& layout = "", std::vector<std::string>* left_out = nullptr) {
    ArrayPredictor predictor(recipe, program, open_arrays(folder_ / arrays), arrays, parse_layout(layout),
                             {.threads = layout.empty() ? 1 : 0});
    predictor.predictor().load(Checkpoint(checkpoint));
    if (left_out) *left_out = predictor.left_out();
    return predictor.predict();
  }
  TemporaryFolder folder_;
};

TEST_F(ModelFileRecipe, IsCompletedByTheModelAndReadsBack) {
  const Preparation ready =
      prepare(read("[model]\nfile = \"small.ramet\"\n[data]\ntrain = \"train.npz\"\nheld_out_share = 0.25\n"
                   "[train]\nepochs = 2\naccumulation = 4\n"));
  EXPECT_EQ(ready.recipe.model.kind, "file");
  EXPECT_EQ(ready.recipe.train.micro_batch, kSmallBatch);
  EXPECT_EQ(ready.recipe.train.steps, 6) << "two epochs of 48 samples, 16 a step";
  EXPECT_EQ(ready.workload.units.name, "rows");
  EXPECT_EQ(ready.workload.train->epoch_samples(0), 48);
  EXPECT_EQ(ready.workload.held_out->epoch_samples(0), 16);
  const std::string printed = print_recipe(ready.recipe);
  for (const char* key : {"preset", "sequence_length", "corpus", "vocabulary"})
    EXPECT_THAT(printed, Not(HasSubstr(key))) << "keys of models of text";
  const Recipe again = parse_recipe(printed, "printed.toml", "/", {});
  EXPECT_EQ(print_recipe(again), printed);
  EXPECT_EQ(recipe_hash(again), recipe_hash(ready.recipe));
  EXPECT_EQ(prepare(read("model.file = \"small.ramet\"\n")).recipe.train.micro_batch, kSmallBatch)
      << "without data it can be planned";
}

TEST_F(ModelFileRecipe, ErrorsNameTheLineOfTheRecipeAndWhatIsWrong) {
  const std::string model = "[model]\nfile = \"small.ramet\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {"model.kind = \"file\"\n", "small.toml:1 model.kind: model.kind = \"file\" needs model.file"},
      {"[data]\ntrain = \"x.npz\"\n",
       "small.toml:2 data.train: a key of models that read arrays; found a recipe of a bert, roberta, distilbert"},
      {"[data]\nkind = \"arrays\"\n",
       "small.toml:2 data.kind: data of a kind that the model does not read; found \"arrays\""},
      {model + "layers = 2\n", "small.toml:3 model.layers: a key of models of text; found a recipe of a model file"},
      {model + "preset = \"mini\"\n", "small.toml:3 model.preset: a key of models with sizes by name"},
      {model + "kind = \"bert\"\n", "model.file: a key of a model file without a model file"},
      {model + "[data]\nkind = \"synthetic\"\n",
       "small.toml:4 data.kind: data of a kind that the model does not read; found \"synthetic\" for model.kind = "
       "\"file\"; "
       "expected arrays"},
      {model + "[train]\nmicro_batch = 8\n",
       "small.toml:4 train.micro_batch: the model was saved for another number of samples a micro-batch; found 8; "
       "expected 4"},
      {model + "[data]\nheld_out_share = 0.1\n", "small.toml:4 data.held_out_share: a share of no samples"},
      {model + "[data]\ntrain = \"train.npz\"\nheld_out = \"test.npz\"\nheld_out_share = 0.1\n",
       "small.toml:6 data.held_out_share: held-out samples are a file or a share, not both"},
      {model + "[data]\ntrain = \"none.npz\"\n", "small.toml:4 data.train, "},
      {"model.file = \"train.npz\"\n", "small.toml:1 model.file, "},
      {"model.file = \"no.ramet\"\n", "no.ramet: cannot open the file"},
      {"[model]\nfil = \"small.ramet\"\n", "small.toml:2: unknown key 'model.fil'; expected perhaps 'model.file'"},
  };
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    EXPECT_THAT(error_of(text), HasSubstr(expected));
  }
}

TEST_F(ModelFileRecipe, ArraysOfOtherNamesTypesAndShapesAreRefusedByName) {
  const auto error = [&](const std::vector<NamedTensor>& arrays) {
    save_npz(folder_ / "train.npz", arrays);
    return error_of(small_model_recipe());
  };
  const NamedTensor labels = array_of("labels", DType::kI32, {8}, std::vector<int32_t>(8));
  EXPECT_THAT(
      error({array_of("row", DType::kF32, {8, 8}, std::vector<float>(64)), labels}),
      ::testing::AllOf(HasSubstr("small.toml:5 data.train, "), HasSubstr("train.npz: the tensors are not those"),
                       HasSubstr("'rows' f32[4,8] is missing (there is 'row')")));
  EXPECT_THAT(error({array_of("rows", DType::kF32, {8, 7}, std::vector<float>(56)), labels}),
              HasSubstr("'rows' is f32[4,7], not f32[4,8]"));
  EXPECT_THAT(error({array_of("rows", DType::kI32, {8, 8}, std::vector<int32_t>(64)), labels}),
              HasSubstr("an array cannot be delivered in the type that the model takes; found i32; expected f32"));
  EXPECT_THAT(error({array_of("rows", DType::kF32, {9, 8}, std::vector<float>(72)), labels}),
              HasSubstr("arrays have different numbers of samples"));
}

TEST_F(ModelFileRecipe, AModelWithoutSamplesInFrontIsRefused) {
  Model model = small_model();
  GraphBuilder build(model.evaluate);
  build.output("sum", reduce_sum(build.input("table", DType::kF32, {7, 2})));
  save_model(folder_ / "small.ramet", model);
  EXPECT_THAT(
      error_of(small_model_recipe()),
      HasSubstr("small.toml:2 model.file: the model's inputs do not all have samples as their first dimension, as "
                "arrays have; found 'table' f32[7,2]; expected 4 samples, as 'rows' has"));
}

TEST_F(ModelFileRecipe, TrainsAsTheProgramThatSavedIt) {
  std::string hash;
  for (const int64_t seed : {0, 7}) {
    const std::string setting = "train.seed=" + std::to_string(seed);
    Training first = training("threads=1", {setting});
    first.initialize();
    Preparation ready = prepare(read(small_model_recipe(), {setting}));
    Workload own;
    own.model = with_seed(small_model(), seed);  // dropout, too, follows the recipe's seed
    own.train = ready.workload.train;
    Training second(std::move(own), ready.options, parse_layout("threads=1"), {.threads = 1});
    second.initialize();
    for (int i = 0; i < 4; ++i) first.step(), second.step();
    EXPECT_EQ(first.weights_hash(), second.weights_hash());
    EXPECT_NE(first.weights_hash(), hash);
    hash = first.weights_hash();
  }
}

TEST_F(ModelFileRecipe, AnyLayoutGivesTheSameBits) {
  std::string hash;
  Numbers numbers;
  for (const char* layout : {"threads=1", "p=2 threads=1", "r=2 rts=optimizer threads=1", "t=2 threads=1",
                             "p=2 phases=2 offload=optimizer threads=1"}) {
    SCOPED_TRACE(layout);
    Training trained = training(layout);
    trained.initialize();
    for (int i = 0; i < 4; ++i) trained.step();
    if (hash.empty()) hash = trained.weights_hash(), numbers = trained.evaluate();
    EXPECT_EQ(trained.weights_hash(), hash);
    EXPECT_EQ(trained.evaluate(), numbers);
    EXPECT_FALSE(std::isnan(number_of(numbers, "accuracy")));
  }
}

const NamedTensor& result_of(const std::vector<NamedTensor>& results, const std::string& name) {
  for (const NamedTensor& result : results)
    if (result.name == name) return result;
  throw std::runtime_error("no result " + name);
}

std::vector<double> numbers_in(const NamedTensor& tensor) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < tensor.type.elements(); ++i)
    numbers.push_back(load_element(tensor.bytes.data(), tensor.type.dtype, i));
  return numbers;
}

TEST_F(ModelFileRecipe, PredictsWhatTheEvaluationOfTheTrainingSays) {
  for (const char* precision : {"f32", "bf16"}) {
    SCOPED_TRACE(precision);
    Training trained = training("p=2 threads=1", {std::string("train.precision=") + precision});
    trained.initialize();
    for (int i = 0; i < 6; ++i) trained.step();
    const auto saved = trained.save(folder_ / precision);
    const Numbers evaluated = trained.evaluate();  // 4 whole micro-batches
    const Recipe recipe = prepare(read(small_model_recipe(), {std::string("train.precision=") + precision})).recipe;
    const std::vector<NamedTensor> results = predict(recipe, saved, "test.npz", "evaluate");
    EXPECT_EQ(result_of(results, "logits").type.shape, (Shape{18, kSmallClasses}));
    EXPECT_EQ(result_of(results, "loss").type.shape, (Shape{4})) << "the fifth micro-batch is not whole";
    double sum = 0;
    for (const double loss : numbers_in(result_of(results, "loss"))) sum += loss;
    EXPECT_EQ(sum / 4, number_of(evaluated, "loss"));
    const auto classes = numbers_in(result_of(results, "class"));
    const SmallSamples samples(18, 2);
    double right = 0;
    for (size_t i = 0; i < 16; ++i) right += classes[i] == samples.labels[i];
    EXPECT_EQ(right / 16, number_of(evaluated, "accuracy"));
    for (const char* layout : {"p=2 threads=1", "t=2 threads=1", "r=2 threads=1", "p=2 t=2 threads=1"}) {
      SCOPED_TRACE(layout);
      const std::vector<NamedTensor> others = predict(recipe, saved, "test.npz", "evaluate", layout);
      ASSERT_EQ(others.size(), results.size());
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(others[i].type, results[i].type) << results[i].name;
        EXPECT_TRUE(others[i].bytes == results[i].bytes) << results[i].name;
      }
    }
    // Without labels, and one row alone: the same rows.
    save_npz(folder_ / "row.npz",
             {array_of("rows", DType::kF32, {1, kSmallWidth},
                       std::vector<float>(samples.rows.begin() + 17 * kSmallWidth, samples.rows.end()))});
    std::vector<std::string> left_out;
    const auto row = predict(recipe, saved, "row.npz", "", "", &left_out);
    EXPECT_THAT(left_out, ElementsAre("loss", "correct", "rows_counted"));
    EXPECT_EQ(result_of(row, "class").type.shape, (Shape{1}));
    EXPECT_EQ(numbers_in(result_of(row, "class"))[0], classes[17]);
    const auto features = predict(recipe, saved, "row.npz", "features");
    EXPECT_EQ(result_of(features, "first").type.shape, (Shape{1, kSmallHidden}));
  }
}

TEST_F(ModelFileRecipe, PredictionTellsHowFarItIs) {
  const Recipe recipe = prepare(read(small_model_recipe())).recipe;
  ArrayPredictor predictor(recipe, "", open_arrays(folder_ / "test.npz"), "test.npz", {}, {.threads = 1});
  predictor.predictor().initialize();
  std::vector<int64_t> begun;
  predictor.predict([&](int64_t samples, int64_t total) {
    begun.push_back(samples);
    EXPECT_EQ(total, 18);
  });
  EXPECT_THAT(begun, ElementsAre(4, 8, 12, 16, 18));
}

TEST_F(ModelFileRecipe, TheProgramOfTheOutputsIsTheUsualOne) {
  Model model = small_model();
  model.programs.back().name = "predict";
  save_model(folder_ / "small.ramet", model);
  const Recipe recipe = prepare(read(small_model_recipe())).recipe;
  ArrayPredictor predictor(recipe, "", open_arrays(folder_ / "test.npz"), "test.npz", {}, {.threads = 1});
  predictor.predictor().initialize();
  const auto results = predictor.predict();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].name, "first");
}

TEST_F(ModelFileRecipe, WhatCannotBePredictedIsSaid) {
  const Recipe recipe = prepare(read(small_model_recipe())).recipe;
  const auto error = [&](const std::string& program, const std::vector<NamedTensor>& arrays) {
    save_npz(folder_ / "in.npz", arrays);
    try {
      ArrayPredictor(recipe, program, open_arrays(folder_ / "in.npz"), (folder_ / "in.npz").string(), {},
                     {.threads = 1});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const NamedTensor rows = array_of("rows", DType::kF32, {2, kSmallWidth}, std::vector<float>(16));
  EXPECT_EQ(error("evaluate", {rows}), "no error");
  EXPECT_THAT(
      error("turn", {rows}),
      HasSubstr(
          "--program: the model has no program on request of this name; found 'turn'; expected evaluate, features"));
  EXPECT_THAT(
      error("features", {array_of("labels", DType::kI32, {2}, std::vector<int32_t>(2))}),
      HasSubstr("in.npz: every result of 'features' needs an input that the arrays lack; found labels; expected rows"));
  EXPECT_THAT(error("evaluate", {array_of("rows", DType::kF32, {2, 3}, std::vector<float>(6))}),
              HasSubstr("'rows' is f32[4,3], not f32[4,8]"));
}

TEST_F(ModelFileRecipe, ThePlannerKeepsTheModelsBatch) {
  const Machine machine = parse_machine(small_machine_text("two", 2, "64 MiB", true), "two.toml");
  RecipePlanner planner(read(small_model_recipe()), machine, "auto", {.threads = 1});
  const SearchResult result = planner.search({.evaluations = 3}, [](const SearchProgress&) {}, [] { return false; });
  ASSERT_FALSE(result.fitting.empty());
  for (const Evaluated& each : result.fitting)
    EXPECT_EQ(planner.recipe_of(each.candidate).train.micro_batch, kSmallBatch);
}

/// What is fixed in a file of another program is said once, before the run.
TEST_F(ModelFileRecipe, FrozenBatchNormsAreSaidOnce) {
  using namespace onnx;
  const Graph graph{
      .nodes = {node("Conv", {"x", "filter"}, {"c"}),
                node("BatchNormalization", {"c", "gain", "bias", "mean", "variance"}, {"n"}),
                node("ReduceMean", {"n"}, {"loss"}, {integer("keepdims", 0)})},
      .initializers = {floats("filter", {2, 1, 1, 1}, {1, 2}), floats("gain", {2}, {1, 1}), floats("bias", {2}, {0, 1}),
                       floats("mean", {2}, {0.5, 0}), floats("variance", {2}, {1, 2})},
      .inputs = {value("x", 1, {2, 1, 2, 2})},
      .outputs = {value("loss", 1, {})}};
  write_file_atomic(folder_ / "norm.onnx", onnx::model(graph));
  EXPECT_THAT(prepare(read("model.file = \"norm.onnx\"\n")).workload.remarks,
              ElementsAre(HasSubstr("1 batch norm keeps the mean and variance of the file")));
  EXPECT_THAT(prepare(read("model.file = \"small.ramet\"\n")).workload.remarks, ElementsAre());
}

}  // namespace
}  // namespace ramet::tests

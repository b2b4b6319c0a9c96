// Models for use: the bits of the evaluation beside training, on any layout, and any number of samples.
#include "ramet/train/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/rng.h"
#include "ramet/recipe/text_predictor.h"
#include "ramet/train/evaluate.h"
#include "support/errors.h"
#include "support/small_training.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

TEST(Predictor, EvaluatesWithTheBitsOfTrainingOnAnyLayout) {
  for (const std::string kind : {"bert", "gpt2"})
    for (const std::string more : {"train.precision=f32", "train.precision=bf16", "train.weights=bf16"}) {
      SCOPED_TRACE(kind + " " + more);
      const auto prepared = [&] {
        return std::move(SmallTraining(kind, {more, "train.evaluation.batches=3"}).preparation);
      };
      const TemporaryFolder folder;
      Preparation preparation = prepared();
      preparation.recipe.layout = {};
      Training training(std::move(preparation.workload), preparation.options, parse_layout("p=2 t=2 r=2 rts=optimizer"),
                        Where{});
      training.initialize();
      training.step();
      const Checkpoint checkpoint(training.save(folder.path()));
      const Numbers wanted = training.evaluate();
      ASSERT_FALSE(wanted.empty());
      for (const char* layout : {"", "p=2", "t=2", "r=2", "p=2 phases=2 offload=weights"}) {
        SCOPED_TRACE(layout);
        const Preparation again = prepared();
        Predictor predictor(again.workload.model, again.options, parse_layout(layout), Where{}, {"evaluate"});
        predictor.load(checkpoint);
        EXPECT_EQ(evaluate(predictor.cluster(), again.workload, again.options), wanted);
        EXPECT_EQ(predictor.weights_hash(), checkpoint.info().weights_hash);
      }
    }
}

/// A small BERT that gives the two likeliest words of three masks of a text; `batch` texts at once.
struct Filler {
  Recipe recipe = SmallTraining("bert", {"train.precision=f32"}).preparation.recipe;
  Predictor predictor;

  explicit Filler(int64_t batch, const std::string& layout = "")
      : predictor(build_mask_model(recipe, batch, 3, 2), recipe.train, parse_layout(layout), Where{}, {"predict"}) {
    predictor.initialize();
  }
};

std::vector<NamedTensor> texts_of(int64_t samples) {
  const RandomStream random(2, RandomPurpose::kTest, 0, 0);
  std::vector<NamedTensor> inputs;
  for (const auto& [name, width, bound] :
       {std::tuple("input_ids", 12, 96), std::tuple("token_type_ids", 12, 2), std::tuple("attention_mask", 12, 2),
        std::tuple("masked_positions", 3, 12)}) {
    HostTensor tensor(TensorType{DType::kI32, Shape{samples, width}});
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, random.below(static_cast<uint64_t>(i) + 1000 * hash64(name) % 7, static_cast<uint32_t>(bound)));
    inputs.push_back({name, tensor.type, tensor.data});
  }
  return inputs;
}

TEST(Predictor, TakesAnyNumberOfSamples) {
  std::vector<NamedTensor> wanted;
  for (const int64_t batch : {1, 3, 8})
    for (const char* layout : {"", "r=2", "p=2 t=2"}) {
      Filler filler(batch, layout);
      for (const int64_t samples : {7, 1, 3}) {
        SCOPED_TRACE(std::to_string(samples) + " by " + std::to_string(batch) + " " + layout);
        const std::vector<NamedTensor> found = filler.predictor.run("predict", texts_of(samples));
        ASSERT_EQ(found.size(), 2u);
        EXPECT_EQ(found[0].type, (TensorType{DType::kF32, Shape{samples, 3, 2}}));
        if (wanted.empty()) wanted = found;
        if (samples == 7) {
          EXPECT_EQ(found[0].bytes, wanted[0].bytes);
          EXPECT_EQ(found[1].bytes, wanted[1].bytes);
        }
      }
      EXPECT_EQ(filler.predictor.times().calls, 3);
      EXPECT_EQ(filler.predictor.times().samples, 11);
      EXPECT_GE(filler.predictor.times().latency(0.99), filler.predictor.times().latency(0.5));
    }
  EXPECT_EQ(Filler(2).predictor.run("predict", texts_of(0)).at(0).type.shape, (Shape{0, 3, 2}));
}

TEST(Predictor, ResultsOfWholeBatchesAreRefusedForParts) {
  const Recipe recipe = SmallTraining("gpt2", {"train.precision=f32"}).preparation.recipe;  // batches of 2
  Predictor predictor(build_model(recipe), recipe.train, Layout{}, Where{}, {"evaluate"});
  predictor.initialize();
  const auto inputs = [](int64_t samples) {
    std::vector<NamedTensor> all = texts_of(samples);
    all.resize(2);
    all[1] = all[0];
    all[1].name = "labels";
    return all;
  };
  EXPECT_EQ(predictor.run("evaluate", inputs(2), {"loss"}).at(0).type.shape, Shape{});
  EXPECT_EQ(predictor.run("evaluate", inputs(4), {"loss"}).at(0).type.shape, Shape{2});
  EXPECT_THAT(error_of([&] { predictor.run("evaluate", inputs(3)); }),
              HasSubstr("result 'loss' belongs to a whole batch; found 3 samples; expected a multiple of 2"));
}

TEST(Predictor, NamesWhatDoesNotFit) {
  Filler filler(2);
  const auto refused = [&](std::vector<NamedTensor> inputs, const std::vector<std::string>& wanted = {}) {
    return error_of([&] { filler.predictor.run("predict", inputs, wanted); });
  };
  std::vector<NamedTensor> inputs = texts_of(3);
  EXPECT_THAT(refused({inputs.begin(), inputs.begin() + 3}),
              HasSubstr("program 'predict': inputs are missing; expected masked_positions i32[2,3]"));
  EXPECT_THAT(refused(inputs, {"loss"}),
              HasSubstr("the program has no such result; found 'loss'; expected top_values, top_indices"));
  inputs.push_back({"labels", inputs[0].type, inputs[0].bytes});
  EXPECT_THAT(refused(inputs), HasSubstr("the program has no such input; found 'labels'"));
  inputs.pop_back();
  inputs[1] = texts_of(2)[1];
  EXPECT_THAT(refused(inputs),
              HasSubstr("the inputs have different numbers of samples; found 'token_type_ids' 2; expected 3"));
  inputs[1] = {"token_type_ids", {DType::kF32, Shape{3, 12}}, inputs[0].bytes};
  EXPECT_THAT(
      refused(inputs),
      HasSubstr("input 'token_type_ids' has another type; found f32[3,12]; expected i32[1,12] for each sample"));
  EXPECT_THAT(error_of([&] { filler.predictor.run("evaluate", {}); }),
              HasSubstr("the predictor has no program of this name; found 'evaluate'; expected predict"));
  EXPECT_THAT(
      error_of([&] { Predictor(filler.predictor.model(), filler.recipe.train, Layout{}, Where{}, {"answers"}); }),
      HasSubstr("the model has no program of this name; found 'answers'; expected one of evaluate, predict"));
}

}  // namespace
}  // namespace ramet::tests

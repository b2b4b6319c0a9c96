#include "ramet/train/loss_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "ramet/kernel/interpret.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/step.h"
#include "ramet/train/training.h"
#include "ramet/transform/differentiate.h"

// A loss that is the mean over all items of a step.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

Recipe small(const Settings& more = {}, const std::string& layout = "") {
  Settings settings = {"model.preset=mini",        "model.layers=4",
                       "model.hidden=32",          "model.heads=4",
                       "model.vocabulary_size=96", "model.max_positions=32",
                       "model.dropout=0",          "model.attention_dropout=0",
                       "data.sequence_length=32",  "data.masking.max_predictions=8",
                       "data.packing=spfhp",  // sequences of any length
                       "train.sums=blocks",        "train.micro_batch=2",
                       "train.accumulation=4",     "train.lanes=2",
                       "train.chunks=2",           "train.precision=f32",
                       "train.loss_mean=step",     "train.evaluation.batches=0"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe recipe = parse_recipe("", "small.toml", ".", settings);
  set_layout(recipe, layout);
  return recipe;
}

/// Weights before and what one step of plain descent with rate 1 takes off them: the gradient.
struct Descent {
  std::map<std::string, std::vector<float>> before, gradient;
  double norm = 0, loss = 0;
};

Descent descend(Settings more, const std::string& layout = "") {
  more.insert(more.end(), {"train.optimizer.kind=sgd", "train.optimizer.momentum=0", "train.optimizer.weight_decay=0",
                           "train.clip_norm=0", "train.schedule.kind=constant", "train.schedule.learning_rate=1"});
  Training trainer = make_training(prepare(small(more, layout)), {.threads = 1});
  trainer.initialize();
  const auto read = [&] {
    std::map<std::string, std::vector<float>> weights;
    for (const StateTensor& weight : trainer.model().weights) {
      auto& values = weights[weight.name];
      values.resize(static_cast<size_t>(weight.type.elements()));
      trainer.read_state(weight.name, std::as_writable_bytes(std::span(values)));
    }
    return weights;
  };
  Descent result{.before = read(), .gradient = {}};
  const Numbers numbers = trainer.step();
  result.norm = number_of(numbers, "grad_norm"), result.loss = number_of(numbers, "loss");
  const auto after = read();
  for (const auto& [name, values] : result.before)
    for (size_t i = 0; i < values.size(); ++i) result.gradient[name].push_back(values[i] - after.at(name)[i]);
  return result;
}

/// Gradients of the same samples as one batch, by kernels in double.
std::map<std::string, HostTensor> reference(const Descent& start, const Settings& more) {
  Settings all = more;
  all.insert(all.end(), {"train.micro_batch=8", "train.accumulation=1", "train.lanes=1", "train.chunks=1"});
  const Preparation ready = prepare(small(all));
  std::vector<std::string> names;
  std::map<std::string, HostTensor> feeds;
  for (const StateTensor& weight : ready.workload.model.weights) {
    names.push_back(weight.name);
    HostTensor tensor(weight.type);
    std::memcpy(tensor.data.data(), start.before.at(weight.name).data(), tensor.data.size());
    feeds.emplace(weight.name, std::move(tensor));
  }
  for (const NamedTensor& tensor : ready.workload.train->make(0, 8).tensors) {
    HostTensor fed(tensor.type);
    fed.data = tensor.bytes;
    feeds.emplace(tensor.name, std::move(fed));
  }
  const Graph graph = differentiate(ready.workload.model.forward, "loss", names);
  const auto values = interpret(graph, reference_backend(), feeds);
  std::map<std::string, HostTensor> results;
  for (size_t i = 0; i < values.size(); ++i) results[graph.outputs()[i].name] = values[i];
  return results;
}

/// The largest difference from the reference, as a share of the largest element of all gradients.
double off(const Descent& found, const std::map<std::string, HostTensor>& expected) {
  double most = 0, largest = 0;
  for (const auto& [name, values] : found.gradient) {
    const HostTensor& gradient = expected.at("grad." + name);
    for (int64_t i = 0; i < gradient.elements(); ++i) {
      most = std::max(most, std::fabs(values[static_cast<size_t>(i)] - gradient.get(i)));
      largest = std::max(largest, std::fabs(gradient.get(i)));
    }
  }
  return most / largest;
}

TEST(LossMean, OfAStepIsThatOfOneBatchOfAllSamples) {
  const std::vector<Settings> models = {
      {"data.next_sentence=true"}, {"data.next_sentence=false"}, {"data.packing_depth=1"}};
  for (const Settings& model : models) {
    SCOPED_TRACE(model.back());
    const Descent step = descend(model);
    const auto expected = reference(step, model);
    // Micro-batches have different numbers of masked words, or the test would show nothing.
    Settings micro = model;
    micro.push_back("train.loss_mean=micro");
    EXPECT_GT(off(descend(micro), expected), 1e-3);
    EXPECT_LT(off(step, expected), 2e-5);
    EXPECT_NEAR(step.loss, expected.at("loss").get(0), 1e-5);
    double squares = 0;
    for (const auto& [name, values] : step.gradient)
      for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(step.norm / std::sqrt(squares), 1, 1e-4);
  }
}

TEST(LossMean, OfAStepHasTheBitsOfOneDeviceOnEveryLayout) {
  const std::vector<Settings> recipes = {
      {"model.dropout=0.1"},
      {"data.next_sentence=false", "train.scaling=unit"},
      {"train.precision=f16", "train.accumulators=f16", "train.loss_scale=auto", "train.loss_scale_start=1024"},
      {"train.precision=bf16", "train.weights=split", "train.optimizer.kind=adafactor"}};
  const auto trained = [](const Settings& more, const std::string& layout) {
    Training trainer = make_training(prepare(small(more, layout)), {.threads = 1});
    trainer.initialize();
    trainer.step(), trainer.step();
    return trainer.weights_hash();
  };
  for (const Settings& more : recipes) {
    const std::string expected = trained(more, "");
    for (const char* layout :
         {"p=2 head=first", "r=2 rts=weights,grads,optimizer", "phases=2 offload=weights,grads,optimizer,activations",
          "p=2 t=2 r=2 head=first rts=optimizer"}) {
      SCOPED_TRACE(more.front() + " " + layout);
      EXPECT_EQ(trained(more, layout), expected);
    }
  }
}

TEST(LossMean, OfAStepKeepsTheMeaningOfTheLossScaleAndOfClipping) {
  const Descent plain = descend({}), scaled = descend({"train.loss_scale=1024"});
  EXPECT_EQ(plain.gradient, scaled.gradient) << "a power of two";
  EXPECT_EQ(plain.norm, scaled.norm);
}

TEST(LossMean, WithoutItemsChangesNothingAndNamesTheMetric) {
  const Preparation ready = prepare(small({"train.optimizer.kind=adamw"}));
  const StepGraph step = make_training_step(ready.workload.model, ready.recipe.train);
  std::map<std::string, HostTensor> feeds;
  for (const GraphInput& input : step.update.inputs()) {
    const Value& value = step.update.value(input.value);
    HostTensor tensor(value.type);
    // Sums of gradients too, which would move the weights; of items those of one part alone.
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, value.name == "accumulator.items.mlm_loss" ? 0 : 0.1 + 0.001 * static_cast<double>(i % 7));
    feeds[value.name] = tensor;
  }
  const auto run = [&] {
    std::map<std::string, HostTensor> results;
    const auto values = interpret(step.update, reference_backend(), feeds);
    for (size_t i = 0; i < values.size(); ++i) results[step.update.outputs()[i].name] = values[i];
    return results;
  };
  auto results = run();
  EXPECT_FALSE(std::isfinite(results.at("grad_norm").get(0))) << "the guard that ends the step";
  for (const StateTensor& state : step.states)
    if (state.kind == StateKind::kWeight || state.kind == StateKind::kOptimizer)
      EXPECT_EQ(results.at(state.name).data, feeds.at(state.name).data) << state.name;
  feeds.at("accumulator.items.mlm_loss").set(0, 3);
  results = run();
  EXPECT_TRUE(std::isfinite(results.at("grad_norm").get(0)));
  EXPECT_NE(results.at(ready.workload.model.weights[0].name).data, feeds.at(ready.workload.model.weights[0].name).data);

  const auto parts = loss_parts(ready.workload.model, ready.recipe.train);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(metric_without_items(parts, {{{"mlm_count", 0}, {"nsp_count", 2}}, {{"mlm_count", 0}, {"nsp_count", 0}}}),
            "mlm_loss");
  EXPECT_EQ(metric_without_items(parts, {{{"mlm_count", 0}, {"nsp_count", 2}}, {{"mlm_count", 1}, {"nsp_count", 0}}}),
            "");
  EXPECT_THAT(
      no_items_error("mlm_loss", 4).what(),
      HasSubstr("step 5: the loss of the step is a mean of no items, so nothing was changed; found a denominator "
                "of 0 for metric 'mlm_loss'"));
}

TEST(LossMean, OfAStepNeedsDeclaredDenominators) {
  const Preparation ready = prepare(small());
  const auto refused = [&](const std::function<void(Model&, TrainOptions&)>& change) -> std::string {
    Model model = ready.workload.model;
    TrainOptions options = ready.recipe.train;
    change(model, options);
    try {
      make_training_step(model, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refused([](Model& model, TrainOptions&) { model.metrics.clear(); }),
              HasSubstr("train.loss_mean = \"step\": the model does not declare of what its loss is the mean; found "
                        "metric 'loss'"));
  EXPECT_THAT(refused([](Model& model, TrainOptions&) {
                std::erase_if(model.metrics, [](const Metric& metric) { return metric.name == "nsp_loss"; });
              }),
              HasSubstr("metric 'nsp_loss'"));
  EXPECT_THAT(refused([](Model& model, TrainOptions&) { model.metrics[0].parts.clear(); }),
              HasSubstr("is not declared as a mean of items; found metric 'loss'"));
  EXPECT_THAT(refused([](Model& model, TrainOptions&) { model.metrics[1].denominator = "words"; }),
              HasSubstr("the model has no output 'words'; found metric 'mlm_loss'"));
  EXPECT_THAT(refused([](Model& model, TrainOptions& options) {
                model.limit_items("mlm_loss", 0);
                options.precision = "f16";
              }),
              HasSubstr("in f16 the size of the denominator must be known; found metric 'mlm_loss'"));
  EXPECT_EQ(refused([](Model&, TrainOptions& options) { options.loss_mean = "micro"; }), "no error");
}

TEST(LossMean, IsNotInTheHashOfRecipesThatAreOlder) {
  const auto parse = [](const Settings& settings) { return parse_recipe("", "a.toml", ".", settings); };
  EXPECT_EQ(recipe_hash(parse({"train.loss_mean=micro"})), recipe_hash(parse({})));
  EXPECT_NE(recipe_hash(parse({"train.loss_mean=step"})), recipe_hash(parse({})));
}

}  // namespace
}  // namespace ramet::tests

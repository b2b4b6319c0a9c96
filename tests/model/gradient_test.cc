#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/hash.h"
#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/model/presets.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/precision.h"

namespace ramet::tests {
namespace {

using Feeds = std::map<std::string, HostTensor>;

/// Weights as the models start with, data that means something to their losses.
Feeds feeds_of(const Graph& graph, int64_t vocabulary, int64_t positions) {
  Feeds feeds;
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    HostTensor tensor(value.type);
    const RandomStream stream(1, RandomPurpose::kTest, 0, hash64(value.name));
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const uint64_t element = static_cast<uint64_t>(i);
      double number = 0;
      if (input.role == InputRole::kState) {
        const bool gain =
            value.name.find("orm.weight") != std::string::npos || value.name.find("ln_") != std::string::npos;
        number = 0.2 * stream.normal(element) + (gain ? 1 : 0);
      } else if (value.name == "input_ids" || value.name.find("labels") != std::string::npos) {
        number = stream.below(element, static_cast<uint32_t>(vocabulary));
      } else if (value.name == "masked_positions") {
        number = stream.below(element, static_cast<uint32_t>(positions));
      } else if (value.name == "attention_mask") {
        number = stream.below(element, 4) != 0;
      } else {
        number = stream.below(element, 2);  // token types, next-sentence labels, the counter
      }
      tensor.set(i, number);
    }
    feeds[value.name] = std::move(tensor);
  }
  return feeds;
}

std::map<std::string, HostTensor> run(const Graph& graph, const Feeds& feeds) {
  const auto results = interpret(graph, reference_backend(), feeds);
  std::map<std::string, HostTensor> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[graph.outputs()[i].name] = results[i];
  return outputs;
}

std::vector<std::string> names_of(const std::vector<StateTensor>& weights) {
  std::vector<std::string> names;
  for (const StateTensor& weight : weights) names.push_back(weight.name);
  return names;
}

/// For each weight: the derivative of the loss along a random direction, by the gradient and by finite differences.
void expect_gradients(const Model& model, const Feeds& feeds) {
  const auto gradients = run(differentiate(model.forward, "loss", names_of(model.weights)), feeds);
  for (const StateTensor& weight : model.weights) {
    const RandomStream stream(2, RandomPurpose::kTest, 0, hash64(weight.name));
    const HostTensor& gradient = gradients.at("grad." + weight.name);
    const auto loss = [&](double step) {
      Feeds moved = feeds;
      for (int64_t i = 0; i < gradient.elements(); ++i) {
        const double direction =
            stream.normal(static_cast<uint64_t>(i)) / std::sqrt(static_cast<double>(gradient.elements()));
        moved[weight.name].set(i, feeds.at(weight.name).get(i) + step * direction);
      }
      return run(model.forward, moved).at("loss").get(0);
    };
    double along = 0;
    for (int64_t i = 0; i < gradient.elements(); ++i)
      along += gradient.get(i) * stream.normal(static_cast<uint64_t>(i)) /
               std::sqrt(static_cast<double>(gradient.elements()));
    const double h = 0.02;
    const double numeric = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h);
    EXPECT_NEAR(along, numeric, 2e-3 * std::max(0.05, std::fabs(numeric))) << weight.name;
  }
}

/// The loss and the gradients in bf16 with chunked sums are near those in f32.
void expect_low_precision_near(const Model& model, const Feeds& feeds) {
  const auto full = run(differentiate(model.forward, "loss", names_of(model.weights)), feeds);
  const Graph low_graph =
      set_chunks(differentiate(lower_precision(model.forward, DType::kBF16), "loss", names_of(model.weights)), 2);
  verify(low_graph, "precision");
  const auto low = run(low_graph, feeds);
  EXPECT_NEAR(low.at("loss").get(0), full.at("loss").get(0), 0.02 * full.at("loss").get(0));
  for (const StateTensor& weight : model.weights) {
    const HostTensor &a = low.at("grad." + weight.name), &b = full.at("grad." + weight.name);
    EXPECT_EQ(a.type, b.type) << weight.name;
    double difference = 0, size = 0;
    for (int64_t i = 0; i < a.elements(); ++i)
      difference += std::pow(a.get(i) - b.get(i), 2), size += std::pow(b.get(i), 2);
    EXPECT_LE(std::sqrt(difference), 0.05 * std::sqrt(size) + 1e-3) << weight.name;
  }
}

BertConfig small_bert(double dropout, double attention_dropout) {
  return {.layers = 1,
          .hidden = 8,
          .heads = 2,
          .intermediate = 12,
          .vocabulary = 11,
          .positions = 6,
          .dropout = dropout,
          .attention_dropout = attention_dropout};
}

TEST(ModelGradients, BertsAreThoseOfFiniteDifferences) {
  const BertConfig config = small_bert(0.1, 0.2);
  const Model model = build_bert(config, {.micro_batch = 2, .sequence = 5, .predictions = 2, .seed = 3});
  const Feeds feeds = feeds_of(model.forward, 11, 5);
  expect_gradients(model, feeds);
  expect_low_precision_near(model, feeds);
}

TEST(ModelGradients, Gpt2sAreThoseOfFiniteDifferences) {
  const Gpt2Config config{
      .layers = 1, .hidden = 8, .heads = 2, .vocabulary = 11, .positions = 6, .dropout = 0.1, .attention_dropout = 0.2};
  const Model model = build_gpt2(config, {.micro_batch = 2, .sequence = 5, .predictions = 1, .seed = 3});
  const Feeds feeds = feeds_of(model.forward, 11, 5);
  expect_gradients(model, feeds);
  expect_low_precision_near(model, feeds);
}

/// -log softmax(row)[c] for each c.
std::vector<double> surprises(const std::vector<double>& row) {
  double sum = 0;
  for (const double number : row) sum += std::exp(number);
  std::vector<double> of_classes;
  for (const double number : row) of_classes.push_back(std::log(sum) - number);
  return of_classes;
}

TEST(ModelGradients, ATeachersLossIsThatOfTheDefinition) {
  constexpr int64_t kClasses = 3, kRows = 2, kDepth = 2, kTexts = kRows * kDepth;
  constexpr double kWeight = 0.7, kTemperature = 2.5;
  const BertConfig config = small_bert(0, 0);
  for (const bool packed : {false, true}) {
    SCOPED_TRACE(packed);
    const BatchShape batch{
        .micro_batch = packed ? kRows : kTexts, .sequence = 6, .seed = 3, .depth = packed ? kDepth : 0};
    const HeadShape head{
        .labels = kClasses, .dropout = 0, .teacher_weight = kWeight, .teacher_temperature = kTemperature};
    const Model model = build_bert_task(config, batch, head);
    Feeds feeds = feeds_of(model.forward, 11, 6);
    const std::vector<double> labels = {2, -1, 0, 1};  // the second text has none
    for (int64_t i = 0; i < kTexts; ++i) {
      feeds.at("labels").set(i, labels[static_cast<size_t>(i)]);
      for (int64_t c = 0; c < kClasses; ++c)
        feeds.at("teacher_logits").set(i * kClasses + c, std::sin(static_cast<double>(i * kClasses + c)) * 3);
      if (packed) feeds.at("first_positions").set(i, static_cast<double>(i % kDepth * 3));
    }
    const HostTensor logits = run(build_bert_task_predict(config, batch, head), feeds).at("logits");
    double sum = 0;
    for (const size_t text : {0u, 2u, 3u}) {
      std::vector<double> row, warm, teacher;
      for (size_t c = 0; c < kClasses; ++c) {
        const auto at = static_cast<int64_t>(text * kClasses + c);
        row.push_back(logits.get(at));
        warm.push_back(logits.get(at) / kTemperature);
        teacher.push_back(feeds.at("teacher_logits").get(at) / kTemperature);
      }
      double divergence = 0;
      for (size_t c = 0; c < kClasses; ++c)
        divergence += std::exp(-surprises(teacher)[c]) * (surprises(warm)[c] - surprises(teacher)[c]);
      sum += (1 - kWeight) * surprises(row)[static_cast<size_t>(labels[text])] +
             kWeight * kTemperature * kTemperature * divergence;
    }
    EXPECT_NEAR(run(model.forward, feeds).at("loss").get(0), sum / 3, 1e-5);
    expect_gradients(model, feeds);
    // The held-out loss is that of the labels alone.
    for (const GraphInput& input : model.evaluate.inputs())
      EXPECT_NE(model.evaluate.value(input.value).name, "teacher_logits");
  }
}

}  // namespace
}  // namespace ramet::tests

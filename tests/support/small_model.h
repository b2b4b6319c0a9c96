#pragma once

// A model of nobody's recipe, small enough for any test, with a state of every role that a model may declare.

#include <cmath>
#include <string>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/model/blocks.h"

namespace ramet::tests {

inline constexpr int64_t kSmallBatch = 4, kSmallWidth = 8, kSmallHidden = 16, kSmallClasses = 4;

/// Builds the graphs of `small_model`.
class SmallModelBuilder {
 public:
  /// `into`: gets weights, states and programs; null for the graph without dropout.
  SmallModelBuilder(Graph& graph, Model* into)
      : into_(into), model_(graph, into ? &into->weights : nullptr, 0.2, into != nullptr, 5), build_(model_.build()) {}

  void write() {
    const Tensor rows = build_.input("rows", DType::kF32, {kSmallBatch, kSmallWidth}, {"batch", ""});
    const Tensor labels = build_.input("labels", DType::kI32, {kSmallBatch}, {"batch"});
    Tensor x;
    {
      Scope scope(build_, "first");
      x = multiply(model_.dense(rows, "first", kSmallHidden, kEmbed, kNoAxis), constant(build_, factors()));
    }
    for (int i = 0; i < 4; ++i) {
      PartScope part(build_, "layer", i);
      x = layer(x, "layer." + std::to_string(i));
    }
    Scope scope(build_, "head");
    x = subtract(x, statistic(x));
    x = multiply(
        x, gather(gains(), state("places", {DType::kI32, {kSmallHidden}}, StateKind::kPattern, StateInit::iota())));
    if (!into_) build_.output("hidden", x);
    head(x, labels);
  }

 private:
  /// More elements than a text prints one by one.
  static TensorData factors() {
    std::vector<double> values;
    for (int64_t i = 0; i < kSmallBatch * kSmallHidden; ++i) values.push_back(1 + 0.01 * static_cast<double>(i % 7));
    return TensorData(HostTensor::of(DType::kF32, {kSmallBatch, kSmallHidden}, values));
  }

  Tensor layer(Tensor x, const std::string& name) {
    const Tensor wide = gelu(model_.dense(x, name + ".up", 2 * kSmallHidden, kMlp, kEmbed));
    return add(x, model_.drop(model_.dense(wide, name + ".down", kSmallHidden, kEmbed, kMlp), 0.1, name + ".drop"));
  }

  Tensor state(const std::string& name, TensorType type, StateKind kind, StateInit init) {
    if (into_) into_->states.push_back({name, type, kind, std::move(init), ""});
    return build_.state(name, type.dtype, type.shape);
  }
  /// A running mean over the rows.
  Tensor statistic(Tensor x) {
    const Tensor mean = state("mean", {DType::kF32, {kSmallHidden}}, StateKind::kDeferred, {});
    if (into_) {
      into_->states.back().fold = {.by = "average", .momentum = 0.25};
      build_.output("mean", reduce_mean(x, {0}), OutputRole::kState);
    }
    return mean;
  }
  /// A weight whose first values a function gives.
  Tensor gains() {
    const Tensor gain = model_.vector("gain", kSmallHidden, kNoAxis, 1);
    if (into_)
      into_->weights.back().init =
          StateInit::by("waves", [](int64_t element) { return 1 + 0.1 * std::sin(static_cast<double>(element)); });
    return gain;
  }

  void head(Tensor x, Tensor labels) {
    const Tensor logits = model_.dense(x, "head", kSmallClasses, kNoAxis, kNoAxis);
    const CrossEntropy measured = cross_entropy(logits, labels);
    build_.output("loss", measured.loss);
    build_.output("correct", measured.correct);
    build_.output("rows_counted", measured.count);
    if (into_) return;
    build_.output("logits", logits);
    build_.output("class", argmax(logits, 1));
  }

  Model* into_;
  ModelBuilder model_;
  GraphBuilder& build_;
};

/// Four classes of rows of numbers. Every two steps a program turns its pattern; "features" may be asked for.
inline Model small_model() {
  Model model;
  model.name = "small";
  Graph forward("forward"), evaluate("evaluate"), features("features"), turn("turn");
  SmallModelBuilder(forward, &model).write();
  SmallModelBuilder(evaluate, nullptr).write();
  {
    GraphBuilder build(features);
    const Tensor rows = build.input("rows", DType::kF32, {kSmallBatch, kSmallWidth}, {"batch", ""});
    const Tensor weight = build.state("first.weight", DType::kF32, {kSmallHidden, kSmallWidth});
    build.output("first", tanh(matmul(rows, weight, false, true)));
  }
  {
    GraphBuilder build(turn);
    const Tensor old = build.state("places", DType::kI32, {kSmallHidden});
    build.output("places", concat({slice(old, {1}, {kSmallHidden}), slice(old, {0}, {1})}, 0), OutputRole::kState);
  }
  model.forward = std::move(forward), model.evaluate = std::move(evaluate);
  model.programs = {{"turn", std::move(turn), When::each_step(2)},
                    {"features", std::move(features), When::on_request()}};
  model.inputs = {
      {.name = "rows", .type = {DType::kF32, {kSmallBatch, kSmallWidth}}, .axes = {"batch", ""}, .low = -9, .high = 9},
      {.name = "labels", .type = {DType::kI32, {kSmallBatch}}, .axes = {"batch"}, .low = 0, .high = kSmallClasses - 1}};
  model.metrics = {mean_metric("loss", "rows_counted"), share_metric("accuracy", "correct", "rows_counted")};
  model.guards = {"loss"};
  return model;
}

/// Samples that the model learns: the class is the greatest of the first four numbers of a row.
struct SmallSamples {
  std::vector<float> rows;
  std::vector<int32_t> labels;

  explicit SmallSamples(int64_t count, uint64_t seed = 1) {
    const RandomStream stream(seed, RandomPurpose::kTest, 0, 0);
    for (int64_t i = 0; i < count * kSmallWidth; ++i)
      rows.push_back(static_cast<float>(stream.uniform(static_cast<uint64_t>(i))) * 2 - 1);
    for (int64_t i = 0; i < count; ++i) {
      const float* row = rows.data() + i * kSmallWidth;
      int32_t best = 0;
      for (int32_t k = 1; k < kSmallClasses; ++k)
        if (row[k] > row[best]) best = k;
      labels.push_back(best);
    }
  }
};

}  // namespace ramet::tests

// A small model whose attention has grouped heads, biases with gradients, a window, rotary positions and dropout, on
// any layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "ramet/base/rng.h"
#include "ramet/data/source.h"
#include "ramet/model/blocks.h"
#include "ramet/ops/build_attention.h"
#include "ramet/train/training.h"

namespace ramet::tests {
namespace {

constexpr int64_t kBatch = 3, kLength = 12, kFeatures = 6, kWidth = 16, kHeadCount = 8, kHeadSize = 4, kClasses = 5;

class Network {
 public:
  /// Without `weights` the graph is that of evaluations, without dropout.
  Network(Graph& graph, std::vector<StateTensor>* weights, int64_t key_heads)
      : model_(graph, weights, 0.3, weights != nullptr, 1),
        build_(model_.build()),
        trains_(weights != nullptr),
        key_heads_(key_heads) {}

  void write() {
    const Tensor rows = build_.input("rows", DType::kF32, {kBatch, kLength, kFeatures}, {"batch", "positions", ""});
    const Tensor labels = build_.input("labels", DType::kI32, {kBatch}, {"batch"});
    Tensor x = model_.projection(rows, "first", kWidth, kEmbed, kNoAxis);
    for (int i = 0; i < 2; ++i) {
      PartScope part(build_, "layer", i);
      x = add(x, attend(x, "layer." + std::to_string(i), i == 0));
    }
    const Tensor pooled = reshape(slice(x, {0, kLength - 1, 0}, {kBatch, kLength, kWidth}), {kBatch, kWidth});
    const CrossEntropy measured = cross_entropy(model_.projection(pooled, "head", kClasses, kNoAxis, kNoAxis), labels);
    build_.output("loss", measured.loss);
    build_.output("rows_counted", measured.count);
  }

 private:
  Tensor heads_of(Tensor x, const std::string& name, int64_t heads, int64_t size) {
    return reshape(model_.projection(x, name, heads * size, kHeads, kEmbed), {kBatch, kLength, heads, size});
  }

  /// The first layer has a bias for each head, the second one for all.
  Tensor attend(Tensor x, const std::string& path, bool by_head) {
    const RotaryTables angles = rotary_tables(build_, kLength, rotary_frequencies(kHeadSize));
    const Tensor query = rotary(heads_of(x, path + ".query", kHeadCount, kHeadSize), angles);
    const Tensor key = rotary(heads_of(x, path + ".key", key_heads_, kHeadSize), angles);
    const Tensor value = heads_of(x, path + ".value", key_heads_, 2 * kHeadSize);
    const Tensor buckets = constant(build_, TensorData(t5_buckets(kLength, kLength, !by_head, 8, 10)));
    const Tensor table =
        model_.matrix(path + ".table", {8, by_head ? kHeadCount : 1}, {kNoAxis, by_head ? kHeads : kNoAxis});
    ScoreOptions scores{.bias = relative_bias(table, buckets)};
    if (!by_head) scores.window_left = 7, scores.soft_cap = 5;
    const double rate = trains_ ? 0.2 : 0;
    const Tensor mixed =
        attention_with(query, key, value, scores, {.causal = by_head, .dropout = rate, .random_name = path},
                       rate > 0 ? model_.counter() : Tensor{});
    return model_.projection(reshape(mixed, {kBatch, kLength, kHeadCount * 2 * kHeadSize}), path + ".out", kWidth,
                             kEmbed, kHeads);
  }

  ModelBuilder model_;
  GraphBuilder& build_;
  const bool trains_;
  int64_t key_heads_;
};

Model attention_model(int64_t key_heads) {
  Model model;
  model.name = "attention";
  Network(model.forward, &model.weights, key_heads).write();
  Network(model.evaluate, nullptr, key_heads).write();
  model.inputs = {
      {.name = "rows",
       .type = {DType::kF32, {kBatch, kLength, kFeatures}},
       .axes = {"batch", "positions", ""},
       .low = -1,
       .high = 1},
      {.name = "labels", .type = {DType::kI32, {kBatch}}, .axes = {"batch"}, .low = 0, .high = kClasses - 1}};
  model.metrics = {mean_metric("loss", "rows_counted")};
  model.guards = {"loss"};
  model.units_of_axes = {{"heads", key_heads}};
  return model;
}

struct Rows final : Source {
  Signature signature(int64_t count) const override {
    return {{"rows", {DType::kF32, {count, kLength, kFeatures}}}, {"labels", {DType::kI32, {count}}}};
  }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    for (int64_t i = 0; i < count; ++i) {
      const RandomStream stream(3, RandomPurpose::kTest, static_cast<uint64_t>(first + i), 0);
      float sum = 0;
      for (int64_t j = 0; j < kLength * kFeatures; ++j) {
        const auto value = static_cast<float>(2 * stream.uniform(static_cast<uint64_t>(j)) - 1);
        sum += j % kFeatures == 0 ? value : 0;
        std::memcpy(places.tensors[0] + (i * kLength * kFeatures + j) * 4, &value, 4);
      }
      const int32_t label = std::clamp(static_cast<int32_t>(sum + 2.5f), 0, static_cast<int32_t>(kClasses - 1));
      std::memcpy(places.tensors[1] + i * 4, &label, 4);
    }
  }
  Hash identity() const override { return hash_text("rows for attention"); }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }
};

struct Outcome {
  std::vector<double> losses;
  Numbers evaluation;
  std::string hash;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Trained {
  Outcome outcome;
  std::set<std::string> shapes;  ///< of the queries of all attentions
};

Trained train(const std::string& layout, const std::string& precision, int threads = 1, int64_t key_heads = 4) {
  Workload workload;
  workload.model = attention_model(key_heads);
  workload.train = workload.held_out = std::make_shared<Rows>();
  workload.units = {.name = "rows"};
  TrainOptions options;
  options.steps = 3, options.micro_batch = kBatch, options.accumulation = 4, options.lanes = 2, options.chunks = 4;
  options.precision = precision;
  options.schedule.kind = "constant", options.schedule.learning_rate = 0.02;
  options.evaluation.batches = 2;
  Training training(std::move(workload), options, parse_layout(layout), {.threads = threads});
  training.initialize();
  Trained trained;
  for (int64_t step = 0; step < options.steps; ++step)
    trained.outcome.losses.push_back(number_of(training.step(), "loss"));
  trained.outcome.evaluation = training.evaluate();
  trained.outcome.hash = training.weights_hash();
  for (const Executable& exe : training.cluster().stages())
    for (const Call& call : exe.calls)
      if (call.node.op->name == "attention") trained.shapes.insert(call.node.inputs[0].shape.text());
  return trained;
}

TEST(AttentionLayouts, HaveTheBitsOfOneDevice) {
  for (const char* precision : {"f32", "bf16"}) {
    const Trained one = train("", precision);
    EXPECT_LT(one.outcome.losses.back(), one.outcome.losses.front());
    for (const char* layout : {"t=2", "t=4", "p=2", "r=2", "phases=2 offload=weights,optimizer,activations",
                               "p=2 t=2 r=2 rts=weights,grads,optimizer recompute=layer"}) {
      SCOPED_TRACE(std::string(precision) + " " + layout);
      const Trained many = train(layout, precision);
      EXPECT_EQ(many.outcome, one.outcome);
      const std::string heads = std::string(layout).find("t=4") != std::string::npos   ? "2"
                                : std::string(layout).find("t=2") != std::string::npos ? "4"
                                                                                       : "8";
      EXPECT_EQ(many.shapes, std::set<std::string>{"[3,12," + heads + ",4]"}) << "heads are cut with their groups";
    }
    EXPECT_EQ(train("", precision, 3).outcome, one.outcome);
  }
}

/// Where heads of keys cannot be cut, every device computes all heads.
TEST(AttentionLayouts, OfMoreDevicesThanHeadsOfKeysHaveTheSameBits) {
  for (int64_t key_heads : {1, 2}) {
    const Outcome one = train("", "f32", 1, key_heads).outcome;
    EXPECT_EQ(train("t=4", "f32", 1, key_heads).outcome, one) << key_heads;
  }
}

}  // namespace
}  // namespace ramet::tests

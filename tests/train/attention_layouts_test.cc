// Small models on any layout: attention with grouped heads, T5's relative bias, a window, rotary positions and dropout;
// and Swin's windows, shifted or not, with its table of relative places.
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
#include "ramet/ops/build_shapes.h"
#include "ramet/train/training.h"

namespace ramet::tests {
namespace {

/// What the two layers of a model attend to.
enum class Attends { kSequence, kWindows };

constexpr int64_t kBatch = 3, kLength = 12, kFeatures = 6, kWidth = 16, kHeadCount = 8, kHeadSize = 4, kClasses = 5;

// Windows of a grid of 6 x 2 places, two a sample; every second layer has them shifted by one place down and right.
constexpr int64_t kRows = 6, kColumns = 2, kTall = 3, kWindows = kRows / kTall, kPlaces = kTall * kColumns;

/// Which places of a shifted window see each other: those that were neighbours before the grid was rolled.
HostTensor shifted_mask() {
  HostTensor mask({DType::kBool, {kBatch * kWindows, 1, kPlaces, kPlaces}});
  const auto region = [](int64_t window, int64_t place) {
    const int64_t row = window * kTall + place / kColumns, column = place % kColumns;
    return (row < kRows - 1 ? 0 : 2) + (column < kColumns - 1 ? 0 : 1);
  };
  for (int64_t i = 0; i < mask.elements(); ++i) {
    const int64_t key = i % kPlaces, query = i / kPlaces % kPlaces, window = i / (kPlaces * kPlaces) % kWindows;
    mask.set(i, region(window, query) == region(window, key));
  }
  return mask;
}

class Network {
 public:
  /// Without `weights` the graph is that of evaluations, without dropout.
  Network(Graph& graph, std::vector<StateTensor>* weights, int64_t key_heads, Attends attends)
      : model_(graph, weights, 0.3, weights != nullptr, 1),
        build_(model_.build()),
        trains_(weights != nullptr),
        key_heads_(key_heads),
        attends_(attends) {}

  void write() {
    const Tensor rows = build_.input("rows", DType::kF32, {kBatch, kLength, kFeatures}, {"batch", "positions", ""});
    const Tensor labels = build_.input("labels", DType::kI32, {kBatch}, {"batch"});
    Tensor x = model_.projection(rows, "first", kWidth, kEmbed, kNoAxis);
    for (int i = 0; i < 2; ++i) {
      PartScope part(build_, "layer", i);
      const std::string path = "layer." + std::to_string(i);
      x = add(x, attends_ == Attends::kWindows ? in_windows(x, path, i == 1) : attend(x, path, i == 0));
    }
    const Tensor pooled = reshape(slice(x, {0, kLength - 1, 0}, {kBatch, kLength, kWidth}), {kBatch, kWidth});
    const CrossEntropy measured = cross_entropy(model_.projection(pooled, "head", kClasses, kNoAxis, kNoAxis), labels);
    build_.output("loss", measured.loss);
    build_.output("rows_counted", measured.count);
  }

 private:
  Tensor heads_of(Tensor x, const std::string& name, int64_t heads, int64_t size) {
    return reshape(model_.projection(x, name, heads * size, kHeads, kEmbed), {x.dim(0), x.dim(1), heads, size});
  }

  Tensor in_windows(Tensor x, const std::string& path, bool shifted) {
    Tensor grid = reshape(x, {kBatch, kRows, kColumns, kWidth});
    if (shifted) grid = roll(grid, {-1, -1}, {1, 2});
    const Tensor windows = reshape(grid, {kBatch * kWindows, kPlaces, kWidth});
    const Tensor table =
        model_.matrix(path + ".table", {(2 * kTall - 1) * (2 * kColumns - 1), kHeadCount}, {kNoAxis, kHeads});
    ScoreOptions scores{.bias = relative_bias(table, constant(build_, TensorData(swin_places(kTall, kColumns))))};
    if (shifted) scores.mask = constant(build_, TensorData(shifted_mask()));
    const Tensor mixed = attention_with(heads_of(windows, path + ".query", kHeadCount, kHeadSize),
                                        heads_of(windows, path + ".key", key_heads_, kHeadSize),
                                        heads_of(windows, path + ".value", key_heads_, kHeadSize), scores);
    const Tensor out = model_.projection(reshape(mixed, {kBatch * kWindows, kPlaces, kHeadCount * kHeadSize}),
                                         path + ".out", kWidth, kEmbed, kHeads);
    grid = reshape(out, {kBatch, kRows, kColumns, kWidth});
    if (shifted) grid = roll(grid, {1, 1}, {1, 2});
    return reshape(grid, {kBatch, kLength, kWidth});
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
  Attends attends_;
};

Model attention_model(int64_t key_heads, Attends attends) {
  Model model;
  model.name = "attention";
  Network(model.forward, &model.weights, key_heads, attends).write();
  Network(model.evaluate, nullptr, key_heads, attends).write();
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
  std::set<std::string> biases;  ///< shapes of the biases of all attentions, and of their gradients
};

Trained train(const std::string& layout, const std::string& precision, int threads = 1, int64_t key_heads = 4,
              Attends attends = Attends::kSequence) {
  Workload workload;
  workload.model = attention_model(key_heads, attends);
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
    for (const Call& call : exe.calls) {
      if (call.node.op->name == "attention") {
        trained.shapes.insert(call.node.inputs[0].shape.text());
        trained.biases.insert(call.node.inputs[3].shape.text());
      }
      if (call.node.op->name == "attention_grad") trained.biases.insert(call.node.outputs.back().shape.text());
    }
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
      EXPECT_EQ(many.biases, (std::set<std::string>{"[1,1,12,12]", "[1," + heads + ",12,12]"}));
    }
    EXPECT_EQ(train("", precision, 3).outcome, one.outcome);
  }
}

/// Tables of relative places, and their gradients, are cut by heads.
TEST(AttentionLayouts, OfShiftedWindowsHaveTheBitsOfOneDevice) {
  for (const char* precision : {"f32", "bf16"}) {
    const Trained one = train("", precision, 1, 8, Attends::kWindows);
    EXPECT_LT(one.outcome.losses.back(), one.outcome.losses.front());
    EXPECT_EQ(one.biases, std::set<std::string>{"[1,8,6,6]"});
    for (const char* layout :
         {"t=2", "t=4", "r=2", "t=2 r=2", "p=2 t=2 r=2 rts=weights,grads,optimizer recompute=layer"}) {
      SCOPED_TRACE(std::string(precision) + " " + layout);
      const Trained many = train(layout, precision, 1, 8, Attends::kWindows);
      EXPECT_EQ(many.outcome, one.outcome);
      const std::string heads = std::string(layout).find("t=4") != std::string::npos   ? "2"
                                : std::string(layout).find("t=2") != std::string::npos ? "4"
                                                                                       : "8";
      EXPECT_EQ(many.biases, std::set<std::string>{"[1," + heads + ",6,6]"});
    }
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

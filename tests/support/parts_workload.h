#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/source.h"
#include "ramet/model/blocks.h"
#include "ramet/train/train_options.h"
#include "ramet/train/workload.h"
#include "support/part_tables.h"

namespace ramet::tests::parts {

inline constexpr int64_t kBatch = 2, kWide = 16, kKinds = 5;

/// Writes the graph of a small model by hand. Its two layers send rows from part to part by tables of each part's own;
/// the second layer takes off a running mean (a deferred state) and orders its gains by a pattern. The head joins the
/// nodes with what is known of each sample.
class PartsNetwork {
 public:
  /// `into`: gets weights, states and programs. Null for the graph of evaluations and for that of "look", whose
  /// results are tensors.
  PartsNetwork(Graph& graph, Model* into, bool looks = false)
      : into_(into),
        looks_(looks),
        model_(graph, into ? &into->weights : nullptr, 0.4, into != nullptr, 1),
        build_(model_.build()) {}

  void write() {
    const Tensor scales = build_.input("scales", DType::kF32, {kBatch, kFeatures});
    const Tables of_parts = tables();
    const Tensor send = constant("send", of_parts.send), sources = constant("sources", of_parts.sources),
                 targets = constant("targets", of_parts.targets);
    Tensor x = multiply(constant("features", features()), reduce_mean(scales, {0}));
    for (int i = 0; i < 2; ++i) {
      PartScope layer(build_, "layer", i);
      const Tensor received = reshape(exchange_rows(x, send), {kParts, -1, kFeatures});
      const Tensor sums = scatter_parts(targets, gather_parts(concat({x, received}, 1), sources), kRows);
      x = tanh(matmul(sums, model_.matrix("rows" + std::to_string(i), {kFeatures, kFeatures}, {kNoAxis, kNoAxis})));
      if (i == 1) x = turned(centred(x));
      if (looks_) look_at(x, std::to_string(i));
    }
    add_head(x);
  }

 private:
  Tensor declare(const std::string& name, const TensorType& type, StateKind kind, StateInit init,
                 std::vector<LogicalAxis> axes = {}) {
    if (into_) into_->states.push_back({name, type, kind, std::move(init), "", std::move(axes)});
    return build_.state(name, type.dtype, type.shape);
  }

  Tensor constant(const std::string& name, const HostTensor& data) {
    std::vector<LogicalAxis> axes(static_cast<size_t>(data.type.shape.rank()));
    axes[0].name = "parts";
    return declare(name, data.type, StateKind::kConstant, StateInit::from(TensorData(data)), std::move(axes));
  }

  Tensor centred(Tensor x) {
    const Tensor mean = declare("mean", {DType::kF32, {kFeatures}}, StateKind::kDeferred, {});
    if (into_) build_.output("mean", reduce_mean(x, {0, 1}), OutputRole::kState);
    return subtract(x, mean);
  }

  /// Gains in the order of a pattern, which a program turns by one place every three steps.
  Tensor turned(Tensor x) {
    const Tensor places = declare("places", {DType::kI32, {kFeatures}}, StateKind::kPattern, StateInit::iota());
    if (into_) {
      NamedGraph program{"turn", Graph("turn"), When::each_step(3)};
      GraphBuilder turn(program.graph);
      const Tensor old = turn.state("places", DType::kI32, {kFeatures});
      turn.output("places", concat({slice(old, {1}, {kFeatures}), slice(old, {0}, {1})}, 0), OutputRole::kState);
      into_->programs.push_back(std::move(program));
    }
    if (looks_) build_.output("places", places);
    return multiply(x, gather(model_.vector("gain", kFeatures, kNoAxis, 0.9), places));
  }

  /// Tensors of several types, which t cuts by parts.
  void look_at(Tensor x, const std::string& layer) {
    build_.output("nodes" + layer, x);
    build_.output("positive" + layer, less(full(build_, DType::kF32, {}, 0), x));
    build_.output("strongest" + layer, argmax(x, -1));
    build_.output("short" + layer, cast(x, DType::kBF16));
  }

  void add_head(Tensor x) {
    Scope scope(build_, "head");
    const Tensor kinds = build_.input("kind", DType::kI32, {kBatch});
    const Tensor wanted = build_.input("wanted", DType::kF32, {kBatch});
    const Tensor table = model_.matrix("kinds", {kKinds, kFeatures}, {kNoAxis, kNoAxis});
    const Tensor rows = add(gather(table, kinds), reduce_mean(x, {0, 1}));
    const Tensor wide = gelu(model_.dense(rows, "up", kWide, kMlp, kEmbed));
    const Tensor off = subtract(reshape(model_.dense(wide, "down", 1, kNoAxis, kMlp), {kBatch}), wanted);
    const Tensor squares = multiply(off, off);
    build_.output("loss", reduce_mean(squares));
    build_.output("near", reduce_sum(cast(less(squares, full(build_, DType::kF32, {}, 1)), DType::kF32)));
    build_.output("counted", full(build_, DType::kF32, {}, kBatch));
    if (!looks_) return;
    build_.output("wide", wide);  // cut by the weights' columns
    build_.output("off", off);
  }

  Model* const into_;
  const bool looks_;
  ModelBuilder model_;
  GraphBuilder& build_;
};

inline Model parts_model() {
  Model model;
  model.name = "parts";
  PartsNetwork(model.forward, &model).write();
  PartsNetwork(model.evaluate, nullptr).write();
  NamedGraph look{"look", Graph("look"), When::on_request()};
  PartsNetwork(look.graph, nullptr, true).write();
  model.programs.push_back(std::move(look));
  model.inputs = {
      {.name = "scales", .type = {DType::kF32, {kBatch, kFeatures}}, .axes = {"batch", ""}, .low = 0, .high = 3},
      {.name = "kind", .type = {DType::kI32, {kBatch}}, .axes = {"batch"}, .low = 0, .high = kKinds - 1}};
  model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean},
                   share_metric("near_share", "near", "counted")};
  model.guards = {"loss"};
  return model;
}

/// Samples drawn from their numbers. Each hook changes what a test wants to be wrong.
struct PartsSource final : Source {
  std::function<void(int64_t sample)> before{};           ///< called before a sample is made
  std::function<void(Signature& signature)> described{};  ///< called with each signature that is given
  int64_t outside = -1;                                   ///< a sample whose kind is beyond the declared range

  Signature signature(int64_t count) const override {
    Signature types = {{"scales", {DType::kF32, {count, kFeatures}}},
                       {"kind", {DType::kI32, {count}}},
                       {"wanted", {DType::kF32, {count}}}};
    if (described) described(types);
    return types;
  }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    for (int64_t i = 0; i < count; ++i) {
      if (before) before(first + i);
      const RandomStream stream(3, RandomPurpose::kTest, static_cast<uint64_t>(first + i), 0);
      for (int64_t j = 0; j < kFeatures; ++j)
        put(places, 0, i * kFeatures + j, static_cast<float>(0.5 + stream.uniform(static_cast<uint64_t>(j))));
      const auto kind = static_cast<int32_t>(stream.below(100, kKinds));
      put(places, 1, i, first + i == outside ? static_cast<int32_t>(kKinds) : kind);
      put(places, 2, i, 0.5f * static_cast<float>(kind) + static_cast<float>(stream.normal(200)));
    }
  }
  Hash identity() const override { return hash_text("samples of parts"); }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }

 private:
  template <typename T>
  static void put(const Places& places, size_t tensor, int64_t element, T value) {
    std::memcpy(places.tensors[tensor] + element * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
};

inline Workload parts_workload(std::shared_ptr<const Source> train = std::make_shared<PartsSource>(),
                               std::shared_ptr<const Source> held_out = std::make_shared<PartsSource>()) {
  Workload made;
  made.model = parts_model();
  made.train = std::move(train);
  made.held_out = std::move(held_out);
  made.units = {.name = "samples"};
  return made;
}

inline TrainOptions parts_options() {
  TrainOptions made;
  made.steps = 4, made.micro_batch = kBatch, made.accumulation = 4, made.lanes = 2, made.chunks = 4;
  made.precision = "f32";
  made.schedule.kind = "constant", made.schedule.learning_rate = 0.02;
  made.evaluation.batches = 3;
  return made;
}

}  // namespace ramet::tests::parts

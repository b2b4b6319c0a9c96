#include "ramet/train/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/rng.h"
#include "ramet/model/blocks.h"
#include "ramet/train/run_files.h"
#include "ramet/train/run_recorder.h"
#include "ramet/train/training_loop.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kWidth = 8;

/// Two layers on rows of numbers, with the share of rows that are hit as a metric of its own.
Graph network(bool training, std::vector<StateTensor>* weights, const std::string& scope, int64_t hidden) {
  Graph graph(training ? "forward" : "evaluate");
  ModelBuilder model(graph, weights, 0.2, training, 1);
  GraphBuilder& build = model.build();
  Tensor x = build.input("rows", DType::kF32, {kBatch, kWidth});
  const Tensor wanted = build.input("wanted", DType::kF32, {kBatch});
  const Tensor counts = build.input("counts", DType::kBool, {kBatch});
  for (int i = 0; i < 2; ++i) {
    PartScope layer(build, scope, i);
    x = gelu(model.dense(x, "dense" + std::to_string(i), hidden, kMlp, kEmbed));
  }
  Scope head(build, "head");
  const Tensor off = subtract(reshape(model.dense(x, "last", 1, kNoAxis, kMlp), {kBatch}), wanted);
  const Tensor weight = cast(counts, DType::kF32), squares = multiply(off, off);
  build.output("loss", reduce_mean(squares));
  build.output("near", reduce_sum(multiply(cast(less(squares, full(build, DType::kF32, {}, 1)), DType::kF32), weight)));
  build.output("counted", reduce_sum(weight));
  return graph;
}

Model model_of(const std::string& scope = "layer", int64_t hidden = 16) {
  Model model;
  model.name = "rows";
  model.forward = network(true, &model.weights, scope, hidden);
  model.evaluate = network(false, nullptr, scope, hidden);
  model.inputs = {
      {.name = "rows", .type = {DType::kF32, {kBatch, kWidth}}, .axes = {"batch", ""}, .low = -9, .high = 9}};
  model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean},
                   share_metric("near_share", "near", "counted")};
  model.guards = {"loss"};
  return model;
}

/// Rows drawn from their numbers. `counting`: whether rows count for the metric; `bad`: a sample with a number outside
/// the limits.
class Rows : public Source {
 public:
  explicit Rows(bool counting = true, int64_t bad = -1) : counting_(counting), bad_(bad) {}
  Signature signature(int64_t count) const override {
    return {{"rows", {DType::kF32, {count, kWidth}}},
            {"wanted", {DType::kF32, {count}}},
            {"counts", {DType::kBool, {count}}}};
  }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    auto* rows = reinterpret_cast<float*>(places.tensors[0]);
    auto* wanted = reinterpret_cast<float*>(places.tensors[1]);
    for (int64_t i = 0; i < count; ++i) {
      const RandomStream stream(1, RandomPurpose::kTest, static_cast<uint64_t>(first + i), 0);
      for (int64_t j = 0; j < kWidth; ++j)
        rows[i * kWidth + j] = static_cast<float>(stream.uniform(static_cast<uint64_t>(j)));
      wanted[i] = rows[i * kWidth] + rows[i * kWidth + 1];
      if (first + i == bad_) rows[i * kWidth] = 10;
      places.tensors[2][i] = std::byte(counting_);
    }
  }
  Hash identity() const override { return Hasher().digest(); }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }

 private:
  const bool counting_;
  const int64_t bad_;
};

Workload workload(Model model = model_of(), std::shared_ptr<const Source> source = std::make_shared<Rows>()) {
  Workload made;
  made.model = std::move(model);
  made.train = source;
  made.held_out = source;
  made.units = {.name = "rows", .per_sample = 1, .mask = "counts"};
  return made;
}

TrainOptions options(int64_t steps = 4) {
  TrainOptions made;
  made.steps = steps, made.micro_batch = kBatch, made.accumulation = 4, made.lanes = 4, made.chunks = 4;
  made.precision = "f32";
  made.schedule.kind = "constant", made.schedule.learning_rate = 0.01;
  made.evaluation.batches = 2;
  return made;
}

TEST(Workload, AModelOfNoRecipeTrainsWithTheSameBitsOnAnyLayout) {
  std::string expected;
  Numbers evaluation;
  for (const char* layout : {"threads=1", "p=2 threads=1", "t=2 threads=1", "r=4 rts=optimizer threads=1",
                             "p=2 phases=1 offload=optimizer threads=1"}) {
    SCOPED_TRACE(layout);
    Training training(workload(), options(), parse_layout(layout), {});
    training.initialize();
    Numbers numbers;
    for (int i = 0; i < 3; ++i) numbers = training.step();
    EXPECT_GT(number_of(numbers, "near_share"), 0);
    EXPECT_GT(number_of(numbers, "rows_per_second"), 0);
    EXPECT_GT(number_of(numbers, "real_rows_per_second"), 0) << "a mask of bool";
    if (expected.empty()) expected = training.weights_hash(), evaluation = training.evaluate();
    EXPECT_EQ(training.weights_hash(), expected);
    EXPECT_EQ(training.evaluate(), evaluation);
  }
}

/// Every third row counts, by a mask of bytes: read as wider numbers it would be another count.
class ThirdsCounted final : public Rows {
 public:
  void fill(int64_t first, int64_t count, const Places& places) const override {
    Rows::fill(first, count, places);
    for (int64_t i = 0; i < count; ++i) places.tensors[2][i] = std::byte((first + i) % 3 == 0);
  }
};

TEST(Workload, RowsThatTheMaskLeavesOutAreNotCounted) {
  Training training(workload(model_of(), std::make_shared<ThirdsCounted>()), options(), {}, {.threads = 1});
  training.initialize();
  for (const double counted : {6.0, 5.0}) {  // of rows 0 to 15 and 16 to 31: 0, 3, ..., 15 and 18, 21, ..., 30
    const Numbers numbers = training.step();
    const double seconds = number_of(numbers, "step_seconds");
    EXPECT_NEAR(number_of(numbers, "rows_per_second") * seconds, 16, 1e-9);
    EXPECT_NEAR(number_of(numbers, "real_rows_per_second") * seconds, counted, 1e-9);
  }
}

TEST(Workload, WithoutAMaskNothingIsSaidOfPadding) {
  for (const char* mask : {"", "no such input"}) {
    Workload made = workload();
    made.units.mask = mask;
    Training training(std::move(made), options(), {}, {.threads = 1});
    training.initialize();
    const Numbers numbers = training.step();
    EXPECT_GT(number_of(numbers, "rows_per_second"), 0);
    for (const auto& [name, number] : numbers) EXPECT_NE(name, "real_rows_per_second") << "mask '" << mask << "'";
  }
}

TEST(Workload, AMetricOfNothingEndsNothing) {
  Training training(workload(model_of(), std::make_shared<Rows>(false)), options(), {}, {.threads = 1});
  training.initialize();
  const Numbers numbers = training.step();
  EXPECT_TRUE(std::isnan(number_of(numbers, "near_share")));
  EXPECT_TRUE(std::isfinite(number_of(numbers, "loss")));
  EXPECT_TRUE(std::isnan(number_of(training.evaluate(), "near_share")));
  EXPECT_TRUE(std::isfinite(number_of(training.step(), "loss")));
}

TEST(Workload, InputsThatAreNotTheModelsAreRefusedBeforeTheFirstStep) {
  Model other = model_of();
  other.inputs[0].axes = {"batch"};
  EXPECT_THAT(error_of([&] { Training(workload(other), options(), {}, {}); }), HasSubstr("another number of axes"));
  other = model_of();
  other.inputs.push_back({.name = "none", .type = {DType::kF32, {1}}});
  EXPECT_THAT(error_of([&] { Training(workload(other), options(), {}, {}); }),
              HasSubstr("read by no graph; found 'none'"));
  other = model_of();
  other.metrics.push_back(share_metric("x", "no_such", "counted"));
  EXPECT_THAT(error_of([&] { Training(workload(other), options(), {}, {}); }), HasSubstr("found 'no_such'"));
  TrainOptions wider = options();
  wider.micro_batch = 2 * kBatch;
  EXPECT_THAT(error_of([&] { Training(workload(), wider, {}, {}); }),
              HasSubstr("'rows' is f32[8,8], not f32[4,8]; 'wanted' is f32[8], not f32[4]"));
}

TEST(Workload, ANumberOutsideItsLimitsEndsTheRunAndLosesNothing) {
  const TemporaryFolder folder;
  Training training(workload(model_of(), std::make_shared<Rows>(true, 2 * 4 * kBatch + 1)), options(), {},
                    {.threads = 1});
  training.initialize();
  EXPECT_THAT(
      error_of([&] {
        std::span<TrainingObserver* const> none;
        train::train(training, {.checkpoints = folder / "checkpoints"}, none);
      }),
      HasSubstr("'rows' of sample 33, element 0: a value of the data is outside what the model takes; found 10"));
  const auto saved = list_checkpoints(folder / "checkpoints");
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(Checkpoint(saved[0]).info().step, 2);
}

TEST(Workload, ACheckpointOfAnotherModelIsRefusedByName) {
  const TemporaryFolder folder;
  Training first(workload(), options(), {}, {.threads = 1});
  first.initialize();
  first.step();
  const auto saved = first.save(folder / "checkpoints");
  Training other(workload(model_of("layer", 32)), options(), {}, {.threads = 1});
  other.initialize();
  const std::string before = other.weights_hash();
  EXPECT_THAT(error_of([&] { other.restore(Checkpoint(saved)); }),
              HasSubstr("the checkpoint was made of another model; found model 'rows'"));
  EXPECT_EQ(other.weights_hash(), before);
  Training again(workload(), options(), {}, {.threads = 1});
  EXPECT_EQ(again.restore(Checkpoint(saved)), "");
  EXPECT_EQ(again.weights_hash(), first.weights_hash());
}

TEST(Workload, AModelsIdentityIsWhatItComputes) {
  const Hash own = model_of().identity();
  EXPECT_EQ(model_of().identity(), own);
  EXPECT_EQ(model_of("block").identity(), own) << "scopes are for people";
  EXPECT_NE(model_of("layer", 32).identity(), own);
  Model other = model_of();
  other.metrics.pop_back();
  EXPECT_NE(other.identity(), own);
  other = model_of();
  other.weights[0].group = "no_decay";
  EXPECT_NE(other.identity(), own);
}

/// Fails wherever it is called.
class Broken final : public TrainingObserver {
  void on_start(const Training&, const RunStart&) override { throw std::runtime_error("at the start"); }
  void on_step(int64_t, const Numbers&) override { throw Error({.what = "in a step"}); }
};

/// Stops after some steps.
class Stopper final : public TrainingObserver {
 public:
  explicit Stopper(StopRequest& stop) : stop_(stop) {}
  void on_step(int64_t done, const Numbers&) override {
    steps.push_back(done);
    if (done == 2) stop_.ask();
  }
  std::vector<int64_t> steps;

 private:
  StopRequest& stop_;
};

TEST(Observers, OneThatFailsStopsNeitherTheRunNorTheOthers) {
  const TemporaryFolder folder;
  Training training(workload(), options(), {}, {.threads = 1});
  training.initialize();
  StopRequest stop;
  Broken broken;
  Stopper stopper(stop);
  std::vector<std::string> errors;
  TrainingObserver* const observers[] = {&broken, &stopper};
  const TrainingResult result =
      train::train(training,
                   {.checkpoints = folder / "checkpoints",
                    .stop = &stop,
                    .on_observer_error = [&](const std::string& error) { errors.push_back(error); }},
                   observers);
  EXPECT_TRUE(result.interrupted);
  EXPECT_THAT(stopper.steps, ::testing::ElementsAre(1, 2)) << "the request is heard after the step";
  EXPECT_THAT(errors, ::testing::ElementsAre("at the start", "in a step", "in a step"));
  EXPECT_EQ(Checkpoint(result.checkpoint).info().step, 2) << "and the run is saved";
}

TEST(Observers, ARunsFolderHoldsItsPlanItsProgramAndItsTimes) {
  const TemporaryFolder folder;
  Training training(workload(), options(2), parse_layout("p=2 threads=1"), {.profile = true});
  training.initialize();
  const auto directory = RunDirectory::create_at(folder / "run", {.name = "rows"});
  RunRecorder recorder(directory);
  const TrainingResult result = train::train(training, {.checkpoints = directory.checkpoints()}, recorder);
  EXPECT_EQ(recorder.finish(training, result, training.weights_hash()), "");
  const auto read = [](const std::filesystem::path& path) { return nlohmann::json::parse(read_file(path)); };
  const auto plan = read(directory.plan()), liveness = read(directory.liveness()), program = read(directory.program()),
             times = read(directory.times());
  for (const auto* file : {&plan, &liveness, &program, &times}) EXPECT_EQ(file->at("version"), kRunFilesVersion);
  const Executable& exe = training.cluster().stages()[1];
  EXPECT_EQ(plan["stages"][1]["planned_bytes"], exe.planned_bytes());
  EXPECT_EQ(plan["stages"][1]["devices"], nlohmann::json({1}));
  EXPECT_GT(plan["stages"][0]["classes"]["weights"]["most"], 0);
  ASSERT_EQ(liveness["stages"][1]["buffers"].size(), exe.buffers.size());
  for (size_t i = 0; i < exe.buffers.size(); ++i) {
    const auto& buffer = liveness["stages"][1]["buffers"][i];
    EXPECT_EQ(buffer["offset"], exe.buffers[i].offset);
    EXPECT_EQ(buffer["first"], exe.buffers[i].first);
    EXPECT_EQ(buffer["last"], exe.buffers[i].last);
    EXPECT_LE(buffer["offset"].get<int64_t>() + buffer["bytes"].get<int64_t>(), plan["stages"][1]["planned_bytes"]);
  }
  EXPECT_EQ(program["stages"][1]["programs"]["train"].size(), exe.train().steps.size());
  ASSERT_EQ(program["stages"][1]["segments"].size(), exe.segments.size());
  EXPECT_EQ(times["steps"], 2);
  EXPECT_GT(times["step_seconds"], 0);
  EXPECT_GT(times["predicted_step_seconds"], 0);
  ASSERT_EQ(times["devices"].size(), 2u);
  int both = 0;
  for (const auto& kernel : times["devices"][0]["kernels"])
    both += kernel["seconds"] > 0 && kernel["predicted_seconds"].is_number();
  EXPECT_GT(both, 3);
  const RunLog log = read_run_log(directory.log());
  EXPECT_EQ(log.series("near_share").size(), 2u);
  EXPECT_EQ(log.series("held_out_loss").size(), 2u);
  EXPECT_THAT(log.events.front(), HasSubstr("\"event\":\"start\""));
  EXPECT_THAT(log.events.back(), HasSubstr("\"rows_per_second\""));
}

}  // namespace
}  // namespace ramet::tests

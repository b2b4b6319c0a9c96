// Networks with batch norms: the same bits on every layout, running statistics included; PyTorch's numbers; evaluations
// by running statistics; steps that are skipped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/model/batch_norm.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/train/training.h"
#include "support/made_source.h"

namespace ramet::tests {
namespace {

constexpr int64_t kBatch = 4, kSize = 6, kWidth = 4, kHidden = 8;

/// Images [count, kSize, kSize, kWidth] whose means differ from zero.
class Images : public MadeSource {
 public:
  Batch batch(int64_t first, int64_t count) const override {
    HostTensor images(TensorType{DType::kF32, Shape{count, kSize, kSize, kWidth}});
    const int64_t of_sample = kSize * kSize * kWidth;
    for (int64_t i = 0; i < images.elements(); ++i) {
      const RandomStream stream(3, RandomPurpose::kTest, static_cast<uint64_t>(first + i / of_sample), 0);
      images.set(i, 0.5 + stream.normal(static_cast<uint64_t>(i % of_sample)));
    }
    Batch made{first, count, {}};
    made.tensors.push_back({"images", images.type, std::move(images.data)});
    return made;
  }
};

/// The norm in the middle of each part, of another kind in each.
Tensor middle(ModelBuilder& of, Model* model, Tensor x, int part) {
  const std::string name = "norm" + std::to_string(part);
  BatchNormOptions options{.channels_last = true, .axis = kMlp};
  std::vector<StateTensor>* states = model ? &model->states : nullptr;
  if (part == 0) return relu(batch_norm_layer(of, states, x, name, options));
  if (part == 1) {
    options.momentum = 0.3;
    const PoolOptions window{.taps = {3, 3}, .strides = {1, 1}, .low = {1, 1}, .high = {1, 1}, .channels_last = true};
    return batch_norm_layer(of, states, max_pool(relu(x), window), name, options);
  }
  x = transpose(x, {0, 3, 1, 2});
  if (part == 2) {
    options.channels_last = false;
    const PoolOptions window{.taps = {3, 3}, .strides = {1, 1}, .low = {1, 1}, .high = {1, 1}, .count_padding = false};
    x = average_pool(relu(batch_norm_layer(of, states, x, name, options)), window);
  } else {
    const Tensor gain = of.vector(name + ".weight", kHidden, kMlp, 1),
                 bias = of.vector(name + ".bias", kHidden, kMlp, 0);
    x = relu(group_norm(x, gain, bias, 4, 1e-5));
  }
  return transpose(x, {0, 2, 3, 1});
}

Graph network(Model* model, double size) {
  Graph graph(model ? "forward" : "evaluate");
  ModelBuilder of(graph, model ? &model->weights : nullptr, 0.3, model != nullptr, 1);
  GraphBuilder& build = of.build();
  Tensor x = build.input("images", DType::kF32, {kBatch, kSize, kSize, kWidth}, {"batch", "", "", ""});
  for (int i = 0; i < 4; ++i) {
    PartScope layer(build, "layer", i);
    const Tensor wide = of.dense(x, "up" + std::to_string(i), kHidden, kMlp, kEmbed);
    x = add(x, of.dense(middle(of, model, wide, i), "down" + std::to_string(i), kWidth, kEmbed, kMlp));
  }
  const Tensor pooled = cast(global_average_pool(x, true), DType::kF32);
  build.output("loss", scale(reduce_mean(multiply(pooled, pooled)), size));
  return graph;
}

Workload workload(double size = 1) {
  Workload made;
  made.model.name = "batch norms";
  made.model.forward = network(&made.model, size);
  made.model.evaluate = network(nullptr, size);
  made.model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean}};
  made.train = made.held_out = std::make_shared<Images>();
  return made;
}

TrainOptions options(const std::string& precision = "f32") {
  TrainOptions made;
  made.steps = 20, made.micro_batch = kBatch, made.accumulation = 4, made.lanes = 2, made.chunks = 4;
  made.precision = precision;
  made.schedule.kind = "constant", made.schedule.learning_rate = 0.01;
  made.evaluation.batches = 2;
  return made;
}

std::vector<float> numbers_of(const Training& training, const std::string& state, size_t count = kHidden) {
  std::vector<float> numbers(count);
  training.read_state(state, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

/// Hash, running statistics and the evaluation after some steps.
std::string trained(const std::string& layout, const std::string& precision, int threads) {
  Training training(workload(), options(precision), parse_layout(layout), {.threads = threads});
  training.initialize();
  std::string text;
  for (int step = 0; step < 3; ++step) text += std::to_string(number_of(training.step(), "loss")) + " ";
  text += training.weights_hash() + " " + std::to_string(number_of(training.evaluate(), "loss"));
  for (const char* state : {"norm0.running_mean", "norm1.running_var", "norm2.running_var"})
    for (float number : numbers_of(training, state)) text += " " + std::to_string(number);
  return text;
}

TEST(BatchNorm, LayoutsHaveTheBitsOfOneDevice) {
  const std::string expected = trained("", "f32", 1);
  for (const char* layout :
       {"p=2", "p=4 head=first", "r=2 rts=optimizer", "t=2", "t=4", "t=2x2", "recompute=all",
        "p=2 phases=2 offload=optimizer", "phases=2 offload=weights,grads,optimizer,activations"}) {
    SCOPED_TRACE(layout);
    EXPECT_EQ(trained(layout, "f32", 1), expected);
  }
  for (const char* layout : {"", "t=2"}) EXPECT_EQ(trained(layout, "f32", 3), expected) << layout << ", 3 threads";
}

TEST(BatchNorm, LayoutsHaveTheBitsOfOneDeviceInBf16) {
  const std::string expected = trained("", "bf16", 1);
  for (const char* layout : {"t=2", "p=2 t=2 r=2 rts=weights,optimizer recompute=layer"}) {
    SCOPED_TRACE(layout);
    EXPECT_EQ(trained(layout, "bf16", 1), expected);
  }
}

/// The evaluation is the graph of evaluation on the trained weights and the running statistics.
TEST(BatchNorm, EvaluationsApplyRunningStatistics) {
  TrainOptions two_steps = options();
  two_steps.evaluation.batches = 1;
  Training training(workload(), two_steps, {}, {.threads = 1});
  training.initialize();
  for (int step = 0; step < 2; ++step) training.step();
  const Workload same = workload();
  std::map<std::string, HostTensor> feeds;
  for (const auto* list : {&same.model.weights, &same.model.states})
    for (const StateTensor& state : *list) {
      HostTensor values(state.type);
      training.read_state(state.name, std::as_writable_bytes(std::span(values.data.data(), values.data.size())));
      feeds[state.name] = values;
    }
  EXPECT_NE(feeds.at("norm0.running_mean").values(), std::vector<double>(kHidden, 0));
  const Batch batch = Images().batch(0, kBatch);
  feeds["images"] = HostTensor(batch.tensors[0].type);
  feeds["images"].data = batch.tensors[0].bytes;
  const auto loss = [&] { return interpret(same.model.evaluate, cpu_backend(), feeds).at(0).get(0); };
  const double wanted = loss();
  EXPECT_NEAR(number_of(training.evaluate(), "loss"), wanted, 1e-6 * wanted);
  for (int64_t i = 0; i < kHidden; ++i) feeds.at("norm2.running_mean").set(i, 0);
  EXPECT_GT(std::fabs(loss() - wanted), 1e-4 * wanted) << "which read the statistics";
}

TEST(BatchNorm, AStepThatIsSkippedLeavesRunningStatistics) {
  for (const char* layout : {"", "p=2", "t=2", "r=2 rts=optimizer"}) {
    SCOPED_TRACE(layout);
    TrainOptions overflowing = options("f16");
    overflowing.loss_scale.automatic = true;
    Training training(workload(300), overflowing, parse_layout(layout), {.threads = 1});
    training.initialize();
    int skipped = 0;
    for (int step = 0; step < 12; ++step) {
      const std::vector<float> before = numbers_of(training, "norm1.running_var");
      const bool skips = number_of(training.step(), "skipped_steps") > skipped;
      skipped += skips;
      EXPECT_EQ(numbers_of(training, "norm1.running_var") == before, skips) << "step " << step;
    }
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, 12);
  }
}

// --- PyTorch ---

constexpr int64_t kRows = 8, kFeatures = 6, kTargets = 3;

/// (i a mod b) scale + shift
double pattern(int64_t i, int64_t a, int64_t b, double scale, double shift) {
  return static_cast<double>(i * a % b) * scale + shift;
}

class Rows : public MadeSource {
 public:
  Batch batch(int64_t first, int64_t count) const override {
    HostTensor rows(TensorType{DType::kF32, Shape{count, kFeatures}}), wanted({DType::kF32, Shape{count, kTargets}});
    for (int64_t i = 0; i < rows.elements(); ++i) rows.set(i, pattern(first * kFeatures + i, 37, 101, 0.02, -0.7));
    for (int64_t i = 0; i < wanted.elements(); ++i) wanted.set(i, pattern(first * kTargets + i, 29, 53, 0.04, -1));
    Batch made{first, count, {}};
    made.tensors.push_back({"rows", rows.type, std::move(rows.data)});
    made.tensors.push_back({"wanted", wanted.type, std::move(wanted.data)});
    return made;
  }
};

Graph perceptron(Model* model) {
  Graph graph(model ? "forward" : "evaluate");
  ModelBuilder of(graph, model ? &model->weights : nullptr, 0.3, model != nullptr, 1);
  std::vector<StateTensor>* states = model ? &model->states : nullptr;
  const Tensor rows = of.build().input("rows", DType::kF32, {kRows, kFeatures}, {"batch", ""});
  const Tensor wanted = of.build().input("wanted", DType::kF32, {kRows, kTargets}, {"batch", ""});
  Tensor x = relu(batch_norm_layer(of, states, of.dense(rows, "up", 5, kNoAxis, kNoAxis), "norm0"));
  x = batch_norm_layer(of, states, of.dense(x, "down", kTargets, kNoAxis, kNoAxis), "norm1",
                       {.momentum = 0.25, .affine = false});
  const Tensor off = subtract(x, wanted);
  of.build().output("loss", reduce_mean(multiply(off, off)));
  return graph;
}

void expect_near(const std::vector<float>& found, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << what << " " << i;
}

/// Ten steps of SGD with two micro-batches each, by PyTorch 2.15 in f64 on the same numbers.
TEST(BatchNorm, RunningStatisticsAreThoseOfPyTorch) {
  Workload made;
  made.model.name = "perceptron";
  made.model.forward = perceptron(&made.model);
  made.model.evaluate = perceptron(nullptr);
  made.model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean}};
  for (StateTensor& weight : made.model.weights)
    if (weight.type.shape.rank() == 2)
      weight.init = StateInit::by("pattern", [](int64_t i) { return pattern(i, 17, 31, 0.05, -0.7); });
  made.train = made.held_out = std::make_shared<Rows>();
  TrainOptions sgd;
  sgd.micro_batch = kRows, sgd.accumulation = 2, sgd.precision = "f32", sgd.clip_norm = 0;
  sgd.optimizer.kind = "sgd", sgd.optimizer.weight_decay = 0, sgd.optimizer.momentum = 0.9;
  sgd.schedule.kind = "constant", sgd.schedule.learning_rate = 0.05;
  sgd.evaluation.batches = 1;
  Training training(std::move(made), sgd, {}, {.threads = 1});
  training.initialize();
  const std::vector<double> losses{1.2517021, 1.6285064, 1.2878771,  1.5493504, 1.2761305,
                                   1.2204061, 1.6683375, 0.98177747, 1.4129269, 1.5243489};
  for (double loss : losses) EXPECT_NEAR(number_of(training.step(), "loss"), loss, 1e-5);
  expect_near(numbers_of(training, "norm0.running_mean", 5),
              {-0.18449802, 0.079599947, 0.011581962, 0.28461831, 0.20424013}, "mean 0");
  expect_near(numbers_of(training, "norm0.running_var", 5),
              {0.31060839, 0.84222208, 0.33447263, 0.89826878, 0.31291025}, "variance 0");
  expect_near(numbers_of(training, "norm1.running_mean", 3), {-0.43536862, 0.55309606, -0.32565488}, "mean 1");
  expect_near(numbers_of(training, "norm1.running_var", 3), {0.61725717, 0.71318345, 0.23358617}, "variance 1");
  EXPECT_NEAR(number_of(training.evaluate(), "loss"), 0.6567708800718465, 1e-5);
}

}  // namespace
}  // namespace ramet::tests

// A plain workload whose model keeps states beside its weights, as the training drives them: skipped steps, programs
// behind a step, what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/rng.h"
#include "ramet/model/blocks.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/made_source.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 2, kWidth = 8;

class Rows : public MadeSource {
 public:
  Batch batch(int64_t first, int64_t count) const override {
    HostTensor rows(TensorType{DType::kF32, Shape{count, kWidth}});
    for (int64_t i = 0; i < rows.elements(); ++i)
      rows.set(i,
               RandomStream(3, RandomPurpose::kTest, static_cast<uint64_t>(first), 0).normal(static_cast<uint64_t>(i)));
    Batch made{first, count, {}};
    made.tensors.push_back({"rows", rows.type, std::move(rows.data)});
    return made;
  }
};

Graph network(Model* model, StateKind carried, double size) {
  Graph graph(model ? "forward" : "evaluate");
  ModelBuilder of(graph, model ? &model->weights : nullptr, 0.3, model != nullptr, 1);
  GraphBuilder& build = of.build();
  Tensor x = build.input("rows", DType::kF32, {kBatch, kWidth});
  for (int i = 0; i < 4; ++i) {
    PartScope layer(build, "layer", i);
    x = tanh(of.dense(x, "dense" + std::to_string(i), kWidth, kMlp, kEmbed));
    if (i > 0) continue;
    const Tensor carry = build.state("carry", DType::kF32, {kWidth});
    if (model) {
      model->states.push_back({"carry", {DType::kF32, {kWidth}}, carried, {}, ""});
      build.output("carry", reduce_mean(cast(x, DType::kF32), {0}), OutputRole::kState);
    }
    const Tensor order = build.state("order", DType::kI32, {kWidth});
    if (model) model->states.push_back({"order", {DType::kI32, {kWidth}}, StateKind::kPattern, StateInit::iota(), ""});
    x = subtract(x, cast(gather(carry, order), x.dtype()));
  }
  build.output("loss", scale(reduce_mean(multiply(cast(x, DType::kF32), cast(x, DType::kF32))), size));
  return graph;
}

Workload workload(StateKind carried, double size = 1) {
  Workload made;
  Model& model = made.model;
  model.name = "carrying";
  model.forward = network(&model, carried, size);
  model.evaluate = network(nullptr, carried, size);
  NamedGraph turn{"turn", Graph("turn"), When::each_step(3)};
  GraphBuilder build(turn.graph);
  const Tensor order = build.state("order", DType::kI32, {kWidth});
  build.output("order", concat({slice(order, {1}, {kWidth}), slice(order, {0}, {1})}, 0), OutputRole::kState);
  model.programs.push_back(std::move(turn));
  model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean}};
  made.train = made.held_out = std::make_shared<Rows>();
  return made;
}

TrainOptions options(int64_t lanes, const std::string& precision = "f32") {
  TrainOptions made;
  made.steps = 20, made.micro_batch = kBatch, made.accumulation = 4, made.lanes = lanes, made.chunks = 2;
  made.precision = precision;
  made.schedule.kind = "constant", made.schedule.learning_rate = 0.01;
  made.evaluation.batches = 1;
  return made;
}

template <typename Number>
std::vector<Number> numbers_of(const Training& training, const std::string& state) {
  std::vector<Number> numbers(kWidth);
  training.read_state(state, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

TEST(WorkloadStates, AProgramBehindEveryThirdStepChangesThePattern) {
  std::vector<std::string> hashes;
  for (const char* layout : {"", "p=2", "r=2 rts=optimizer", "t=2", "p=2 phases=2 offload=optimizer"}) {
    SCOPED_TRACE(layout);
    Training training(workload(StateKind::kDeferred), options(2), parse_layout(layout), {.threads = 1});
    training.initialize();
    for (int step = 1; step <= 7; ++step) {
      training.step();
      EXPECT_EQ(numbers_of<int32_t>(training, "order")[0], step / 3) << "step " << step;
    }
    EXPECT_NE(numbers_of<float>(training, "carry"), std::vector<float>(kWidth, 0));
    hashes.push_back(training.weights_hash() + " " + std::to_string(number_of(training.evaluate(), "loss")));
    EXPECT_EQ(hashes.back(), hashes.front());
  }
}

TEST(WorkloadStates, AStepThatIsSkippedChangesNoState) {
  for (const char* layout : {"", "p=2", "r=2 rts=optimizer", "p=2 phases=2 offload=optimizer"}) {
    SCOPED_TRACE(layout);
    TrainOptions overflowing = options(2, "f16");
    overflowing.loss_scale.automatic = true;
    Training training(workload(StateKind::kDeferred, 300), overflowing, parse_layout(layout), {.threads = 1});
    training.initialize();
    int skipped = 0;
    for (int step = 0; step < 12; ++step) {
      const std::vector<float> before = numbers_of<float>(training, "carry");
      const std::string hash = training.weights_hash();
      const bool skips = number_of(training.step(), "skipped_steps") > skipped;
      skipped += skips;
      EXPECT_EQ(numbers_of<float>(training, "carry") == before, skips) << "step " << step;
      EXPECT_EQ(training.weights_hash() == hash, skips) << "step " << step;
    }
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, 12);
  }
}

TEST(WorkloadStates, AMemoryRefusesWhatWouldBreakItsChain) {
  const auto refusal = [](int64_t lanes, const std::string& layout, bool automatic) {
    return error_of([&] {
      TrainOptions made = options(lanes, automatic ? "f16" : "f32");
      made.loss_scale.automatic = automatic;
      Training(workload(StateKind::kChained), made, parse_layout(layout), {.threads = 1});
    });
  };
  EXPECT_EQ(refusal(1, "p=2", false), "no error");
  EXPECT_THAT(refusal(2, "", false), HasSubstr("'carry': lanes would break the chain"));
  EXPECT_THAT(refusal(1, "", true),
              HasSubstr("train.loss_scale, chained state 'carry': an automatic loss scale skips steps"));
}

}  // namespace
}  // namespace ramet::tests

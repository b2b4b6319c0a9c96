#include <gtest/gtest.h>

#include <cmath>

#include "layout/lockstep.h"
#include "ramet/base/hash.h"
#include "ramet/base/rng.h"
#include "ramet/layout/partition.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_random.h"
#include "ramet/train/step.h"

// Random numbers and losses of rows on every layout: a step gives the bits that it gives on one device.

namespace ramet::tests {
namespace {

constexpr int64_t kSamples = 8, kFeatures = 6, kHidden = 16, kClasses = 4;

StateTensor weight(const std::string& name, const Shape& shape, std::vector<LogicalAxis> axes) {
  StateTensor state;
  state.name = name;
  state.type = {DType::kF32, shape};
  state.kind = StateKind::kWeight;
  state.group = "decay";
  state.axes = std::move(axes);
  return state;
}

/// Dropped paths of samples, noise on what tensor shards cut, draws by probabilities, and a smoothed loss.
void build_forward(GraphBuilder& build, bool noise) {
  Tensor x = build.input("x", DType::kF32, {kSamples, kFeatures}, std::vector<std::string>{"batch", ""});
  const Tensor labels = build.input("labels", DType::kI32, {kSamples}, std::vector<std::string>{"batch"});
  const Tensor counter = build.input("counter", DType::kI64, {2}, InputRole::kScalar);
  const auto by = [&](const std::string& name) { return DrawBy{.counter = counter, .seed = 3, .random_name = name}; };
  for (int layer = 0; layer < 2; ++layer) {
    PartScope part(build, "layer", layer);
    const std::string name = "layer" + std::to_string(layer);
    const Tensor up = build.state(name + ".up", DType::kF32, {kHidden, kFeatures});
    const Tensor down = build.state(name + ".down", DType::kF32, {kFeatures, kHidden});
    Tensor hidden = mish(matmul(x, up, false, true));
    if (noise) {
      hidden = add(hidden, scale(random_normal(by(name + ".noise"), hidden.shape()), 0.1));
      hidden = multiply(hidden, bernoulli(by(name + ".keep"), full(build, DType::kF32, hidden.shape(), 0.8)));
    }
    Tensor change = matmul(hidden, down, false, true);
    if (noise) change = drop_path(change, by(name + ".path"), 0.3);
    x = add(x, change);
  }
  x = multiply(x, build.state("temperature", DType::kF32, {}));
  const Tensor logits = matmul(x, build.state("head", DType::kF32, {kClasses, kFeatures}), false, true);
  build.output("loss",
               cross_entropy_loss(logits, labels,
                                  {.weight = full(build, DType::kF32, {kClasses}, 1.5), .label_smoothing = 0.1}));
}

Model noisy_model() {
  Model model;
  model.name = "noisy";
  GraphBuilder forward(model.forward), evaluate(model.evaluate);
  build_forward(forward, true);
  build_forward(evaluate, false);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    model.weights.push_back(weight(name + ".up", {kHidden, kFeatures}, {{"mlp"}, {"embed"}}));
    model.weights.push_back(weight(name + ".down", {kFeatures, kHidden}, {{"embed"}, {"mlp"}}));
  }
  model.weights.push_back(weight("temperature", {}, {}));
  model.weights.push_back(weight("head", {kClasses, kFeatures}, {{""}, {"embed"}}));
  model.inputs = {{"x", {DType::kF32, {kSamples, kFeatures}}, {"batch", ""}},
                  {"labels", {DType::kI32, {kSamples}}, {"batch"}}};
  model.metrics = {{"loss", "loss", "", Metric::How::kMean}};
  return model;
}

HostTensor drawn(const TensorType& type, const std::string& name, int64_t number) {
  HostTensor tensor(type);
  const RandomStream stream(9, RandomPurpose::kTest, static_cast<uint64_t>(number), hash64(name));
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set(i, is_floating(type.dtype) ? 0.4 * stream.normal(static_cast<uint64_t>(i))
                                          : stream.below(static_cast<uint64_t>(i), kClasses + 1) - 1.0);
  return tensor;
}

TEST(Draws, AreTheSameOnAnyLayout) {
  TrainOptions options;
  options.accumulation = options.lanes = 4;
  options.chunks = 2;
  options.micro_batch = kSamples;
  options.precision = "f32";
  const StepGraph step = make_training_step(noisy_model(), options);
  Tensors weights;
  for (const StateTensor& state : step.states)
    if (state.kind == StateKind::kWeight) weights.emplace(state.name, drawn(state.type, state.name, 0));
  std::vector<Tensors> batches;
  for (int64_t micro = 0; micro < 2 * step.micro_batches(); ++micro)
    batches.push_back({{"x", drawn({DType::kF32, {kSamples, kFeatures}}, "x", micro)},
                       {"labels", drawn({DType::kI32, {kSamples}}, "labels", micro)}});
  const auto feed = [&](int64_t number) -> FeedOf {
    return [&batches, &step, number](int64_t micro) -> const Tensors& {
      return batches[static_cast<size_t>(number * step.micro_batches() + micro)];
    };
  };
  const auto scalars = [](int64_t number) {
    const double t = static_cast<double>(number + 1);
    Tensors tensors;
    for (const auto& [name, value] : std::vector<std::pair<std::string, double>>{
             {"learning_rate", 0.01}, {"correction1", 1 - std::pow(0.9, t)}, {"correction2", 1 - std::pow(0.999, t)}})
      tensors.emplace(name, HostTensor::of(DType::kF32, {}, {value}));
    return tensors;
  };
  PlainMachine plain(step, weights);
  plain.derive();
  for (int64_t number = 0; number < 2; ++number) plain.run_step(number, feed(number), scalars(number));
  for (const char* name : {"head", "temperature"}) EXPECT_NE(plain.states().at(name), weights.at(name)) << name;
  for (const char* text :
       {"p=2", "r=2", "t=2", "p=2 t=2", "r=2 t=2 rts=optimizer", "r=2 rts=weights,grads,optimizer"}) {
    SCOPED_TRACE(text);
    const DeviceGraphs graphs = partition(step, parse_layout(text));
    verify(graphs, "partition");
    LockstepMachine machine(graphs, weights);
    machine.prepare();
    for (int64_t number = 0; number < 2; ++number) machine.run_step(number, feed(number), scalars(number));
    const Tensors states = machine.states();
    for (const auto& [name, wanted] : weights) EXPECT_EQ(states.at(name), plain.states().at(name)) << name;
  }
}

}  // namespace
}  // namespace ramet::tests

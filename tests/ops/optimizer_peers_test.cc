#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"

// Ten steps of every optimizer, on a matrix and a vector, against PyTorch, transformers and the equations of papers in
// f64, as bench/peers/torch_optimizers.py recorded them.

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr int kSteps = 10;

/// The same formulas as in the script.
double first_weight(int64_t i) { return static_cast<double>((i * 29) % 83 - 41) / 40; }
double gradient_at(int64_t i, int step) { return static_cast<double>((i * 37 + step * 53) % 101 - 50) / 25; }

struct Scalars {
  Tensor rate, correction1, correction2, decay, grad_scale;
};
struct Next {
  Tensor weight;
  std::map<std::string, Tensor> states{};  // by the name of the input
};
/// Builds an update; `state(name, shape)` gives a state that begins at 0.
using State = std::function<Tensor(const std::string& name, const Shape& shape)>;
using Build = std::function<Next(Tensor w, Tensor g, const State& state, const Scalars& scalars)>;

/// Values of the scalars at step t.
struct Rates {
  double rate = 0.01, beta1 = 0.9, beta2 = 0.99;
  bool corrected = true, relative = false;
};

std::vector<double> ten_steps(const Shape& shape, const Backend& backend, const Rates& rates, const Build& make) {
  Graph graph("update");
  GraphBuilder build(graph);
  std::map<std::string, HostTensor> values;
  const State state = [&](const std::string& name, const Shape& of) {
    values[name] = HostTensor(TensorType{kF32, of});
    return build.input(name, kF32, of, InputRole::kState);
  };
  const auto scalar = [&](const char* name) { return build.input(name, kF32, {}, InputRole::kScalar); };
  const Tensor w = state("w", shape), g = state("g", shape);
  const Scalars scalars{scalar("rate"), scalar("correction1"), scalar("correction2"), scalar("decay"),
                        scalar("grad_scale")};
  Next next = make(w, g, state, scalars);
  next.states["w"] = next.weight;
  for (const auto& [name, value] : next.states) build.output(name, value);
  for (int64_t i = 0; i < shape.elements(); ++i) values["w"].set(i, first_weight(i));
  for (int t = 1; t <= kSteps; ++t) {
    constexpr double kScale = 0.25;  // as a loss scale of 4 would leave
    for (int64_t i = 0; i < shape.elements(); ++i) values["g"].set(i, gradient_at(i, t) / kScale);
    const auto one = [](double value) { return HostTensor::of(kF32, {}, {value}); };
    values["rate"] = one(rates.relative ? std::min(0.01, 1 / std::sqrt(t)) : rates.rate);
    values["correction1"] = one(rates.corrected ? 1 - std::pow(rates.beta1, t) : 1);
    values["correction2"] = one(rates.corrected ? 1 - std::pow(rates.beta2, t) : 1);
    values["decay"] = one(1 - std::pow(t, -0.8));
    values["grad_scale"] = one(kScale);
    const auto results = interpret(graph, backend, values);
    for (size_t i = 0; i < graph.outputs().size(); ++i) values[graph.outputs()[i].name] = results[i];
  }
  return values["w"].values();
}

Next momentum_step(const SgdResult& result) {
  return result.momentum.valid() ? Next{result.weight, {{"m", result.momentum}}} : Next{result.weight};
}

Build adam_build(bool lamb_too, AdamOptions options) {
  return [=](Tensor w, Tensor g, const State& state, const Scalars& s) {
    const AdamScalars scalars{s.rate, s.correction1, s.correction2, s.grad_scale};
    const Tensor m = state("m", w.shape()), v = state("v", w.shape());
    const AdamResult next = lamb_too ? lamb(w, g, m, v, scalars, options) : adam(w, g, m, v, scalars, options);
    return Next{next.weight, {{"m", next.m}, {"v", next.v}}};
  };
}

Build adafactor_build(AdafactorOptions options) {
  return [=](Tensor w, Tensor g, const State& state, const Scalars& s) {
    AdafactorStates states;
    if (w.shape().rank() == 2)
      states.row = state("row", Shape{w.dim(0)}), states.column = state("column", Shape{w.dim(1)});
    else
      states.square = state("square", w.shape());
    if (options.beta1 != 0) states.m = state("m", w.shape());
    const AdafactorResult next = adafactor(w, g, states, s.rate, s.decay, s.grad_scale, options);
    Next result{next.weight};
    for (const auto& [name, value] : {std::pair{"row", next.row}, {"column", next.column}, {"square", next.square}, {"m", next.m}})
      if (value.valid()) result.states[name] = value;
    return result;
  };
}

struct PeerCase {
  Rates rates;
  Build build;
};

std::map<std::string, PeerCase> cases() {
  const AdamOptions adam{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1};
  AdamOptions coupled = adam, capped = adam;
  coupled.decoupled = false, capped.norm_cap = 0.5;
  const Rates plain, uncorrected{.corrected = false};
  return {
      {"sgd",
       {plain,
        [](Tensor w, Tensor g, const State& state, const Scalars& s) {
          return momentum_step(sgd(w, g, state("m", w.shape()), s.rate, s.grad_scale,
                                   {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}));
        }}},
      {"adam", {plain, adam_build(false, coupled)}},
      {"adamw", {plain, adam_build(false, adam)}},
      {"lamb", {plain, adam_build(true, adam)}},
      {"lamb_uncorrected", {uncorrected, adam_build(true, adam)}},
      {"lamb_capped", {plain, adam_build(true, capped)}},
      {"lars",
       {{.rate = 0.5},
        [](Tensor w, Tensor g, const State& state, const Scalars& s) {
          return momentum_step(lars(w, g, state("m", w.shape()), s.rate, s.grad_scale,
                                    {.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02}));
        }}},
      {"lion",
       {plain,
        [](Tensor w, Tensor g, const State& state, const Scalars& s) {
          const LionResult next = lion(w, g, state("m", w.shape()), s.rate, s.grad_scale,
                                       {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1});
          return Next{next.weight, {{"m", next.m}}};
        }}},
      {"adafactor", {{.rate = 0.05}, adafactor_build({.weight_decay = 0.1, .scale_epsilon = 0})}},
      {"adafactor_relative", {{.relative = true}, adafactor_build({.weight_decay = 0.1})}},
      {"adafactor_moment", {{.rate = 0.05}, adafactor_build({.beta1 = 0.8, .clip_threshold = 0.5})}},
  };
}

nlohmann::json recorded() {
  return nlohmann::json::parse(read_file(RAMET_SOURCE_DIR "/tests/samples/optimizers.json"));
}

void expect_peer(const std::string& name, const PeerCase& peer, const nlohmann::json& record) {
  for (const auto& [which, shape] : {std::pair{"matrix", Shape{4, 6}}, {"vector", Shape{5}}})
    for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
      const std::vector<double> found = ten_steps(shape, *backend, peer.rates, peer.build);
      const std::vector<double> expected = record["cases"][name][which];
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 2e-6) << name << " " << which << " " << i << " " << backend->kernel_class();
    }
}

TEST(OptimizerPeers, AgreeOverTenSteps) {
  const nlohmann::json record = recorded();
  EXPECT_EQ(record["steps"], kSteps);
  for (const auto& [name, peer] : cases()) expect_peer(name, peer, record);
}

/// PyTorch's own Adafactor: its rate is min(lr, 1 / sqrt(t)).
TEST(OptimizerPeers, AdafactorIsPyTorchsToo) {
  const nlohmann::json record = recorded();
  expect_peer("adafactor_torch", {{.rate = 0.3}, adafactor_build({})}, record);
}

}  // namespace
}  // namespace ramet::tests

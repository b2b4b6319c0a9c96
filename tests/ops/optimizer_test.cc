#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32;
const std::vector<double> kStart{1.0, -2.0, 0.5};

/// Gradient of step t = 1, 2, 3; the same as in the script that recorded PyTorch's results.
std::vector<double> gradient_of_step(int t) { return {0.5 * t - 0.25, -1.0 * t - 0.25, 2.0 * t - 0.25}; }

/// One optimizer's update graph over weights of three elements and two states.
class Updates {
 public:
  template <typename Build>
  explicit Updates(const Build& make) : graph_("update"), build_(graph_) {
    const auto vector = [&](const char* name) { return build_.input(name, kF32, {3}, InputRole::kState); };
    const auto scalar = [&](const char* name) { return build_.input(name, kF32, {}, InputRole::kScalar); };
    const Tensor w = vector("w"), g = vector("g"), m = vector("m"), v = vector("v");
    const AdamScalars scalars{scalar("rate"), scalar("correction1"), scalar("correction2"), scalar("grad_scale")};
    const AdamResult next = make(w, g, m, v, scalars);
    build_.output("w", next.weight);
    build_.output("m", next.m.valid() ? next.m : m);
    build_.output("v", next.v.valid() ? next.v : v);
    for (const char* name : {"w", "m", "v"})
      state_[name] = HostTensor::of(kF32, {3}, std::string(name) == "w" ? kStart : std::vector<double>(3, 0.0));
  }

  void step(int t, double beta1, double beta2, double grad_scale = 1) {
    auto feeds = state_;
    std::vector<double> gradient = gradient_of_step(t);
    for (double& value : gradient) value /= std::isfinite(grad_scale) ? grad_scale : 1;
    feeds["g"] = HostTensor::of(kF32, {3}, gradient);
    feeds["rate"] = HostTensor::of(kF32, {}, {0.1});
    feeds["correction1"] = HostTensor::of(kF32, {}, {1 - std::pow(beta1, t)});
    feeds["correction2"] = HostTensor::of(kF32, {}, {1 - std::pow(beta2, t)});
    feeds["grad_scale"] = HostTensor::of(kF32, {}, {grad_scale});
    const auto results = interpret(graph_, reference_backend(), feeds);
    state_["w"] = results[0], state_["m"] = results[1], state_["v"] = results[2];
  }

  std::vector<double> values(const std::string& name) { return state_[name].values(); }
  std::map<std::string, HostTensor> state() const { return state_; }

 private:
  Graph graph_;
  GraphBuilder build_;
  std::map<std::string, HostTensor> state_;
};

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-6) << i;
}

Updates sgd_updates(const SgdOptions& options) {
  return Updates([&](Tensor w, Tensor g, Tensor m, Tensor, const AdamScalars& scalars) {
    const SgdResult next = sgd(w, g, m, scalars.rate, scalars.grad_scale, options);
    return AdamResult{next.weight, next.momentum, {}};
  });
}

Updates adam_updates(bool decoupled) {
  const AdamOptions options{0.9, 0.99, 1e-6, 0.1, decoupled};
  return Updates([&](Tensor w, Tensor g, Tensor m, Tensor v, const AdamScalars& scalars) {
    return adam(w, g, m, v, scalars, options);
  });
}

// Values below: torch.optim 2.x in float64, lr 0.1, three steps.

TEST(Optimizers, SgdIsPyTorchs) {
  const auto after = [](SgdOptions options) {
    Updates updates = sgd_updates(options);
    for (int t = 1; t <= 3; ++t) updates.step(t, 0, 0, 0.25);
    return updates;
  };
  expect_near(after({0, 0.01, false}).values("w"), {0.772127974, -1.319480873, -0.6257736755});
  Updates momentum = after({0.9, 0.01, false});
  expect_near(momentum.values("w"), {0.659314774, -0.898239473, -1.2635127755});
  expect_near(momentum.values("m"), {2.15311226, -6.33587527, 10.547382755});
  expect_near(after({0.9, 0.01, true}).values("w"), {0.46576792966599995, -0.328903444907, -2.2114378497545});
}

TEST(Optimizers, AdamIsPyTorchs) {
  Updates coupled = adam_updates(false), decoupled = adam_updates(true);
  for (int t = 1; t <= 3; ++t) coupled.step(t, 0.9, 0.99, 4), decoupled.step(t, 0.9, 0.99);
  expect_near(coupled.values("w"), {0.7120235366169304, -1.7045209918664281, 0.2091681932268169});
  expect_near(coupled.values("m"), {0.23700695630645408, -0.6800690903761796, 1.0649417856119168});
  expect_near(coupled.values("v"), {0.02589021591244536, 0.19720933876987143, 0.5080921357522722});
  expect_near(decoupled.values("w"), {0.689972341742459, -1.6494169444117701, 0.19764420056526744});
  expect_near(decoupled.values("m"), {0.21275, -0.62875, 1.05425});
}

/// LAMB by the paper's algorithm 2, in double.
TEST(Optimizers, LambIsThePapers) {
  const AdamOptions options{0.9, 0.99, 1e-6, 0.1, true};
  Updates updates([&](Tensor w, Tensor g, Tensor m, Tensor v, const AdamScalars& scalars) {
    return lamb(w, g, m, v, scalars, options);
  });
  std::vector<double> w = kStart, m(3), v(3);
  for (int t = 1; t <= 3; ++t) {
    updates.step(t, 0.9, 0.99);
    const auto g = gradient_of_step(t);
    std::vector<double> u(3);
    double norm_u = 0, norm_w = 0;
    for (size_t i = 0; i < 3; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
      u[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.99, t))) + 1e-6) + 0.1 * w[i];
      norm_u += u[i] * u[i];
      norm_w += w[i] * w[i];
    }
    for (size_t i = 0; i < 3; ++i) w[i] -= 0.1 * std::sqrt(norm_w) / std::sqrt(norm_u) * u[i];
  }
  expect_near(updates.values("w"), w);
}

TEST(Optimizers, AStepThatIsNotFiniteChangesNoBit) {
  const AdamOptions options{0.9, 0.99, 1e-6, 0.1, true};
  std::vector<Updates> all;
  all.push_back(sgd_updates({0, 0.01, false}));
  all.push_back(sgd_updates({0.9, 0.01, true}));
  all.push_back(adam_updates(false));
  all.push_back(adam_updates(true));
  all.push_back(Updates([&](Tensor w, Tensor g, Tensor m, Tensor v, const AdamScalars& scalars) {
    return lamb(w, g, m, v, scalars, options);
  }));
  for (Updates& updates : all) {
    updates.step(1, 0.9, 0.99);
    const auto before = updates.state();
    EXPECT_NE(before.at("w").values(), kStart);
    for (double scale : {std::nan(""), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
      updates.step(2, 0.9, 0.99, scale);
      EXPECT_EQ(updates.state(), before);
    }
  }
}

TEST(Optimizers, SayWhatDoesNotFit) {
  const auto refusal = [](const std::string& op, std::vector<TensorType> inputs, Attributes attributes) -> std::string {
    NodeSignature node{&OpRegistry::instance().get(op), std::move(inputs), {}, std::move(attributes), "w"};
    try {
      node.op->infer(node);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const TensorType w{kF32, {4}}, s{kF32, {}};
  Attributes adam{{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-6}, {"weight_decay", 0.0}, {"decoupled", true}};
  EXPECT_THAT(refusal("adam", {w, {kF32, {5}}, w, w, s, s, s, s}, adam),
              testing::HasSubstr("input 1 (g) has the wrong shape; found [5]; expected [4]"));
  EXPECT_THAT(refusal("adam", {w, w, w, w, s, s, s, {kF32, {1}}}, adam),
              testing::HasSubstr("input 7 (grad_scale) has the wrong type; found f32[1]; expected f32[]"));
  adam.set("beta2", 1.0);
  EXPECT_THAT(refusal("adam", {w, w, w, w, s, s, s, s}, adam),
              testing::HasSubstr("beta2 is out of range; found 1.0; expected 0.0 <= beta2 < 1.0"));
  EXPECT_THAT(refusal("sgd", {w, w, s, s}, {{"momentum", 0.9}, {"weight_decay", 0.0}}),
              testing::HasSubstr("wrong number of inputs; found 4; expected 5"));
  EXPECT_THAT(refusal("sgd", {w, w, s, s}, {{"momentum", 0.0}, {"weight_decay", 0.0}, {"nesterov", true}}),
              testing::HasSubstr("nesterov needs momentum"));
}

}  // namespace
}  // namespace ramet::tests

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/kernel/interpret.h"
#include "ramet/train/optimizers/optimizer.h"

// Ten steps of optimizers whose updates are made of element-wise ops, against PyTorch's in f64, as
// bench/peers/torch_optimizers.py recorded them. tests/ops/optimizer_peers_test.cc does so for optimizers with an op.

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32;

/// The same formulas as in the script.
double first_weight(int64_t i) { return static_cast<double>((i * 29) % 83 - 41) / 40; }
double gradient_at(int64_t i, int step) { return static_cast<double>((i * 37 + step * 53) % 101 - 50) / 25; }

struct PeerOptimizer {
  OptimizerOptions options;
  double rate = 0.01, weight_decay = 0.1;
};

/// The update of one weight, and the values of its states, which it goes on from step to step with.
class Update {
 public:
  Update(const PeerOptimizer& peer, const Shape& shape) : peer_(peer), optimizer_(find_optimizer(peer.options.kind)) {
    weight_.name = "w", weight_.type = {kF32, shape};
    GraphBuilder build(graph_);
    const Tensor gradient = build.input("g", kF32, shape, InputRole::kState);
    std::vector<StateTensor> states;
    WeightUpdate update(optimizer_, train_, peer_.options,
                        {.weight = weight_,
                         .gradient = gradient,
                         .rate = scalar_input(build, "rate"),
                         .grad_scale = scalar_input(build, "grad_scale"),
                         .weight_decay = peer.weight_decay},
                        build, states);
    optimizer_.build(update);
    values_["w"] = filled(shape, first_weight);
    for (const StateTensor& state : states)
      values_[state.name] = filled(state.type.shape, [&](int64_t) { return state.init.a; });
  }

  /// Step t, from 1; `grad_scale` is what gradients are to be multiplied with, and are divided by before.
  void step(const Backend& backend, int t, double grad_scale) {
    const double size = std::isfinite(grad_scale) ? grad_scale : 1;
    values_["g"] = filled(weight_.type.shape, [&](int64_t i) { return gradient_at(i, t) / size; });
    const auto one = [](double value) { return HostTensor::of(kF32, {}, {value}); };
    values_["rate"] = one(peer_.rate), values_["grad_scale"] = one(grad_scale);
    for (const OptimizerScalar& scalar : optimizer_.scalars)
      values_[scalar.name] = one(scalar.value(peer_.options, t - 1));
    const auto results = interpret(graph_, backend, values_);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) values_[graph_.outputs()[i].name] = results[i];
  }
  std::vector<double> values(const std::string& name) const { return values_.at(name).values(); }
  std::vector<std::string> states() const {
    std::vector<std::string> names;
    for (const auto& output : graph_.outputs()) names.push_back(output.name);
    return names;
  }

 private:
  template <typename Of>
  static HostTensor filled(const Shape& shape, const Of& of) {
    HostTensor tensor(TensorType{kF32, shape});
    for (int64_t i = 0; i < shape.elements(); ++i) tensor.set(i, of(i));
    return tensor;
  }

  const PeerOptimizer peer_;
  const OptimizerDef& optimizer_;
  const TrainOptions train_{};
  StateTensor weight_;
  Graph graph_{"update"};
  std::map<std::string, HostTensor> values_;
};

std::map<std::string, PeerOptimizer> peers() {
  OptimizerOptions rmsprop, centered, adagrad;
  rmsprop.kind = "rmsprop", rmsprop.beta2 = 0.9, rmsprop.epsilon = 1e-6, rmsprop.momentum = 0;
  centered = rmsprop, centered.kind = "centered_rmsprop", centered.momentum = 0.8;
  adagrad.kind = "adagrad", adagrad.epsilon = 1e-8, adagrad.rate_decay = 0.1, adagrad.first_sum = 0.2;
  return {{"rmsprop", {rmsprop}}, {"centered_rmsprop", {centered}}, {"adagrad", {adagrad, 0.05}}};
}

TEST(OptimizerUpdates, AgreeWithPyTorchOverTenSteps) {
  const auto record = nlohmann::json::parse(read_file(RAMET_SOURCE_DIR "/tests/samples/optimizers.json"));
  for (const auto& [name, peer] : peers())
    for (const auto& [which, shape] : {std::pair{"matrix", Shape{4, 6}}, {"vector", Shape{5}}})
      for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
        Update update(peer, shape);
        for (int t = 1; t <= record["steps"].get<int>(); ++t) update.step(*backend, t, 0.25);
        const std::vector<double> found = update.values("w"), expected = record["cases"][name][which];
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_NEAR(found[i], expected[i], 2e-6)
              << name << " " << which << " " << i << " " << backend->kernel_class();
      }
}

TEST(OptimizerUpdates, OfAnOverflowChangeNothing) {
  for (const auto& [name, peer] : peers()) {
    Update update(peer, Shape{5});
    update.step(cpu_backend(), 1, 1);
    std::map<std::string, std::vector<double>> before;
    for (const std::string& state : update.states()) before[state] = update.values(state);
    update.step(cpu_backend(), 2, std::numeric_limits<double>::infinity());
    for (const auto& [state, values] : before) EXPECT_EQ(update.values(state), values) << name << " " << state;
    update.step(cpu_backend(), 2, 1);
    EXPECT_NE(update.values("w"), before["w"]) << name;
  }
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/transform/differentiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

double loss_of(const Graph& graph, const std::map<std::string, HostTensor>& feeds) {
  const auto results = interpret(graph, reference_backend(), feeds);
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    if (graph.outputs()[i].name == "loss") return results[i].get(0);
  return NAN;
}

/// Compares each weight's gradient with the central difference along one random direction.
void check_model(const Model& model) {
  std::vector<std::string> names;
  for (const auto& weight : model.weights) names.push_back(weight.name);
  const Graph full_graph = differentiate(model.forward, "loss", names);
  verify(full_graph, "differentiate");
  auto feeds = feeds_for(full_graph, 0.3);
  const auto results = interpret(full_graph, reference_backend(), feeds);
  for (const auto& weight : model.weights) {
    const HostTensor* gradient = nullptr;
    for (size_t i = 0; i < full_graph.outputs().size(); ++i)
      if (full_graph.outputs()[i].name == "grad." + weight.name) gradient = &results[i];
    ASSERT_NE(gradient, nullptr) << weight.name;
    ASSERT_EQ(gradient->type, weight.type) << weight.name;
    const RandomStream stream(7, RandomPurpose::kTest, 1, hash64(weight.name));
    const HostTensor original = feeds.at(weight.name);
    double expected = 0;
    constexpr double kStep = 5e-3;
    HostTensor up = original, down = original;
    for (int64_t i = 0; i < original.elements(); ++i) {
      const double direction = stream.normal(static_cast<uint64_t>(i));
      up.set(i, original.get(i) + kStep * direction);
      down.set(i, original.get(i) - kStep * direction);
      expected += gradient->get(i) * (up.get(i) - down.get(i)) / (2 * kStep);
    }
    feeds.at(weight.name) = up;
    const double high = loss_of(model.forward, feeds);
    feeds.at(weight.name) = down;
    const double low = loss_of(model.forward, feeds);
    feeds.at(weight.name) = original;
    EXPECT_NEAR((high - low) / (2 * kStep), expected, 2e-2 * std::max(0.05, std::fabs(expected))) << weight.name;
  }
}

TEST(Differentiate, BertAgreesWithFiniteDifferences) { check_model(tiny_bert()); }
TEST(Differentiate, Gpt2AgreesWithFiniteDifferences) { check_model(tiny_gpt2()); }

TEST(Differentiate, AddsTheGradientsOfAValueUsedTwice) {
  Graph graph("twice");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {3}, InputRole::kState);
  build.output("loss", reduce_sum(add(multiply(x, x), scale(x, 3))));
  const Graph result = differentiate(graph, "loss", {"x"});
  const auto values = interpret(result, reference_backend(), {{"x", HostTensor::of(DType::kF32, {3}, {1, -2, 0.5})}});
  EXPECT_THAT(values.at(1).floats(), testing::ElementsAre(5, -1, 4));
}

TEST(Differentiate, GivesZerosForWhatTheLossDoesNotDependOn) {
  Graph graph("zeros");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {2}, InputRole::kState);
  build.input("y", DType::kF32, {2, 2}, InputRole::kState);
  build.output("loss", reduce_sum(x));
  const Graph result = differentiate(graph, "loss", {"y"});
  const auto values = interpret(result, reference_backend(), feeds_for(result));
  EXPECT_THAT(values.at(1).floats(), testing::ElementsAre(0, 0, 0, 0));
}

std::string error_of(const Graph& graph, const std::string& loss, const std::string& wrt) {
  try {
    differentiate(graph, loss, {wrt});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Differentiate, NamesWhatIsWrong) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {2}, InputRole::kState);
  build.output("vector", x);
  build.output("loss", reduce_sum(x));
  EXPECT_EQ(error_of(graph, "los", "x"), "graph 'g': no such output to differentiate; found 'los'");
  EXPECT_EQ(error_of(graph, "vector", "x"),
            "output 'vector' of graph 'g': only a scalar can be differentiated; found f32[2]; expected f32[]");
  EXPECT_EQ(error_of(graph, "loss", "z"), "graph 'g': no such input to differentiate by; found 'z'");
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/transform/infer_axes.h"

#include <gtest/gtest.h>

#include "ramet/ops/build.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32;

std::string axis(const InferredAxes& axes, const std::string& state, size_t dim) {
  const auto found = axes.states.find(state);
  return found == axes.states.end() || found->second.size() <= dim ? "" : found->second[dim].name;
}

TEST(InferAxes, AChainRunsFromTheColumnsOfAProductToTheRowsOfTheNext) {
  Graph graph("mlp");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", kF32, {4, 8});
  const Tensor wide = relu(linear(x, build.state("up", kF32, {8, 32}), build.state("up.bias", kF32, {32}), false));
  const Tensor y = linear(wide, build.state("down", kF32, {32, 8}), build.state("down.bias", kF32, {8}), false);
  build.output("y", y);
  const InferredAxes axes = infer_axes(graph);
  EXPECT_EQ(axis(axes, "up", 1), "mlp");
  EXPECT_EQ(axis(axes, "up.bias", 0), "mlp");
  EXPECT_EQ(axis(axes, "down", 0), "mlp");
  EXPECT_NE(axis(axes, "up", 0), "mlp");
  EXPECT_NE(axis(axes, "down.bias", 0), "mlp") << "the output of the chain is whole";
}

TEST(InferAxes, AFusedWeightIsCutInItsBlocks) {
  Graph graph("gate");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", kF32, {4, 8});
  const Tensor both = matmul(x, build.state("gate_up", kF32, {8, 64}));
  const std::vector<Tensor> halves = split(both, {32, 32}, 1);
  build.output("y", matmul(multiply(sigmoid(halves[0]), halves[1]), build.state("down", kF32, {32, 8})));
  const InferredAxes axes = infer_axes(graph);
  ASSERT_EQ(axis(axes, "gate_up", 1), "mlp");
  EXPECT_EQ(axes.states.at("gate_up")[1].blocks, 2);
  EXPECT_EQ(axis(axes, "down", 0), "mlp");
}

TEST(InferAxes, NoChainPassesThroughAnOpThatNeedsTheDimensionWhole) {
  Graph graph("whole");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", kF32, {4, 8});
  const Tensor wide = matmul(x, build.state("up", kF32, {8, 32}));
  build.output("y", matmul(cumsum(wide, 1), build.state("down", kF32, {32, 8})));
  const InferredAxes axes = infer_axes(graph);
  EXPECT_NE(axis(axes, "up", 1), "mlp");
  EXPECT_NE(axis(axes, "down", 0), "mlp");
}

}  // namespace
}  // namespace ramet::tests

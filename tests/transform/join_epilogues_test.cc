#include "ramet/transform/join_epilogues.h"

#include <gtest/gtest.h>

#include "ramet/ir/builder.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/transform/fuse.h"
#include "transform/random_model.h"

namespace ramet::tests {
namespace {

const ConvolutionOptions kLast{.low = {1, 1}, .high = {1, 1}, .channels_last = true};

int nodes_with_epilogue(const Graph& graph) {
  int found = 0;
  for (const Node& node : graph.nodes()) found += node.attributes.has("epilogue");
  return found;
}

/// The graph with epilogues, after a check that the CPU gives the same bits.
Graph joined(const Graph& plain) {
  const Graph graph = fuse(plain);
  const Graph made = transform::join_epilogues(graph, [](const NodeSignature& bare, const NodeSignature& node) {
    return cpu_backend().choose(bare, 1).name == cpu_backend().choose(node, 1).name;
  });
  verify(made, "join epilogues");
  const auto feeds = feeds_for(graph, 1);
  EXPECT_EQ(interpret(made, cpu_backend(), feeds, 2), interpret(graph, cpu_backend(), feeds, 2));
  EXPECT_EQ(made.nodes().size() + static_cast<size_t>(nodes_with_epilogue(made)), graph.nodes().size());
  return made;
}

class JoinEpilogues : public testing::Test {
 protected:
  Graph graph{"network"};
  GraphBuilder build{graph};
  Tensor x = build.input("x", DType::kF32, {2, 5, 7, 6});
  int weights = 0;

  Tensor convolved(Tensor from, int64_t filters = 6) {
    const std::string name = std::to_string(weights++);
    return convolution(from, build.state("w" + name, DType::kF32, {filters, from.dim(-1), 3, 3}),
                       build.state("b" + name, DType::kF32, {filters}), kLast);
  }
};

TEST_F(JoinEpilogues, AnActivationJoinsItsConvolution) {
  build.output("y", relu(convolved(x)));
  const Graph made = joined(graph);
  ASSERT_EQ(made.nodes().size(), 1u);
  EXPECT_EQ(made.node(0).attributes.get_string("epilogue"), "1:%1=relu(%0)->%1");
}

TEST_F(JoinEpilogues, ASumJoinsTheLastOfItsConvolutions) {
  const Tensor first = convolved(x), second = convolved(relu(convolved(x)));
  build.output("y", relu(add(first, second)));
  build.output("z", relu(add(x, convolved(x))));
  const Graph made = joined(graph);
  EXPECT_EQ(made.nodes().size(), 4u);
  EXPECT_EQ(nodes_with_epilogue(made), 3);
}

TEST_F(JoinEpilogues, TheResultIsInputZeroWhereverTheMapReadsIt) {
  // Differences tell operands apart.
  build.output("y", subtract(x, convolved(x)));
  build.output("z", subtract(convolved(x), x));
  build.output("of_channels", subtract(build.state("g", DType::kF32, {6}), convolved(x)));
  EXPECT_EQ(nodes_with_epilogue(joined(graph)), 3);
}

TEST_F(JoinEpilogues, AResultWithOtherReadersStays) {
  const Tensor read_twice = convolved(x), given = convolved(x);
  build.output("y", relu(read_twice));
  build.output("sum", reduce_sum(read_twice, {1, 2}, false));
  build.output("given", given);
  build.output("z", relu(given));
  EXPECT_EQ(nodes_with_epilogue(joined(graph)), 0);
}

TEST_F(JoinEpilogues, OnlyElementsOfTheResultJoin) {
  build.output("wider", add(convolved(x), build.state("more", DType::kF32, {3, 1, 1, 1, 1})));
  build.output("sum", reduce_sum(convolved(x), {1, 2}, false));
  build.output("other_type", less(convolved(x), x));  // elements of another size
  EXPECT_EQ(nodes_with_epilogue(joined(graph)), 0);
}

TEST_F(JoinEpilogues, PartsAndKernelsAreAsked) {
  build.output("y", relu(convolved(x)));
  const Graph refused =
      transform::join_epilogues(graph, [](const NodeSignature&, const NodeSignature&) { return false; });
  EXPECT_EQ(refused.nodes().size(), 2u);
  Graph parts("parts");
  {
    GraphCopier copier(graph, parts);
    copier.copy_inputs();
    copier.copy_node(0);
    NodeInfo info = copier.info(1);
    info.part = {"encoder", 1};
    const NodeId made = parts.add_node(*graph.node(1).op, {copier[graph.node(1).inputs[0]]}, {}, info);
    parts.add_output("y", parts.node(made).outputs[0]);
  }
  const auto any = [](const NodeSignature&, const NodeSignature&) { return true; };
  EXPECT_EQ(nodes_with_epilogue(transform::join_epilogues(parts, any)), 0);
}

}  // namespace
}  // namespace ramet::tests

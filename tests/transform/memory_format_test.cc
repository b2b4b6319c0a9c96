#include "ramet/transform/memory_format.h"

#include <gtest/gtest.h>

#include "ramet/ir/builder.h"
#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/simplify.h"
#include "transform/random_model.h"

namespace ramet::tests {
namespace {

/// Transposes of activations, of nodes' first inputs with as many dimensions.
int count(const Graph& graph, const std::string& op, int rank) {
  int found = 0;
  for (const Node& node : graph.nodes())
    if (node.op->name == op && graph.type(node.inputs[0]).shape.rank() == rank) ++found;
  return found;
}

/// The formatted graph without redundant nodes, after a check that it computes what the graph does.
Graph formatted(const Graph& graph) {
  const Graph made = set_memory_format(graph);
  verify(made, "memory format");
  for (const Node& node : made.nodes()) {
    if (node.op->name != "convolution" && node.op->name != "convolution_transposed") continue;
    EXPECT_TRUE(node.attributes.get_bool_or("channels_last", false)) << node.name;
  }
  EXPECT_EQ(print(set_memory_format(made)), print(made)) << "a second time changes nothing";
  const Graph simple = simplify(made);
  const auto feeds = feeds_for(graph, 1);
  const auto wanted = interpret(graph, reference_backend(), feeds),
             found = interpret(simple, reference_backend(), feeds);
  EXPECT_EQ(wanted.size(), found.size());
  for (size_t i = 0; i < wanted.size() && i < found.size(); ++i) {
    EXPECT_EQ(found[i].type, wanted[i].type);
    for (int64_t e = 0; e < wanted[i].elements(); ++e)
      EXPECT_NEAR(found[i].get(e), wanted[i].get(e), 1e-5) << graph.outputs()[i].name << " " << e;
  }
  return simple;
}

Tensor weight(GraphBuilder& build, const std::string& name, Shape shape) {
  return build.state(name, DType::kF32, std::move(shape));
}

const ConvolutionOptions kSame{.low = {1, 1}, .high = {1, 1}};

TEST(MemoryFormat, ConvertsANetworkOnce) {
  Graph graph("network");
  GraphBuilder build(graph);
  Tensor x = build.input("x", DType::kF32, {2, 3, 7, 5});
  for (int i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i);
    Tensor y = convolution(x, weight(build, "w" + name, {4, x.dim(1), 3, 3}), weight(build, "b" + name, {4}), kSame);
    y = multiply(y, weight(build, "gain" + name, {4, 1, 1}));  // a channel each
    y = add(y, weight(build, "place" + name, {7, 5}));         // a position each
    y = maximum(y, weight(build, "both" + name, {4, 7, 5}));   // of all samples
    y = multiply(y, sigmoid(reduce_mean(y, {2, 3}, true)));    // squeeze and excitation
    x = i == 0 ? y : concat({add(slice(x, {0, 0, 0, 0}, {2, 4, 7, 5}), y), y}, 1);
  }
  x = pad(x, {0, 1, 0, 2}, {0, 0, 1, 0}, 0.5);
  const std::vector<Tensor> halves = split(x, {4, 5}, 1);
  build.output("means", reduce_mean(halves[0], {2, 3}));
  build.output("rest", halves[1]);
  const Graph simple = formatted(graph);
  // The input, the result that leaves with its channels first, and `both` of four layers.
  EXPECT_EQ(count(simple, "transpose", 4), 2 + 4);
}

TEST(MemoryFormat, TokensOfPatchesNeedNoTransposes) {
  Graph graph("patches");
  GraphBuilder build(graph);
  const Tensor patches = convolution(build.input("x", DType::kF32, {2, 3, 8, 8}), weight(build, "w", {6, 3, 4, 4}), {},
                                     {.strides = {4, 4}});
  build.output("tokens", transpose(reshape(patches, {2, 6, 4}), {0, 2, 1}));
  const Graph simple = formatted(graph);
  EXPECT_EQ(count(simple, "transpose", 4), 1);
  EXPECT_EQ(count(simple, "transpose", 3), 0);
}

TEST(MemoryFormat, ViewsAcrossChannelsReadThemFirst) {
  Graph graph("flat");
  GraphBuilder build(graph);
  const Tensor x =
      convolution(build.input("x", DType::kF32, {2, 3, 4, 4}), weight(build, "w", {2, 3, 3, 3}), {}, kSame);
  build.output("flat", matmul(reshape(relu(x), {2, 32}), weight(build, "m", {32, 3})));
  EXPECT_EQ(count(formatted(graph), "transpose", 4), 2);
}

TEST(MemoryFormat, OneAndThreeDimensionsOfSpace) {
  Graph graph("spaces");
  GraphBuilder build(graph);
  const Tensor line = convolution(build.input("line", DType::kF32, {2, 4, 9}), weight(build, "w1", {4, 2, 3}), {},
                                  {.strides = {2}, .groups = 2});
  build.output("line", convolution_transposed(tanh(line), weight(build, "w2", {4, 3, 2}), {}, {.strides = {2}}));
  build.output("block", convolution(build.input("block", DType::kF32, {1, 2, 3, 4, 3}),
                                    weight(build, "w3", {2, 2, 2, 2, 2}), weight(build, "b3", {2})));
  const Graph simple = formatted(graph);
  EXPECT_EQ(count(simple, "transpose", 3), 2);
  EXPECT_EQ(count(simple, "transpose", 5), 2);
}

TEST(MemoryFormat, HoldsForGradients) {
  Graph graph("loss");
  GraphBuilder build(graph);
  Tensor x = build.input("x", DType::kF32, {2, 3, 6, 6});
  for (const char* name : {"w1", "w2"}) x = relu(convolution(x, weight(build, name, {4, x.dim(1), 3, 3}), {}, kSame));
  build.output("loss", reduce_sum(multiply(x, x)));
  const auto feeds = feeds_for(graph, 1);
  const Graph first = differentiate(graph, "loss", {"w1", "w2"}),
              last = simplify(differentiate(set_memory_format(graph), "loss", {"w1", "w2"}));
  EXPECT_EQ(count(last, "transpose", 4), 1);
  const auto wanted = interpret(first, reference_backend(), feeds), found = interpret(last, reference_backend(), feeds);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    for (int64_t e = 0; e < wanted[i].elements(); ++e) EXPECT_NEAR(found[i].get(e), wanted[i].get(e), 1e-3);
}

/// Norms and pools between convolutions follow them, forward and backward.
TEST(MemoryFormat, NormsAndPoolsFollow) {
  Graph graph("norms");
  GraphBuilder build(graph);
  const auto conv = [&](Tensor x, const std::string& name) {
    return convolution(x, weight(build, name, {8, x.dim(1), 3, 3}), {}, kSame);
  };
  const auto vectors = [&](const std::string& name) {
    return std::pair(weight(build, name + ".gain", {8}), weight(build, name + ".bias", {8}));
  };
  const PoolOptions window{.taps = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}};
  const auto [gain0, bias0] = vectors("0");
  const auto [gain1, bias1] = vectors("1");
  Tensor x = conv(build.input("x", DType::kF32, {3, 3, 9, 8}), "w0");
  const BatchNorm norm = batch_norm(x, gain0, bias0, 1e-3);
  x = max_pool(relu(norm.output), window);
  x = add(x, average_pool(group_norm(conv(x, "w1"), gain1, bias1, 4, 1e-3), {.taps = {1, 1}}));
  build.output("mean", norm.mean);
  build.output("loss", reduce_mean(global_average_pool(conv(x, "w2"))));
  const Graph simple = formatted(differentiate(graph, "loss", {"w0", "w1", "w2", "0.gain", "0.bias", "1.gain"}));
  int large = 0;
  for (const Node& node : simple.nodes())
    large += node.op->name == "transpose" && simple.type(node.inputs[0]).shape.rank() == 4 &&
             simple.type(node.inputs[0]).shape[2] > 3;
  // The input, and the broadcast gradient of the mean; beside them only vectors are transposed.
  EXPECT_EQ(large, 2) << print(simple);
}

TEST(MemoryFormat, LeavesOtherGraphsAlone) {
  const Graph graph = tiny_bert().forward;
  EXPECT_FALSE(has_channels_first(graph));
  EXPECT_EQ(print(set_memory_format(graph)), print(graph));
}

}  // namespace
}  // namespace ramet::tests

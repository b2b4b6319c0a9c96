#include <gtest/gtest.h>

#include <algorithm>

#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/inline_maps.h"
#include "ramet/transform/merge_maps.h"
#include "ramet/transform/precision.h"
#include "ramet/transform/simplify.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

/// Merges, with values made again or not, and expects the same bits of every output.
Graph expect_same_bits(const Graph& graph, bool inlines = false) {
  const Graph merged = inlines ? inline_maps(merge_maps(graph)) : merge_maps(graph);
  verify(merged, "merge_maps");
  const auto feeds = feeds_for(graph, 1.0);
  const std::vector<HostTensor> before = interpret(graph, cpu_backend(), feeds),
                                after = interpret(merged, cpu_backend(), feeds);
  EXPECT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].type, after[i].type) << graph.outputs()[i].name;
    EXPECT_EQ(before[i].data, after[i].data) << graph.outputs()[i].name << "\n" << print(merged);
  }
  return merged;
}

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->name == op; }));
}

/// A product, a norm over those of its rows that the mask counts, and a product behind it.
Graph norm_graph(int64_t rows, int64_t columns) {
  Graph graph("norm");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {1, rows, 8}), mask = build.input("mask", DType::kF32, {1, rows, 1});
  const Tensor first = build.input("first", DType::kF32, {8, columns}, InputRole::kState);
  const Tensor gain = build.input("gain", DType::kF32, {columns}, InputRole::kState);
  const Tensor last = build.input("last", DType::kF32, {columns, 8}, InputRole::kState);
  const Tensor product = matmul(x, first), count = reduce_sum(multiply(mask, mask));
  const Tensor mean = divide(reduce_sum(multiply(product, mask), {0, 1}), count);
  const Tensor apart = multiply(subtract(product, mean), mask);
  const Tensor variance = divide(reduce_sum(multiply(apart, apart), {0, 1}), count);
  const Tensor normal = multiply(multiply(subtract(product, mean), rsqrt(add_scalar(variance, 1e-5))), gain);
  build.output("loss", reduce_sum(matmul(relu(normal), last)));
  return graph;
}

TEST(MergeMaps, SumsOfANormBelongToTheMapsThatMakeTheirTerms) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{130, 64}, {64, 37}, {2, 16}, {200, 700}}) {
    const Graph graph = fuse(simplify(differentiate(norm_graph(rows, columns), "loss", {"first", "gain", "last"})));
    const Graph merged = expect_same_bits(graph);
    EXPECT_GE(count(graph, "reduce_sum"), 7) << print(graph);
    EXPECT_EQ(count(merged, "reduce_sum"), 2) << print(merged);    // to scalars
    EXPECT_LE(count(merged, "broadcast_to"), 1) << print(merged);  // of a gradient that a product reads
    EXPECT_LT(merged.nodes().size() + 8, graph.nodes().size());
  }
}

/// Tensors of `shape` in f32 that nodes make.
int written(const Graph& graph, const Shape& shape) {
  return static_cast<int>(std::ranges::count_if(
      graph.values(), [&](const Value& value) { return value.producer != kNoNode && value.type.shape == shape; }));
}

TEST(InlineMaps, ANormKeepsTheProductInFrontOfIt) {
  const Graph graph = fuse(simplify(differentiate(norm_graph(130, 64), "loss", {"first", "gain", "last"})));
  const Graph merged = expect_same_bits(graph), inlined = expect_same_bits(graph, true);
  EXPECT_GE(written(merged, {1, 130, 64}), 8) << print(merged);
  EXPECT_LE(written(inlined, {1, 130, 64}), 5) << print(inlined);
  EXPECT_LE(inlined.nodes().size(), merged.nodes().size());
}

TEST(InlineMaps, TrainingGraphsKeepTheirBits) {
  for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
    std::vector<std::string> names;
    for (const auto& weight : model.weights) names.push_back(weight.name);
    expect_same_bits(fuse(simplify(differentiate(model.forward, "loss", names))), true);
  }
}

TEST(InlineMaps, WhatOthersReadIsWritten) {
  Graph graph("read");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {128, 16}), weight = build.input("w", DType::kF32, {16, 16});
  const Tensor product = matmul(x, weight), bias = build.input("b", DType::kF32, {16});
  const Tensor read = add(product, bias);                  // a product reads this value, and cannot make it
  const Tensor costly = exp(exp(exp(exp(exp(product)))));  // takes too many operations to be made again
  const Tensor state = multiply(x, bias);                  // is made of an input, and an input may be a state
  build.output("product", matmul(read, weight));
  build.output("sums", reduce_sum(multiply(read, read), {0}));
  build.output("costly", multiply(matmul(costly, weight), costly));
  build.output("state", multiply(matmul(state, weight), state));
  const Graph inlined = expect_same_bits(graph, true);
  EXPECT_EQ(written(inlined, {128, 16}), written(expect_same_bits(graph), {128, 16})) << print(inlined);
}

TEST(MergeMaps, ValuesOf16BitsAreRoundedInsideToo) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Graph graph("narrow");
    GraphBuilder build(graph);
    const Tensor x = build.input("x", dtype, {70, 20}), y = build.input("y", DType::kF32, {20});
    const Tensor made = multiply(x, x);
    build.output("sums", reduce_sum(made, {0}));
    build.output("further", add(cast(made, DType::kF32), y));
    build.output("bools", less(made, x));
    const Graph merged = expect_same_bits(graph);
    EXPECT_EQ(merged.nodes().size(), 1u) << print(merged);
  }
}

TEST(MergeMaps, AnOutputThatNothingReadsIsNotComputed) {
  Graph graph("unread");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {70, 20}), y = build.input("y", DType::kF32, {70, 20});
  const auto maps = build.ops("map", {x, y},
                              {{"program", "2:%2=multiply(%0,%0);%3=exp(%1);%4=add(%2,%2)->%3,%4"},
                               {"shape", std::vector<int64_t>{70, 20}},
                               {"dtypes", "f32,f32"}});
  build.output("sum", maps[1]);
  const Graph merged = expect_same_bits(graph);
  ASSERT_EQ(merged.nodes().size(), 1u);
  EXPECT_EQ(merged.nodes()[0].outputs.size(), 1u);
  EXPECT_EQ(merged.nodes()[0].inputs.size(), 1u) << "y is read for the other output alone";
  EXPECT_EQ(merged.nodes()[0].attributes.get_string("program"), "1:%1=multiply(%0,%0);%2=add(%1,%1)->%2");
}

TEST(MergeMaps, TrainingGraphsKeepTheirBits) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const Model& model : {tiny_bert(), tiny_gpt2()}) {
      std::vector<std::string> names;
      for (const auto& weight : model.weights) names.push_back(weight.name);
      const Graph graph = fuse(simplify(differentiate(lower_precision(model.forward, compute), "loss", names)));
      EXPECT_LE(expect_same_bits(graph).nodes().size(), graph.nodes().size());
    }
}

TEST(MergeMaps, WhatMustStayApart) {
  Graph graph("apart");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {128, 16}), weight = build.input("w", DType::kF32, {16, 16});
  Tensor first;
  {
    PartScope part(build, "layer", 0);
    first = exp(x);
  }
  PartScope part(build, "layer", 1);
  const Tensor product = matmul(first, weight);
  // Reads a product that reads the map, so the two cannot run at once.
  build.output("behind", add(first, product));
  build.output("sums", reduce_sum(first, {0}));
  const Graph merged = expect_same_bits(graph);
  EXPECT_EQ(count(merged, "exp"), 1) << print(merged);
  EXPECT_EQ(count(merged, "reduce_sum"), 1) << print(merged);  // of another part
}

TEST(MergeMaps, LimitsHold) {
  Graph graph("long");
  GraphBuilder build(graph);
  Tensor x = build.input("x", DType::kF32, {64, 16});
  for (int i = 0; i < 9; ++i) x = add_scalar(x, 0.5 + i);
  build.output("x", x);
  EXPECT_EQ(merge_maps(graph).nodes().size(), 1u);
  EXPECT_EQ(merge_maps(graph, {.inputs = 12, .steps = 3}).nodes().size(), 3u);
}

}  // namespace
}  // namespace ramet::tests

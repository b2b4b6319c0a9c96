#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ramet/base/rng.h"
#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/fold_messages.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/inline_maps.h"
#include "ramet/transform/merge_maps.h"
#include "ramet/transform/simplify.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

constexpr int64_t kSamples = 2, kWidth = 24;

/// Edges as inputs of a graph, with their arrays: sorted by target, with places behind the last one.
struct Edges {
  int64_t nodes, edges;
  Tensor source, ptr;

  Edges(GraphBuilder& build, int64_t node_count, int64_t edge_count)
      : nodes(node_count),
        edges(edge_count),
        source(build.input("source", DType::kI32, {kSamples, edge_count})),
        ptr(build.input("ptr", DType::kI32, {kSamples, node_count + 1})) {}

  Tensor of_sources(Tensor x) const { return gather_rows(x, source); }
  Tensor of_targets(Tensor x) const { return segment_expand(x, ptr, edges); }
  Tensor sum(Tensor x) const { return segment_sum(x, ptr); }

  void fill(std::map<std::string, HostTensor>& feeds, uint64_t seed) const {
    const RandomStream stream(seed, RandomPurpose::kTest, 3, 0);
    uint64_t next = 0;
    for (int64_t b = 0; b < kSamples; ++b) {
      std::vector<int64_t> targets;
      // The last rows have no edges, and neither have the last places.
      for (int64_t e = 0; e < edges - edges / 8 - b; ++e)
        targets.push_back(stream.below(next++, static_cast<uint32_t>(std::max<int64_t>(1, nodes - 2))));
      std::ranges::sort(targets);
      for (int64_t e = 0; e < edges; ++e)
        feeds.at("source").set(b * edges + e, stream.below(next++, static_cast<uint32_t>(nodes)));
      for (int64_t row = 0; row <= nodes; ++row)
        feeds.at("ptr").set(b * (nodes + 1) + row,
                            static_cast<double>(std::ranges::lower_bound(targets, row) - targets.begin()));
    }
  }
};

using Layer = std::function<Tensor(const Edges&, Tensor x, Tensor a, Tensor b)>;

/// Two layers of messages and their gradients, as a compiler has them in front of the pass.
Graph step_of(const Layer& layer, int64_t nodes, int64_t count, DType dtype) {
  Graph graph("messages");
  GraphBuilder build(graph);
  const Edges edges(build, nodes, count);
  Tensor x = build.input("x", dtype, {kSamples, nodes, kWidth});
  std::vector<std::string> weights;
  for (const std::string name : {"first", "second"}) {
    Tensor products[2];
    for (int i = 0; i < 2; ++i) {
      weights.push_back(name + std::to_string(i));
      products[i] = matmul(x, build.input(weights.back(), dtype, {kWidth, kWidth}, InputRole::kState));
    }
    x = layer(edges, x, products[0], products[1]);
  }
  build.output("loss", reduce_sum(multiply(x, x)));
  return inline_maps(merge_maps(fuse(simplify(differentiate(graph, "loss", weights)))));
}

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->name == op; }));
}

/// Tensors with a row for each edge.
int of_edges(const Graph& graph, int64_t edges) {
  return static_cast<int>(std::ranges::count_if(graph.values(), [&](const Value& value) {
    const Shape& shape = value.type.shape;
    return value.producer != kNoNode && shape.rank() == 3 && shape[1] == edges && shape[2] == kWidth;
  }));
}

/// Folds, and expects the same bits of every output for any number of threads.
Graph expect_same_bits(const Graph& graph, int64_t nodes, int64_t count, uint64_t seed = 1) {
  const Graph folded = fold_messages(graph);
  verify(folded, "fold_messages");
  auto feeds = feeds_for(graph, 0.5);
  Graph lists("lists");
  GraphBuilder build(lists);
  Edges(build, nodes, count).fill(feeds, seed);
  const std::vector<HostTensor> before = interpret(graph, cpu_backend(), feeds);
  for (const int threads : {1, 2, 3}) {
    const std::vector<HostTensor> after = interpret(folded, cpu_backend(), feeds, threads);
    EXPECT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_EQ(before[i].data, after[i].data) << graph.outputs()[i].name << ", " << threads << " threads\n"
                                               << print(folded);
  }
  return folded;
}

const Layer kAdd = [](const Edges& edges, Tensor, Tensor a, Tensor b) {
  return edges.sum(relu(add(edges.of_targets(a), edges.of_sources(b))));
};
const Layer kDistance = [](const Edges& edges, Tensor x, Tensor a, Tensor b) {
  const Tensor apart = subtract(edges.of_targets(a), edges.of_sources(b));
  return segment_mean(multiply(exp(negate(multiply(apart, apart))), edges.of_sources(x)), edges.ptr);
};
const Layer kSoftmax = [](const Edges& edges, Tensor x, Tensor a, Tensor b) {
  const Tensor share = segment_softmax(tanh(add(edges.of_targets(a), edges.of_sources(b))), edges.ptr);
  return edges.sum(multiply(share, edges.of_sources(x)));
};
const Layer kGather = [](const Edges& edges, Tensor, Tensor a, Tensor b) {
  return add(a, edges.sum(edges.of_sources(b)));
};

TEST(FoldMessages, MessagesOfElementWiseOpsNeverExist) {
  for (const Layer& layer : {kAdd, kDistance, kGather}) {
    const Graph graph = step_of(layer, 9, 60, DType::kF32), folded = expect_same_bits(graph, 9, 60);
    EXPECT_GE(of_edges(graph, 60), 4);
    EXPECT_EQ(of_edges(folded, 60), 0) << print(folded);
    EXPECT_EQ(count(folded, "take") + count(folded, "put") + count(folded, "segment_sum"), 0) << print(folded);
  }
}

TEST(FoldMessages, AnotherKindOfNodeBetweenThemReadsTensors) {
  const Graph graph = step_of(kSoftmax, 9, 60, DType::kF32), folded = expect_same_bits(graph, 9, 60);
  EXPECT_EQ(count(folded, "segment_softmax"), 2);
  EXPECT_LT(of_edges(folded, 60), of_edges(graph, 60) / 2) << print(folded);
}

TEST(FoldMessages, RowsThatTakeMoreBytesThanMessagesDoNotWaitForTheBackwardPass) {
  // Of 60 nodes and 20 edges messages are the smaller tensors.
  const Graph folded = expect_same_bits(step_of(kAdd, 60, 20, DType::kF32), 60, 20);
  EXPECT_EQ(of_edges(folded, 20), 2) << print(folded);
}

TEST(FoldMessages, SixteenBitsKeepTheirRoundings) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const Layer& layer : {kAdd, kDistance, kSoftmax}) expect_same_bits(step_of(layer, 9, 60, dtype), 9, 60);
}

TEST(FoldMessages, ManyBlocksOfEdges) {
  for (const Layer& layer : {kAdd, kDistance}) expect_same_bits(step_of(layer, 700, 9001, DType::kF32), 700, 9001);
}

TEST(FoldMessages, EmptyGraphs) {
  for (const int64_t edges : {0, 1, 3}) expect_same_bits(step_of(kAdd, 1, edges, DType::kF32), 1, edges);
}

/// Messages as PyTorch has them: no samples, rows by `gather`, and sums by an index that is repeated for each feature.
Graph by_indices(int64_t nodes, int64_t edges, bool repeated) {
  Graph graph("indices");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {nodes, kWidth}), source = build.input("source", DType::kI64, {edges}),
               target = build.input("target", DType::kI64, {edges});
  const Tensor a = matmul(x, build.input("a", DType::kF32, {kWidth, kWidth}, InputRole::kState)),
               b = matmul(x, build.input("b", DType::kF32, {kWidth, kWidth}, InputRole::kState));
  const Tensor messages = relu(add(gather(a, target), gather(b, source))),
               none = full(build, DType::kF32, {nodes, kWidth}, 0);
  const Tensor index = repeated ? broadcast_to(reshape(target, {edges, 1}), {edges, kWidth}) : target;
  const Addressing addressing{.axes = {0}, .along = repeated ? std::vector<int64_t>{-1, 1} : std::vector<int64_t>{-1}};
  const Tensor sums = put(none, messages, {index}, addressing, {.by = "add"});
  build.output("loss", reduce_sum(multiply(sums, sums)));
  return differentiate(graph, "loss", {"a", "b"});
}

TEST(FoldMessages, RowsByIndicesAlone) {
  std::vector<HostTensor> expected;
  for (const bool repeated : {false, true}) {
    const Graph graph = by_indices(9, 60, repeated), simple = merge_maps(fuse(simplify(graph)));
    const Graph folded = fold_messages(simple);
    verify(folded, "fold_messages");
    EXPECT_EQ(count(folded, "edge_map"), 2) << print(folded);
    EXPECT_EQ(count(folded, "gather") + count(folded, "put") + count(folded, "scatter_add") + count(folded, "take"), 0);
    auto feeds = feeds_for(graph, 0.5);
    for (const char* name : {"source", "target"})
      for (int64_t e = 0; e < 60; ++e) feeds.at(name).set(e, static_cast<double>((name[0] + e * e * 7) % 9));
    if (expected.empty()) expected = interpret(graph, cpu_backend(), feeds);
    for (const int threads : {1, 2}) {
      const std::vector<HostTensor> found = interpret(folded, cpu_backend(), feeds, threads);
      for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].data, expected[i].data) << i;
    }
  }
}

/// A random expression of rows and edges, of several sums that read one another.
Layer random_layer(uint64_t seed) {
  return [seed](const Edges& edges, Tensor x, Tensor a, Tensor b) {
    const RandomStream stream(seed, RandomPurpose::kTest, 5, 0);
    uint64_t next = 0;
    const auto below = [&](uint32_t bound) { return stream.below(next++, bound); };
    std::vector<Tensor> rows{x, a, b}, values;
    const auto row = [&] { return rows[below(static_cast<uint32_t>(rows.size()))]; };
    const auto value = [&] { return values[below(static_cast<uint32_t>(values.size()))]; };
    values = {edges.of_sources(row()), edges.of_targets(row())};
    for (int i = 0; i < 12; ++i) {
      switch (below(9)) {
        case 0: values.push_back(edges.of_sources(row())); break;
        case 1: values.push_back(edges.of_targets(row())); break;
        case 2: rows.push_back(edges.sum(value())); break;
        case 3: rows.push_back(segment_mean(value(), edges.ptr)); break;
        case 4: values.push_back(tanh(value())); break;
        case 5: values.push_back(multiply(value(), value())); break;
        case 6: values.push_back(add(value(), value())); break;
        case 7: values.push_back(segment_softmax(value(), edges.ptr)); break;
        default: rows.push_back(tanh(add(row(), row()))); break;
      }
    }
    return tanh(add(row(), edges.sum(tanh(add(value(), value())))));
  };
}

TEST(FoldMessages, RandomMessagesKeepTheirBits) {
  int folded = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const DType dtype = seed % 4 == 3 ? DType::kBF16 : DType::kF32;
    folded += count(expect_same_bits(step_of(random_layer(seed), 7, 40, dtype), 7, 40, seed), "edge_map");
  }
  EXPECT_GT(folded, 200);
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/program/keep_panels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_sparse.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/inline_maps.h"
#include "ramet/transform/merge_maps.h"
#include "ramet/transform/simplify.h"
#include "transform/random_model.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

/// The CPU's library, with panels of this many tokens or none.
class Library : public KernelLibrary {
 public:
  explicit Library(int64_t tokens) : tokens_(tokens) {}
  KernelChoice choose(const NodeSignature& node, int threads) const override {
    return cpu_backend().choose(node, threads);
  }
  std::optional<BlockedLayout> blocking(const NodeSignature& node, int input) const override {
    if (tokens_ == 0) return std::nullopt;
    return panel_layout(node.inputs[static_cast<size_t>(input)], tokens_);
  }
  std::string kernel_class() const override { return cpu_backend().kernel_class(); }

 private:
  int64_t tokens_;
};

/// Every third block, and the first one.
HostTensor pattern(int64_t blocks) {
  std::vector<double> index;
  for (int64_t block = 0; block < blocks; block += 3) index.push_back(static_cast<double>(block));
  return HostTensor::of(DType::kI32, {1, 1, std::ssize(index)}, index);
}

constexpr int64_t kWidth = 32, kInner = 96;

/// A feed-forward layer with two sparse matrices, and its gradients. `residual`: the first product is also read by
/// rows.
Graph feed_forward(DType dtype, int64_t tokens, int64_t block, bool residual = false) {
  Graph graph("feed_forward");
  GraphBuilder build(graph);
  const int64_t slots = pattern(kWidth / block * (kInner / block)).type.shape[2];
  const Dims values{1, 1, slots, block, block};
  const Tensor x = build.input("x", dtype, {2, tokens / 2, kWidth});
  const Tensor up = build.input("up", dtype, Shape(values), InputRole::kState);
  const Tensor down = build.input("down", dtype, Shape(values), InputRole::kState);
  const Tensor index = build.input("index", DType::kI32, {1, 1, slots}, InputRole::kState);
  const Tensor bias = build.input("bias", dtype, {kInner}, InputRole::kState);
  const Tensor target = build.input("target", dtype, {2, tokens / 2, kWidth});
  const Tensor inner = add(sparse_matmul(x, up, index, {kInner, kWidth}), bias);
  const Tensor y = sparse_matmul(gelu(scale(inner, 1.5)), down, index, {kWidth, kInner});
  if (residual) build.output("rows", softmax(inner));
  build.output("loss", reduce_sum(cast(multiply(y, target), DType::kF32)));
  return simplify(differentiate(graph, "loss", {"x", "up", "down", "bias"}));
}

std::map<std::string, HostTensor> feeds_of(const Graph& graph, int64_t block) {
  auto feeds = feeds_for(graph, 1.0);
  feeds.at("index") = pattern(kWidth / block * (kInner / block));
  return feeds;
}

int in_panels(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes())
    for (const char* name : {"x_panels", "a_panels", "b_panels", "y_panel"}) count += node.attributes.has(name);
  return count;
}

void expect_same_bits(const Graph& graph, const Graph& kept, int64_t block, const std::string& what) {
  verify(kept, "keep_panels");
  const auto feeds = feeds_of(graph, block);
  const std::vector<HostTensor> before = interpret(graph, cpu_backend(), feeds);
  for (const int threads : {1, 2}) {
    const std::vector<HostTensor> after = interpret(kept, cpu_backend(), feeds, threads);
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].type, after[i].type) << graph.outputs()[i].name;
      EXPECT_EQ(before[i].data, after[i].data) << what << " " << graph.outputs()[i].name << "\n" << print(kept);
    }
  }
}

TEST(KeepPanels, AFeedForwardLayerStaysInPanelsWithTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const int64_t tokens : {512, 1536})
      for (const int64_t block : {1, 4, 8, 16}) {
        const Graph graph = feed_forward(dtype, tokens, block);
        const Graph kept = keep_panels(graph, Library(512));
        // In each pass the value between the two products, and the inner operand of both weights' gradients.
        EXPECT_EQ(in_panels(kept), 6) << print(kept);
        const std::string what = std::string(name_of(dtype)) + " block " + std::to_string(block);
        expect_same_bits(graph, kept, block, what);
        expect_same_bits(graph, inline_maps(merge_maps(kept)), block, what + " merged");
      }
}

TEST(KeepPanels, OtherNumbersOfTokensStayInRows) {
  for (const int64_t tokens : {2, 130, 510, 514}) {
    const Graph graph = feed_forward(DType::kF32, tokens, 4);
    EXPECT_EQ(in_panels(keep_panels(graph, Library(512))), 0);
  }
  EXPECT_EQ(in_panels(keep_panels(feed_forward(DType::kF32, 512, 4), Library(0))), 0);
}

TEST(KeepPanels, WhatIsReadInRowsStaysInRows) {
  const Graph graph = feed_forward(DType::kF32, 512, 4, true);
  const Graph kept = keep_panels(graph, Library(512));
  // GELU's argument has a reader in rows, so nothing behind it is in panels either.
  EXPECT_EQ(in_panels(kept), 0) << print(kept);
  expect_same_bits(graph, kept, 4, "rows");
}

}  // namespace
}  // namespace ramet::tests

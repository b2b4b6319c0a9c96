#include "ramet/transform/pick_early.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/kernel/interpret.h"
#include "ramet/model/presets.h"
#include "ramet/ops/build.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/simplify.h"
#include "random_model.h"

namespace ramet::tests {
namespace {

constexpr int64_t kSamples = 2, kRows = 6, kWidth = 8, kInner = 16;

/// A block of two products with a residual and a norm on rows [2,6,8], and what is picked from it.
struct Block {
  Graph graph{"block"};
  GraphBuilder build{graph};
  Tensor x = build.input("x", DType::kF32, {kSamples, kRows, kWidth});
  Tensor residual = add(x, x);
  Tensor result;

  explicit Block(bool drops = false) {
    const auto weight = [&](const char* name, Shape shape) { return build.state(name, DType::kF32, std::move(shape)); };
    Tensor wide = gelu(linear(residual, weight("up", {kInner, kWidth}), weight("up.bias", {kInner})));
    if (drops) wide = dropout(wide, build.input("counter", DType::kI64, {2}, InputRole::kScalar), 0.5, 1, "drop");
    const Tensor narrow = linear(wide, weight("down", {kWidth, kInner}), weight("down.bias", {kWidth}));
    result = layer_norm(add(residual, narrow), weight("gain", {kWidth}), weight("shift", {kWidth}), 1e-5);
  }
  Tensor pick(int64_t count) {
    const Tensor first = build.input("rows", DType::kI32, {count});
    return gather(reshape(result, {kSamples * kRows, kWidth}), add(first, first));
  }
};

/// Rows of the left operands of all products.
std::vector<int64_t> product_rows(const Graph& graph) {
  std::vector<int64_t> rows;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
    if (const Node& node = graph.node(id); node.op->products)
      for (const MatrixProduct& product : node.op->products(graph.signature(id)))
        rows.push_back(product.batch * product.m);
  return rows;
}

/// The same outputs to the bit; the new graph.
Graph expect_equal(const Graph& graph) {
  Graph early = simplify(pick_early(graph));
  verify(early, "pick early");
  const auto feeds = feeds_for(graph);
  EXPECT_EQ(interpret(graph, reference_backend(), feeds), interpret(early, reference_backend(), feeds));
  return early;
}

TEST(PickEarly, ProductsComputeThePickedRowsAlone) {
  Block block;
  block.build.output("rows", block.pick(3));
  EXPECT_EQ(product_rows(block.graph), (std::vector<int64_t>{12, 12}));
  EXPECT_EQ(product_rows(expect_equal(block.graph)), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(product_rows(expect_equal(simplify(fuse(block.graph)))), (std::vector<int64_t>{3, 3})) << "in maps";
}

TEST(PickEarly, LeavesWhatIsReadWhole) {
  {
    Block block;
    block.build.output("rows", block.pick(3));
    block.build.output("all", reduce_sum(block.result));
    EXPECT_EQ(print(pick_early(block.graph)), print(block.graph)) << "all rows of the result are read";
  }
  {
    Block block;
    block.build.output("rows", block.pick(7));
    EXPECT_EQ(print(pick_early(block.graph)), print(block.graph)) << "more than half of the rows";
  }
  {
    Block block;
    const Tensor rows = block.pick(3);
    block.build.output("rows",
                       add(rows, slice(reshape(block.residual, {kSamples * kRows, kWidth}), {0, 0}, {3, kWidth})));
    EXPECT_EQ(product_rows(expect_equal(block.graph)), (std::vector<int64_t>{3, 3})) << "the residual is picked from";
  }
}

TEST(PickEarly, LeavesWhatDependsOnPositions) {
  Block block(true);
  block.build.output("rows", block.pick(3));
  EXPECT_EQ(product_rows(expect_equal(fuse(block.graph))), (std::vector<int64_t>{12, 3}))
      << "dropout draws by the element's place, so it stays with what is before it";
}

TEST(PickEarly, IndicesMayComeFromTheRowsThatStay) {
  Block block;
  const Tensor best = argmax(reshape(block.x, {kSamples * kRows, kWidth}), 0);
  block.build.output("rows", gather(reshape(block.result, {kSamples * kRows, kWidth}), slice(best, {0}, {3})));
  EXPECT_EQ(product_rows(expect_equal(block.graph)), (std::vector<int64_t>{3, 3}));
  Block self;
  const Tensor own = argmax(reshape(self.result, {kSamples * kRows, kWidth}), 0);
  self.build.output("rows", gather(reshape(self.result, {kSamples * kRows, kWidth}), slice(own, {0}, {3})));
  EXPECT_EQ(print(pick_early(self.graph)), print(self.graph)) << "which rows to pick depends on all of them";
}

TEST(PickEarly, TheLastLayerOfABertComputesMaskedWordsAlone) {
  const Model model = small_bert(2, 8, 16, 12, false);
  const Graph early = expect_equal(model.evaluate);
  const std::vector<int64_t> before = product_rows(model.evaluate), after = product_rows(early);
  ASSERT_EQ(before.size(), after.size());
  EXPECT_EQ(std::count(before.begin(), before.end(), 4), 2) << "the head's two products, of 2 words in 2 sequences";
  EXPECT_EQ(std::count(after.begin(), after.end(), 4), 5) << "and the last layer's three that are behind its attention";
}

}  // namespace
}  // namespace ramet::tests

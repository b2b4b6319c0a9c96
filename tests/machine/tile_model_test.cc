#include "ramet/machine/tile_model.h"

#include <gtest/gtest.h>

#include "ramet/machine/machine.h"
#include "ramet/ops/build.h"

namespace ramet::tests {
namespace {

const TileFigures kFigures{.clock = 1.85e9};

NodeSignature node_of(const std::string& op, std::vector<TensorType> inputs, Attributes attributes = {}) {
  NodeSignature node{&OpRegistry::instance().get(op), std::move(inputs), {}, std::move(attributes), "node"};
  node.outputs = node.op->infer(node);
  return node;
}

TileCycles cycles_of(const NodeSignature& node) { return tile_cycles(kFigures, node, node.op->cost(node)); }

const TensorType kHalf{DType::kF16, {1024, 4096}}, kSingle{DType::kF32, {1024, 4096}};

TEST(TileModel, MatrixProductsAreThoseOfThePlan) {
  const NodeSignature node = node_of("matmul", {{DType::kF16, {1024, 512}}, {DType::kF16, {512, 2048}}});
  const TileCycles expected = choose_product(kFigures, {1, 1024, 512, 2048, DType::kF16}).cycles;
  EXPECT_EQ(cycles_of(node).total(), expected.total());
  EXPECT_EQ(cycles_of(node).temporary_bytes, expected.temporary_bytes);
}

TEST(TileModel, ABiasCostsAPassMore) {
  const TensorType a{DType::kF16, {1024, 512}}, b{DType::kF16, {512, 2048}}, bias{DType::kF32, {2048}};
  const double bare = cycles_of(node_of("matmul", {a, b})).total(),
               with = cycles_of(node_of("linear", {a, b, bias})).total();
  EXPECT_GT(with, bare + kFigures.vertex_cycles);
  EXPECT_LT(with, 1.2 * bare);
}

// 1024 x 4096 f16 on 1472 tiles: 2850 elements a tile, 3 x 5700 bytes at 8 bytes a cycle of full loops.
TEST(TileModel, ElementsAreSpreadOverAllTiles) {
  const TileCycles cycles = cycles_of(node_of("add", {kHalf, kHalf}));
  EXPECT_NEAR(cycles.compute, kFigures.vertex_cycles + 17096.0 / 8 / kFigures.element_efficiency, 2);
  EXPECT_EQ(cycles.exchange, 0);
  EXPECT_EQ(cycles.sync, kFigures.sync_cycles);
  EXPECT_NEAR(cycles_of(node_of("add", {kSingle, kSingle})).compute - kFigures.vertex_cycles,
              2 * (cycles.compute - kFigures.vertex_cycles), 4);
}

TEST(TileModel, ArithmeticBoundsLoopsThatDoMuch) {
  const double gelu = cycles_of(node_of("gelu", {kHalf})).compute, relu = cycles_of(node_of("relu", {kHalf})).compute;
  EXPECT_GT(gelu, 4 * relu);
}

TEST(TileModel, ReductionsExchangeWhatTheyFound) {
  Attributes axes;
  axes.set("axes", std::vector<int64_t>{1});
  const TileCycles sum = cycles_of(node_of("reduce_sum", {kHalf}, axes));
  EXPECT_GE(sum.sync, 2 * kFigures.phase_cycles);
  Attributes axis;
  axis.set("axis", int64_t{1});
  const TileCycles softmax = cycles_of(node_of("softmax", {kHalf}, axis));
  EXPECT_GE(softmax.sync, 2 * kFigures.phase_cycles);
}

TEST(TileModel, GathersAndTransposesMoveTheirElements) {
  Attributes order;
  order.set("permutation", std::vector<int64_t>{1, 0});
  const TileCycles turned = cycles_of(node_of("transpose", {kHalf}, order));
  EXPECT_NEAR(turned.exchange, static_cast<double>(kHalf.bytes()) / 1472 / 4, 1);
  const TileCycles rows = cycles_of(node_of("gather", {{DType::kF16, {30522, 1024}}, {DType::kI32, {8, 128}}}));
  EXPECT_GT(rows.exchange, 1024 * 1024 * 2 / 1472 / 4);
  EXPECT_LT(rows.total(), 20000);  // the table itself stays where it is
}

TEST(TileModel, AttentionIsItsProductsAndItsSoftmax) {
  Attributes attributes;
  attributes.set("packed", true);
  attributes.set("scale", 0.125);
  const NodeSignature node = node_of("attention", {{DType::kF16, {8, 128, 3, 16, 64}}}, attributes);
  const double products = choose_product(kFigures, {128, 128, 64, 128, DType::kF16}).cycles.total() +
                          choose_product(kFigures, {128, 128, 128, 64, DType::kF16}).cycles.total();
  EXPECT_GT(cycles_of(node).total(), products);
  EXPECT_LT(cycles_of(node).total(), 2 * products);
}

TEST(TileModel, TheFullestTileHoldsWholeVectors) {
  EXPECT_EQ(fullest_tile_bytes(kFigures, 4), 8);
  EXPECT_EQ(fullest_tile_bytes(kFigures, 1472 * 8), 8);
  EXPECT_EQ(fullest_tile_bytes(kFigures, 1472 * 8 + 1), 16);
  EXPECT_EQ(fullest_tile_bytes(kFigures, 1472 * 800, 0.5), 1600);
  EXPECT_EQ(fullest_tile_bytes(kFigures, 0), 0);
}

TEST(TileModel, CallsOfMachinesOfTilesTakeTheirCycles) {
  Machine machine;
  machine.device.model = DeviceModel::kTiles;
  machine.device.clock = kFigures.clock;
  machine.device.tiles = kFigures;
  const NodeSignature node = node_of("matmul", {{DType::kF16, {4096, 4096}}, {DType::kF16, {4096, 1024}}});
  const Cost cost = node.op->cost(node);
  const double seconds = call_seconds(machine, node, "tiles 60%", cost);
  EXPECT_DOUBLE_EQ(seconds, tile_cycles(kFigures, node, cost).total() / kFigures.clock);
  EXPECT_GT(call_seconds(machine, node, "tiles 10%", cost), 1.05 * seconds);
}

}  // namespace
}  // namespace ramet::tests

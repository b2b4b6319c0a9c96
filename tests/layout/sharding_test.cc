#include "ramet/layout/sharding.h"

#include <gtest/gtest.h>

#include <random>

#include "ramet/base/error.h"
#include "ramet/ops/position.h"

namespace ramet::tests {
namespace {

/// Logical element of each local one, -1 for padding.
std::vector<int64_t> elements_of(const Sharding& sharding, const Mesh::Position& position) {
  std::vector<int64_t> elements(static_cast<size_t>(sharding.local().elements()), -1);
  int64_t last = 0;
  for_each_run(sharding, position, [&](const ShardRun& run) {
    EXPECT_GE(run.local, last) << "runs are not in order";
    EXPECT_GT(run.count, 0);
    last = run.local + run.count;
    for (int64_t i = 0; i < run.count; ++i) elements[static_cast<size_t>(run.local + i)] = run.logical + i;
  });
  return elements;
}

TEST(Sharding, AFusedWeightCutByHeadsKeepsEachBlocksPart) {
  // [3 * heads, 2] with 2 heads on 2 shards: shard 1 holds rows 1, 3, 5.
  const Sharding sharding{{DType::kF32, Shape{6, 2}}, {{0, MeshAxis::kTensor1, 2, 3, 1}}, 1, 1};
  EXPECT_EQ(elements_of(sharding, {.tensor1 = 1}), (std::vector<int64_t>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(sharding.text(), "f32[6,2] 0/t1:2x3");
}

TEST(Sharding, AFlatCutPadsTheLastPart) {
  const Sharding sharding{{DType::kF32, Shape{7}}, {}, 3, 1};
  EXPECT_EQ(sharding.local().shape, Shape{3});
  EXPECT_EQ(elements_of(sharding, {.replica = 2}), (std::vector<int64_t>{6, -1, -1}));
  const Sharding tiny{{DType::kF32, Shape{1}}, {}, 3, 1};
  EXPECT_EQ(elements_of(tiny, {.replica = 2}), (std::vector<int64_t>{-1}));
}

TEST(Sharding, RefusesUnequalParts) {
  const Sharding sharding{{DType::kF32, Shape{6, 2}}, {{0, MeshAxis::kTensor1, 4, 1, 1}}, 1, 1};
  EXPECT_THROW(sharding.local(), Error);
}

/// Random cuts: all devices together hold every element equally often, and agree with what positional ops compute.
TEST(Sharding, DevicesTogetherHoldEveryElement) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    Mesh mesh{.p = 1,
              .r = static_cast<int>(draw(1, 4)),
              .t1 = static_cast<int>(draw(1, 3)),
              .t2 = static_cast<int>(draw(1, 3))};
    const int rank = static_cast<int>(draw(1, 3));
    Sharding sharding;
    std::vector<int64_t> dims, cuts_attribute;
    std::vector<MeshAxis> axes{MeshAxis::kTensor1, MeshAxis::kTensor2};
    for (int dim = 0; dim < rank; ++dim) {
      int64_t extent = draw(1, 4);
      if (!axes.empty() && draw(0, 1)) {
        const Cut cut{dim, axes.back(), mesh.extent(axes.back()), draw(1, 3), 1};
        axes.pop_back();
        extent *= cut.parts * cut.blocks;
        sharding.cuts.push_back(cut);
        cuts_attribute.insert(cuts_attribute.end(), {dim, static_cast<int64_t>(cut.axis), cut.parts, cut.blocks, 1});
      }
      dims.push_back(extent);
    }
    sharding.logical = {DType::kF32, Shape(dims)};
    if (draw(0, 1)) sharding.flat_parts = mesh.r;
    std::vector<int64_t> held(static_cast<size_t>(sharding.logical.elements()), 0);
    for (int device = 0; device < mesh.devices(); ++device) {
      const auto elements = elements_of(sharding, mesh.position(device));
      for (int64_t element : elements)
        if (element >= 0) ++held[static_cast<size_t>(element)];
      if (sharding.flat_parts > 1) continue;
      NodeSignature node;
      node.attributes = {{"cuts", cuts_attribute}};
      std::vector<int64_t> position;
      for (const Cut& cut : sharding.cuts) position.push_back(part_of(cut, mesh.position(device)));
      node.attributes.set("position", position);
      const Position where(node, sharding.local().shape);
      for (size_t i = 0; i < elements.size(); ++i) ASSERT_EQ(elements[i], where.index(static_cast<int64_t>(i)));
    }
    for (int64_t count : held) ASSERT_EQ(count, held[0]) << sharding.text();
    ASSERT_GT(held[0], 0);
  }
}

}  // namespace
}  // namespace ramet::tests

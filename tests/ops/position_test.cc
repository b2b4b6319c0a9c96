#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/ir/builder.h"
#include "ramet/ir/graph.h"
#include "ramet/ops/position.h"
#include "support/cut.h"

namespace ramet::tests {
namespace {

NodeSignature iota_node(const Shape& shape, Attributes attributes) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get("iota");
  node.name = "count";
  node.attributes = std::move(attributes.set("dtype", DType::kI32).set("shape", shape.dims()).set("axis", int64_t{0}));
  node.outputs = {{DType::kI32, shape}};
  return node;
}

/// A tensor whose elements are their own indices.
HostTensor numbered(const Shape& shape) {
  HostTensor tensor(TensorType{DType::kI64, shape});
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

void expect_logical(const Shape& shape, const std::vector<TestCut>& cuts, const std::vector<int64_t>& k) {
  HostTensor part = numbered(shape);
  for (size_t i = 0; i < cuts.size(); ++i) part = cut(part, cuts[i], k[i]);
  const Position position(iota_node(part.type.shape, placed({}, cuts, k)));
  ASSERT_EQ(position.logical(), shape);
  ASSERT_EQ(position.local(), part.type.shape);
  for (int64_t e = 0; e < part.elements(); ++e) ASSERT_EQ(position.index(e), part.get(e)) << "element " << e;
  // Runs of any stretch cover it once, in order.
  for (int64_t begin = 0; begin < part.elements(); begin += 7)
    for (int64_t count : {int64_t{1}, int64_t{5}, part.elements() - begin}) {
      if (begin + count > part.elements()) continue;
      int64_t next = begin;
      position.for_each_run(begin, count, [&](const Position::Run& run) {
        ASSERT_EQ(run.local, next);
        ASSERT_GT(run.length, 0);
        for (int64_t i = 0; i < run.length; ++i) ASSERT_EQ(run.logical + i, part.get(run.local + i));
        next += run.length;
      });
      ASSERT_EQ(next, begin + count);
    }
  // And back.
  for (int dim = 0; dim < shape.rank(); ++dim) {
    int64_t held = 0;
    for (int64_t logical = 0; logical < shape[dim]; ++logical) {
      const int64_t local = position.local_coordinate(dim, logical);
      if (local < 0) continue;
      ++held;
      ASSERT_EQ(position.coordinate(dim, local), logical);
    }
    ASSERT_EQ(held, position.local()[dim]);
  }
}

TEST(Position, KnowsEveryElement) {
  expect_logical({4, 6, 24}, {}, {});
  for (int64_t k : {0, 1}) {
    expect_logical({4, 6, 24}, {{2, 2, 1}}, {k});
    expect_logical({4, 6, 24}, {{2, 2, 3}}, {k});
    expect_logical({4, 6, 24}, {{0, 2, 1}}, {k});
    expect_logical({4, 6, 24}, {{1, 2, 3}}, {1 - k});
    expect_logical({4, 6, 24}, {{0, 2, 2}, {2, 4, 1}}, {k, 2 + k});
    expect_logical({4, 6, 24}, {{2, 2, 3}, {2, 2, 1}}, {k, 1});  // the second cut crosses blocks of the first
    expect_logical({4, 6, 24}, {{2, 2, 1}, {2, 3, 2}, {1, 3, 1}}, {k, 2, 1});
    expect_logical({2, 1, 8}, {{2, 8, 1}}, {7 * k});
    expect_logical({2}, {{0, 2, 1}}, {k});
  }
}

TEST(Position, OneRunWhereOnlyTheFirstDimensionIsCut) {
  const Position position(iota_node({2, 6, 24}, placed({}, {{0, 2, 1}}, {1})));
  const Position::Run run = position.run_at(3);
  EXPECT_EQ(run.logical, 2 * 6 * 24 + 3);
  EXPECT_EQ(run.length, 2 * 6 * 24 - 3);
}

TEST(Position, NothingToPlace) {
  const Position position(iota_node({0, 6}, placed({}, {{0, 2, 1}}, {1})));
  EXPECT_EQ(position.logical_elements(), 0);
  position.for_each_run(0, 0, [](const Position::Run&) { FAIL(); });
}

TEST(Position, WithoutAPlaceYetIsTheFirstPart) {
  Attributes attributes = placed({}, {{0, 4, 1}}, {3});
  attributes.erase("position");
  EXPECT_EQ(Position(iota_node({2, 6}, attributes)).index(0), 0);
}

std::string refusal(Attributes attributes) {
  try {
    Position position(iota_node({4, 6}, std::move(attributes)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Position, RefusesCutsThatCannotBe) {
  using testing::HasSubstr;
  const std::vector<int64_t> one{0};
  EXPECT_THAT(refusal({{"cuts", std::vector<int64_t>{0, 2, 2}}, {"position", one}}),
              HasSubstr("wrong number of integers"));
  EXPECT_THAT(refusal({{"cuts", std::vector<int64_t>{0, 2, 2, 1, 1}}, {"position", std::vector<int64_t>{}}}),
              HasSubstr("'position' does not go with 'cuts'"));
  EXPECT_THAT(refusal({{"cuts", std::vector<int64_t>{0, 2, 2, 1, 1}}, {"position", std::vector<int64_t>{2}}}),
              HasSubstr("a cut that cannot be"));
  EXPECT_THAT(refusal({{"cuts", std::vector<int64_t>{2, 2, 2, 1, 1}}, {"position", one}}),
              HasSubstr("a dimension that is not there"));
  EXPECT_THAT(refusal({{"cuts", std::vector<int64_t>{0, 2, 2, 3, 1}}, {"position", one}}),
              HasSubstr("blocks do not divide the extent"));
  EXPECT_THAT(refusal({{"cuts", std::vector<int64_t>{0, 2, 2, 1, 1, 0, 2, 1 << 24, 1, 1, 0, 2, 1 << 24, 1, 1}},
                       {"position", std::vector<int64_t>{0, 0, 0}}}),
              HasSubstr("extent out of range"));
}

TEST(Position, OnlyPositionalOpsTakeTheAttributes) {
  for (const char* op : {"iota", "full"}) {
    Graph graph;
    GraphBuilder build(graph);
    Attributes attributes{{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{4}}};
    if (std::string(op) == "iota")
      attributes.set("axis", int64_t{0});
    else
      attributes.set("value", 1.0);
    build.output("out", build.op(op, {}, placed(attributes, {{0, 2, 1}}, {1})));
    if (std::string(op) == "iota")
      EXPECT_NO_THROW(verify(graph, "building"));
    else
      EXPECT_THROW(verify(graph, "building"), Error);
  }
}

/// Flat parts of what a cut leaves, as replicas hold them: with padding at the end that is in no run.
TEST(Position, OfFlatParts) {
  const Shape shape{6, 5};
  const std::vector<TestCut> cuts{{0, 2, 1}};
  for (int64_t k = 0; k < 2; ++k) {
    const HostTensor half = cut(numbered(shape), cuts[0], k);  // 15 elements
    int64_t seen = 0;
    for (int64_t part = 0; part < 4; ++part) {
      Attributes attributes = placed({}, cuts, {k});
      attributes.set("flat", std::vector<int64_t>{1, 4, 1, 3, 5}).set("position", std::vector<int64_t>{k, part});
      NodeSignature node = iota_node(Shape{4}, attributes);
      const Position position(node);
      EXPECT_TRUE(position.flat());
      EXPECT_FALSE(position.whole());
      EXPECT_EQ(position.logical(), shape);
      for (int64_t begin = 0; begin < 4; ++begin)
        position.for_each_run(begin, 4 - begin, [&](const Position::Run& run) {
          for (int64_t i = 0; i < run.length; ++i) {
            ASSERT_LT(part * 4 + run.local + i, 15);
            ASSERT_EQ(run.logical + i, half.get(part * 4 + run.local + i));
            ASSERT_EQ(position.index(run.local + i), run.logical + i);
            seen += begin == 0;
          }
        });
    }
    EXPECT_EQ(seen, 15);
  }
}

TEST(Position, RefusesFlatPartsThatCannotBe) {
  const auto message = [](std::vector<int64_t> flat, const Shape& part) {
    try {
      Position(iota_node(part, Attributes{{"flat", std::move(flat)}}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({1, 4}, {4}), testing::HasSubstr("'flat' has too few integers"));
  EXPECT_THAT(message({1, 0, 1, 15}, {4}), testing::HasSubstr("a flat part that cannot be"));
  EXPECT_THAT(message({1, 4, 1, 15}, {5}), testing::HasSubstr("'flat' speaks of another shape"));
  EXPECT_EQ(message({1, 4, 1, 15}, {4}), "");
}

}  // namespace
}  // namespace ramet::tests

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

/// A node of some op with f32 operands of these shapes.
NodeSignature node_of(std::vector<Shape> inputs, std::vector<Shape> outputs) {
  static const OpDef op = [] {
    OpDef made;
    made.name = "some";
    return made;
  }();
  NodeSignature node{&op, {}, {}, {}, "n"};
  for (Shape& shape : inputs) node.inputs.push_back({DType::kF32, std::move(shape)});
  for (Shape& shape : outputs) node.outputs.push_back({DType::kF32, std::move(shape)});
  return node;
}

TEST(ShardingRule, ReadsFactorsTheirSizesAndWhatIsReduced) {
  const ShardingRule rule = ShardingRule::parse("([i, k], [k, j]) -> [i, j]", node_of({{2, 3}, {3, 4}}, {{2, 4}}));
  EXPECT_EQ(rule.text(), "([i,k],[k,j])->[i,j]");
  ASSERT_EQ(rule.factors.size(), 3u);
  EXPECT_EQ(rule.factors[0].size, 2);
  EXPECT_EQ(rule.factors[1].size, 3);
  EXPECT_EQ(rule.factors[1].reduce, ShardingRule::Reduce::kSum);
  EXPECT_EQ(rule.factors[2].size, 4);
  EXPECT_EQ(rule.factors[2].reduce, ShardingRule::Reduce::kNone);
  const ShardingRule most = ShardingRule::parse("([i,k])->[i]", node_of({{2, 3}}, {{2}}), ShardingRule::Reduce::kMax);
  EXPECT_EQ(most.factors[1].reduce, ShardingRule::Reduce::kMax);
}

TEST(ShardingRule, InfersCompoundDimensionsFromOtherOperands) {
  const ShardingRule rule =
      ShardingRule::parse("([a*b,!c])->([a,b,!c],[1,c])", node_of({{12, 5}}, {{3, 4, 5}, {1, 5}}));
  EXPECT_EQ(rule.factors[0].size, 3);
  EXPECT_EQ(rule.factors[1].size, 4);
  EXPECT_TRUE(rule.factors[2].whole);
  EXPECT_EQ(rule.text(), "([a*b,!c])->([a,b,!c],[1,!c])");
  EXPECT_TRUE(rule.outputs[1][0].empty()) << "an extent of 1 that broadcasts has no factor";
}

TEST(ShardingRule, TakesScalarsAndEmptyLists) {
  EXPECT_EQ(ShardingRule::parse("()->[a]", node_of({}, {{4}})).text(), "()->[a]");
  EXPECT_EQ(ShardingRule::parse("([a],[])->[]", node_of({{4}, {}}, {{}})).text(), "([a],[])->[]");
}

std::string refusal(const std::string& text, const NodeSignature& node) {
  try {
    ShardingRule::parse(text, node);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ShardingRule, RefusesWhatDoesNotFitTheNode) {
  const NodeSignature node = node_of({{2, 3}, {3, 4}}, {{2, 4}});
  EXPECT_THAT(refusal("([i,k],[k,j])->[i,i]", node),
              HasSubstr("extents contradict each other: 4 in f32[2,4] where the other operands give 2"));
  EXPECT_THAT(refusal("([i,k])->[i,k]", node), HasSubstr("1 inputs for a node with 2"));
  EXPECT_THAT(refusal("([i],[k,j])->[i,j]", node), HasSubstr("input 0 has 1 dimensions, the node's is f32[2,3]"));
  EXPECT_THAT(refusal("([i*x,k],[k,j])->[i*x,j]", node),
              HasSubstr("the size of factor 'i' does not follow from the shapes"));
  EXPECT_THAT(refusal("([1,k],[k,j])->[i,j]", node), HasSubstr("2 in f32[2,3] where the other operands give 1"));
}

TEST(ShardingRule, RefusesBadText) {
  const NodeSignature node = node_of({{2}}, {{2}});
  EXPECT_THAT(refusal("[a]->[a]", node), HasSubstr("expected '('"));
  EXPECT_THAT(refusal("([a])", node), HasSubstr("expected '->'; found the end"));
  EXPECT_THAT(refusal("([a]->[a]", node), HasSubstr("expected ')'; found '->[a]'"));
  EXPECT_THAT(refusal("([a])->[a]]", node), HasSubstr("text after the rule; found ']'"));
  EXPECT_THAT(refusal("([])->[2]", node), HasSubstr("expected the name of a factor"));
  EXPECT_THAT(refusal("([a**b])->[a]", node), HasSubstr("expected the name of a factor"));
}

}  // namespace
}  // namespace ramet::tests

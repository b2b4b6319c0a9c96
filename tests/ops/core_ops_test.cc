#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/random_fill.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/reduce_shape.h"
#include "support/errors.h"

// What the case table cannot say of element-wise, shape, indexing and reduction ops: error texts, builder functions,
// identities, sharding text, orders of sums.

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

class CoreOps : public testing::Test {
 protected:
  Tensor input(const std::string& name, DType dtype, Shape shape) {
    return build_.input(name, dtype, std::move(shape));
  }
  Graph graph_{"test"};
  GraphBuilder build_{graph_};
  Tensor a_ = input("a", DType::kF32, {4, 6});
  Tensor i_ = input("i", DType::kI32, {4, 6});
};

TEST_F(CoreOps, ErrorsNameTheNodeAndTheRemedy) {
  const Scope scope(build_, "layer0");
  EXPECT_EQ(error_of([&] { add(a_, input("b", DType::kF32, {5})); }),
            "add 'layer0' (f32[4,6], f32[5]): shapes do not broadcast; found [4,6] and [5]; expected equal extents, or "
            "1, in each "
            "dimension counted from the last");
  EXPECT_EQ(error_of([&] { add(a_, i_); }),
            "add 'layer0' (f32[4,6], i32[4,6]), step add(%0,%1): element types that 'add' does not take; found f32, "
            "i32; expected "
            "floats, or integers of one type. Cast the operands first");
  EXPECT_EQ(error_of([&] { exp(i_); }),
            "exp 'layer0' (i32[4,6]), step exp(%0): element types that 'exp' does not take; found i32; expected "
            "floats. Cast the "
            "operands first");
  EXPECT_EQ(error_of([&] { build_.op("clamp", {a_}, {{"parameter", 2.0}, {"second", 1.0}}); }),
            "clamp 'layer0' (f32[4,6]): bounds in the wrong order; found 2.0 and 1.0; expected parameter <= second");
  EXPECT_EQ(error_of([&] { reshape(a_, {5, -1}); }),
            "reshape 'layer0' (f32[4,6]): extent out of range; found -1 in [5,-1]; expected 0 to 2^40");
  EXPECT_EQ(
      error_of([&] { reshape(a_, {5, 5}); }),
      "reshape 'layer0' (f32[4,6]): reshape to another number of elements; found [5,5] of 25; expected 24 elements, as "
      "f32[4,6]");
  EXPECT_EQ(
      error_of([&] { transpose(a_, {0, 0}); }),
      "transpose 'layer0' (f32[4,6]): 'permutation' is not one; found [0,0]; expected each of 0 to rank - 1 once, for "
      "f32[4,6]");
  EXPECT_EQ(
      error_of([&] { slice(a_, {0, 4}, {4, 7}); }),
      "slice 'layer0' (f32[4,6]): slice out of range in dimension 1; found [4, 7); expected 0 <= start <= stop <= 6");
  EXPECT_EQ(error_of([&] { split(a_, {2, 3}, 1); }),
            "split 'layer0' (f32[4,6]): 'sizes' do not add up to the dimension; found [2,3]; expected 6 in all");
  EXPECT_EQ(
      error_of([&] { concat({a_, i_}, 0); }),
      "concat 'layer0' (f32[4,6], i32[4,6]): part 1 does not fit the first; found i32[4,6]; expected f32[4,6] but for "
      "dimension 0");
  EXPECT_EQ(error_of([&] { reduce_sum(a_, {1, -1}); }),
            "reduce_sum 'layer0' (f32[4,6]): the same axis twice in 'axes'; found [1,-1]; expected distinct axes");
  EXPECT_EQ(error_of([&] { gather(a_, a_); }),
            "gather 'layer0' (f32[4,6], f32[4,6]): input 1 (indices) has the wrong element type; found f32[4,6]; "
            "expected i32 or "
            "i64. Cast it first");
  EXPECT_EQ(error_of([&] { top_k(a_, 7); }),
            "top_k 'layer0' (f32[4,6]): 'k' out of range; found 7; expected 0 to the last extent, 6");
  EXPECT_EQ(error_of([&] { map_unary("gelo", a_); }), "unknown op; found 'gelo'. Did you mean 'gelu'?");
}

TEST_F(CoreOps, RefuseHostileAttributes) {
  const int64_t huge = INT64_MAX;
  const auto refused = [&](const char* op, std::vector<Tensor> inputs, Attributes attributes) {
    const std::string error = error_of([&] { build_.ops(op, std::move(inputs), std::move(attributes)); });
    EXPECT_NE(error, "no error") << op;
    EXPECT_EQ(error.find("internal"), std::string::npos) << error;
  };
  refused("full", {}, {{"dtype", DType::kF32}, {"shape", Dims{huge, huge}}, {"value", 0.0}});
  refused("full", {}, {{"dtype", DType::kF32}, {"shape", Dims{int64_t{1} << 40, int64_t{1} << 40}}, {"value", 0.0}});
  refused("full", {}, {{"dtype", DType::kI64}, {"shape", Dims{1}}, {"value", 1e300}});
  refused("full", {}, {{"dtype", DType::kI32}, {"shape", Dims{1}}, {"value", 3e9}});
  refused("full", {}, {{"dtype", DType::kF32}, {"shape", Dims(17, 1)}, {"value", 0.0}});
  refused("reshape", {a_}, {});
  refused("reshape", {a_}, {{"shape", 24}});
  refused("pad", {a_}, {{"low", Dims{huge, huge}}, {"high", Dims{huge, huge}}});
  refused("pad", {a_}, {{"low", Dims{0, 0}}, {"high", Dims{0, 0}}, {"interior", Dims{huge, 0}}});
  refused("pad", {a_}, {{"low", Dims{0}}, {"high", Dims{0, 0}}});
  refused("slice", {a_}, {{"start", Dims{0, 0}}, {"stop", Dims{4, 6}}, {"stride", Dims{0, 1}}});
  refused("split", {a_}, {{"axis", 0}, {"sizes", Dims{huge, -huge, 4}}});
  refused("iota", {}, {{"dtype", DType::kF32}, {"shape", Dims{}}, {"axis", 0}});
  refused("one_hot", {i_}, {{"depth", huge}, {"dtype", DType::kF32}});
  refused("scatter_add", {i_, a_}, {{"rows", -1}});
  refused("reduce_max", {input("empty", DType::kF32, {0, 3})}, {{"axes", Dims{0}}});
  refused("reduce_sum", {a_}, {{"axes", Dims{1}}, {"chunks", 4}});
  refused("reduce_sum", {a_}, {{"axes", Dims{0, 1}}, {"chunks", 2}});
  refused("reduce_sum", {a_}, {{"axes", Dims{1}}, {"dtype", DType::kI32}});
  refused("map", {a_}, {{"program", "1:->%0"}, {"shape", Dims{2, 6}}, {"dtypes", "f32"}});
  refused("map", {a_}, {{"program", "1:->%0"}, {"shape", Dims{4, 6}}, {"dtypes", "f32,f32"}});
  refused("map", {a_}, {{"program", "1:->%0"}, {"shape", Dims{4, 6}}, {"dtypes", "i32"}});
  refused("map", {a_}, {{"program", "1:->sum_rows(%0)"}, {"shape", Dims{}}, {"dtypes", "f32"}});
  refused("map", {a_, a_}, {{"program", "2:%2=dropout[0.5,1,2](%0,%1)->%2"}, {"shape", Dims{4, 6}}, {"dtypes", "f32"}});
  refused("random", {},
          {{"dtype", DType::kF32},
           {"shape", Dims{2}},
           {"kind", "gauss"},
           {"a", 0.0},
           {"b", 1.0},
           {"seed", 1},
           {"tensor", 1}});
}

TEST_F(CoreOps, IndexOutOfRangeIsAnErrorAtRunTime) {
  build_.output("rows", gather(a_, input("at", DType::kI32, {2})));
  const auto run = [&] {
    interpret(graph_, reference_backend(),
              {{"a", HostTensor({DType::kF32, {4, 6}})},
               {"i", HostTensor({DType::kI32, {4, 6}})},
               {"at", HostTensor::of(DType::kI32, {2}, {3, 4})}});
  };
  EXPECT_EQ(error_of(run), "gather (f32[4,6], i32[2]), index position 1: index out of range; found 4; expected 0 to 3");
}

TEST_F(CoreOps, InterpretRefusesWrongFeeds) {
  build_.output("y", exp(a_));
  EXPECT_EQ(error_of([&] { interpret(graph_, reference_backend(), {}); }), "'a': no tensor is fed to the graph input");
  EXPECT_EQ(error_of([&] { interpret(graph_, reference_backend(), {{"a", HostTensor({DType::kF32, {4}})}}); }),
            "'a': the tensor fed to the graph input is of another type; found f32[4]; expected f32[4,6]");
}

TEST_F(CoreOps, BuildersFillInWhatIsLeftOut) {
  EXPECT_EQ(reshape(a_, {2, -1, 3}).shape(), (Shape{2, 4, 3}));
  EXPECT_EQ(transpose(a_, {-1, 0}).shape(), (Shape{6, 4}));
  EXPECT_EQ(slice(a_, {1, -2}, {-1, 6}).shape(), (Shape{2, 2}));
  EXPECT_EQ(reduce_sum(a_).shape(), Shape{});
  EXPECT_EQ(reduce_mean(a_, {0}, true).shape(), (Shape{1, 6}));
  EXPECT_EQ(broadcast_to(a_, {4, 6}).id, a_.id);
}

TEST_F(CoreOps, MeanDividesByTheNumberOfReducedElements) {
  build_.output("y", reduce_mean(input("b", DType::kBF16, {2, 3}), {1}));
  const auto y = interpret(graph_, reference_backend(),
                           {{"a", HostTensor({DType::kF32, {4, 6}})},
                            {"i", HostTensor({DType::kI32, {4, 6}})},
                            {"b", HostTensor::of(DType::kBF16, {2, 3}, {1, 2, 6, 1, 1, 1})}});
  EXPECT_EQ(y[0], HostTensor::of(DType::kBF16, {2}, {3, 1}));
}

// --- identities ---

/// What the op's own rule makes of the node that produced `tensor`.
Tensor simplified(Tensor tensor) {
  const Graph& graph = tensor.builder->graph();
  const NodeId id = graph.value(tensor.id).producer;
  const NodeSignature node = graph.signature(id);
  std::vector<Tensor> inputs;
  for (ValueId input : graph.node(id).inputs) inputs.push_back(tensor.builder->tensor(input));
  SimplifyContext context{*tensor.builder, node, inputs};
  return node.op->simplify ? node.op->simplify(context) : Tensor{};
}

TEST_F(CoreOps, WhatDoesNothingGoesAway) {
  EXPECT_EQ(simplified(cast(a_, DType::kF32)).id, a_.id);
  EXPECT_EQ(simplified(scale(a_, 1)).id, a_.id);
  EXPECT_EQ(simplified(reshape(a_, {4, 6})).id, a_.id);
  EXPECT_EQ(simplified(transpose(a_, {0, 1})).id, a_.id);
  EXPECT_EQ(simplified(slice(a_, {0, 0}, {4, 6})).id, a_.id);
  EXPECT_EQ(simplified(pad(a_, {0, 0}, {0, 0})).id, a_.id);
  EXPECT_EQ(simplified(concat({a_}, 1)).id, a_.id);
  EXPECT_EQ(simplified(maximum(a_, a_)).id, a_.id);
  const Tensor column = input("column", DType::kF32, {4, 1});
  EXPECT_EQ(simplified(reduce_sum(column, {1}, true)).id, column.id);
  EXPECT_EQ(simplified(reduce_sum(column, {1})).shape(), Shape{4});
}

TEST_F(CoreOps, ChainsOfShapesJoin) {
  const Tensor once = simplified(reshape(reshape(a_, {2, 12}), {3, 8}));
  EXPECT_EQ(graph_.node(graph_.value(once.id).producer).inputs[0], a_.id);
  const Tensor turned = simplified(transpose(transpose(input("t", DType::kF32, {2, 3, 4}), {2, 0, 1}), {1, 0, 2}));
  EXPECT_EQ(turned.shape(), (Shape{2, 4, 3}));
}

TEST_F(CoreOps, WhatDoesSomethingStays) {
  for (Tensor tensor : {cast(a_, DType::kBF16), scale(a_, 2), reshape(a_, {24}), transpose(a_, {1, 0}),
                        add_scalar(a_, 0), slice(a_, {0, 0}, {4, 5}), maximum(a_, scale(a_, 2)), reduce_sum(a_, {1})})
    EXPECT_FALSE(simplified(tensor).valid());
}

// --- sharding ---

std::string sharding_of(Tensor tensor) {
  const Graph& graph = tensor.builder->graph();
  const NodeSignature node = graph.signature(graph.value(tensor.id).producer);
  return node.op->sharding(node).text();
}

TEST_F(CoreOps, ShardingRulesReadAsTheyShould) {
  EXPECT_EQ(sharding_of(add(a_, input("row", DType::kF32, {6}))), "([a,b],[b])->[a,b]");
  EXPECT_EQ(sharding_of(add(a_, input("column", DType::kF32, {4, 1}))), "([a,b],[a,1])->[a,b]");
  EXPECT_EQ(sharding_of(reshape(a_, {2, 2, 6})), "([a*b,c])->[a,b,c]");
  EXPECT_EQ(sharding_of(reshape(a_, {6, 4})), "([!a,!b])->[!c,!d]");
  EXPECT_EQ(sharding_of(transpose(a_, {1, 0})), "([a,b])->[b,a]");
  EXPECT_EQ(sharding_of(reduce_sum(a_, {0})), "([!a,b])->[b]");
  EXPECT_EQ(sharding_of(reduce_max(a_, {0})), "([a,b])->[b]");
  EXPECT_EQ(sharding_of(gather(a_, input("at", DType::kI32, {3}))), "([a,c],[b])->[b,c]");
  EXPECT_EQ(sharding_of(concat({a_, a_}, 1)), "([a,b],[a,b])->[a,!c*b]");
  EXPECT_EQ(sharding_of(build_.op(
                "map", {a_}, {{"program", "1:%1=exp(%0)->sum_rows(%1)"}, {"shape", Dims{4, 6}}, {"dtypes", "f32"}})),
            "([a,b])->[b]");
}

// --- orders of sums ---

TEST(ReduceOrder, TreeIsCutAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(tree_split(2), 1);
  EXPECT_EQ(tree_split(3), 2);
  EXPECT_EQ(tree_split(8), 4);
  EXPECT_EQ(tree_split(9), 8);
  const auto leaf = [](int64_t i) { return std::string(1, static_cast<char>('a' + i)); };
  const auto join = [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; };
  EXPECT_EQ(tree_combine<std::string>(0, 1, leaf, join), "a");
  EXPECT_EQ(tree_combine<std::string>(0, 5, leaf, join), "(((ab)(cd))e)");
  EXPECT_EQ(tree_combine<std::string>(0, 7, leaf, join), "(((ab)(cd))((ef)g))");
}

TEST(ReduceOrder, ContiguousSumsUseSixteenLanes) {
  // Each lane cancels within itself; a sum from left to right would lose the ones.
  std::vector<float> values(48, 0.0f);
  values[0] = 1e8f, values[1] = 1, values[16] = -1e8f, values[17] = 1;
  EXPECT_EQ(canonical_sum(values.data(), 48), 2.0f);
  EXPECT_EQ(canonical_sum(values.data(), 0), 0.0f);
  EXPECT_EQ(canonical_sum(values.data() + 17, 1), 1.0f);
}

TEST(ReduceOrder, RowSumsUseBlocksOfSixtyFour) {
  std::vector<float> values(130, 0.0f);
  values[0] = 1e8f, values[63] = -1e8f, values[64] = 1, values[129] = 2;
  EXPECT_EQ(canonical_sum_rows(values.data(), 130, 1), 3.0f);
  values[63] = 0, values[65] = -1e8f;  // the 1 is lost in its own block
  EXPECT_EQ(canonical_sum_rows(values.data(), 130, 1), 2.0f);
  EXPECT_EQ(canonical_sum_rows(values.data(), 65, 2), 1e8f);
}

TEST(ReduceOrder, AxesBecomePassesFromTheInnermost) {
  const auto passes = reduce_groups({2, 3, 4, 5}, {0, 2, 3});
  ASSERT_EQ(passes.size(), 2u);
  EXPECT_EQ(passes[0].outer, 6);
  EXPECT_EQ(passes[0].reduced, 20);
  EXPECT_EQ(passes[0].inner, 1);
  EXPECT_EQ(passes[1].outer, 1);
  EXPECT_EQ(passes[1].reduced, 2);
  EXPECT_EQ(passes[1].inner, 3);
  EXPECT_TRUE(reduce_groups({}, {}).empty());
}

// --- initial values ---

TEST(RandomFill, HasTheMomentsOfItsKind) {
  struct Line {
    RandomKind kind;
    double a, b, mean, deviation, low, high;
  };
  // The deviation of a normal cut at two deviations is 0.8796 of the whole's.
  for (const Line& line : std::initializer_list<Line>{{RandomKind::kUniform, -1, 3, 1, 4 / std::sqrt(12.0), -1, 3},
                                                      {RandomKind::kNormal, 0.5, 2, 0.5, 2, -11, 12},
                                                      {RandomKind::kTruncatedNormal, 0.5, 2, 0.5, 1.7592, -3.5, 4.5}}) {
    const int count = 20000;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; ++i) {
      const double value =
          random_initial_value(line.kind, line.a, line.b, 3, hash64("weight"), static_cast<uint64_t>(i));
      EXPECT_GE(value, line.low);
      EXPECT_LE(value, line.high);
      sum += value, squares += value * value;
    }
    const double mean = sum / count;
    EXPECT_NEAR(mean, line.mean, 5 * line.deviation / std::sqrt(count));
    EXPECT_NEAR(std::sqrt(squares / count - mean * mean), line.deviation, 0.03 * line.deviation);
  }
  EXPECT_EQ(error_of([] { random_kind_from_name("gauss"); }),
            "unknown kind of random numbers; found 'gauss'; expected uniform, normal or truncated_normal");
}

TEST(HostTensor, RefusesAWrongNumberOfValues) {
  EXPECT_EQ(error_of([] { HostTensor::of(DType::kF32, {2, 2}, {1, 2, 3}); }),
            "f32[2,2]: the number of values is not that of the tensor's elements; found 3; expected 4");
  EXPECT_EQ(HostTensor::of(DType::kBF16, {2}, {1, 1.001}).floats(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace ramet::tests

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "call_support.h"
#include "ramet/front/table.h"

// Operators of gathers, scatters, order, distances and Fourier transforms. Expected numbers are PyTorch's.

namespace ramet::tests {
namespace {

using namespace traced;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const HostTensor kMatrix = f32({2, 3}, {1, 2, 3, 4, 5, 6});

std::string message_of(const RecordedCall& call) {
  try {
    call.run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

RecordedCall index_of(HostTensor a, std::vector<front::TracedArgument> indices, Shape result) {
  return {.op = "aten.index",
          .arguments = {{"self", tensor("a")}, {"indices", list(std::move(indices))}},
          .results = {{a.type.dtype, std::move(result)}},
          .operands = {{"a", std::move(a)}}};
}

TEST(Index, NegativeIndicesCountFromTheEnd) {
  RecordedCall call = index_of(kMatrix, {none(), tensor("i")}, {2, 2});
  call.operands["i"] = i64({2}, {-1, 0});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(3, 1, 6, 4));
}

TEST(Index, IndicesBroadcastAndStandFirstWhereASliceIsBetween) {
  RecordedCall call = index_of(f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), {tensor("i"), none(), tensor("j")}, {2, 2});
  call.operands["i"] = i64({2}, {1, 0});
  call.operands["j"] = i64({1}, {1});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(5, 7, 1, 3));
}

TEST(Index, AKnownMaskIsTheListOfItsTrueElements) {
  RecordedCall call = index_of(kMatrix, {tensor("m")}, {3});
  call.known["m"] = HostTensor::of(DType::kBool, {2, 3}, {0, 1, 0, 1, 0, 1});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(2, 4, 6));
}

TEST(Index, AMaskOfDataIsRefused) {
  RecordedCall call = index_of(kMatrix, {tensor("m")}, {3});
  call.operands["m"] = HostTensor::of(DType::kBool, {2, 3}, {0, 1, 0, 1, 0, 1});
  EXPECT_THAT(message_of(call), HasSubstr("depends on data"));
}

TEST(Index, AKnownRangeIsASliceAndAnOuterSumOfRangesAReshape) {
  RecordedCall call = index_of(kMatrix, {none(), tensor("i")}, {2, 2});
  call.known["i"] = i64({2}, {0, 2});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 3, 4, 6));
  call = index_of(kMatrix, {tensor("i"), tensor("j")}, {2, 1, 3});
  call.known["i"] = i64({2, 1, 1}, {0, 1});
  call.known["j"] = i64({3}, {0, 1, 2});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 2, 3, 4, 5, 6));
  call.known["j"] = i64({3}, {0, 2, 1});  // no range
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 3, 2, 4, 6, 5));
  call = index_of(f32({2, 2}, {1, 2, 3, 4}), {tensor("i"), tensor("j")}, {2, 2});
  call.known["i"] = i64({1, 2}, {0, 1});  // the transposed matrix
  call.known["j"] = i64({2, 1}, {0, 1});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 3, 2, 4));
}

TEST(Index, PutSetsAddsAndTakesMasks) {
  RecordedCall call{.op = "aten.index_put",
                    .arguments = {{"self", tensor("a")},
                                  {"indices", list({tensor("i")})},
                                  {"values", tensor("v")},
                                  {"accumulate", flag(true)}},
                    .results = {{DType::kF32, {3}}},
                    .operands = {{"a", f32({3}, {1, 1, 1})}, {"i", i64({3}, {0, 0, -1})}, {"v", f32({3}, {1, 2, 4})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(4, 1, 5));
  call.arguments.pop_back();
  EXPECT_THAT(call.run()[0].values(), ElementsAre(2, 1, 4));
  call.operands["i"] = HostTensor::of(DType::kBool, {3}, {1, 0, 1});
  call.operands["v"] = f32({}, {7});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(7, 1, 7));
}

TEST(Index, AlongOneAxis) {
  RecordedCall call{.op = "aten.gather",
                    .arguments = {{"self", tensor("a")}, {"dim", integer(-1)}, {"index", tensor("i")}},
                    .results = {{DType::kF32, {2, 1}}},
                    .operands = {{"a", kMatrix}, {"i", i64({2, 1}, {2, 0})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(3, 4));
  call.op = "aten.index_select";
  call.operands["i"] = i64({2}, {2, 2});
  call.results = {{DType::kF32, {2, 2}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(3, 3, 6, 6));
  call.op = "aten.index_fill";
  call.arguments.emplace_back("value", integer(9));
  call.results = {{DType::kF32, {2, 3}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 2, 9, 4, 5, 9));
}

RecordedCall scatter_of(const std::string& op, const std::string& source) {
  return {.op = op,
          .arguments = {{"self", tensor("a")}, {"dim", integer(1)}, {"index", tensor("i")}, {source, tensor("s")}},
          .results = {{DType::kF32, {2, 3}}},
          .operands = {{"a", kMatrix}, {"i", i64({2, 2}, {0, 0, 1, 2})}, {"s", f32({2, 3}, {10, 20, 30, 40, 50, 60})}}};
}

TEST(Index, ScattersReadTheFirstElementsOfALargerSource) {
  RecordedCall call = scatter_of("aten.scatter", "src");
  EXPECT_THAT(call.run()[0].values(), ElementsAre(20, 2, 3, 4, 40, 50));
  call.op = "aten.scatter_add";
  EXPECT_THAT(call.run()[0].values(), ElementsAre(31, 2, 3, 4, 45, 56));
  call.op = "aten.scatter_reduce";
  call.arguments.emplace_back("reduce", text("mean"));
  call.arguments.emplace_back("include_self", flag(false));
  EXPECT_THAT(call.run()[0].values(), ElementsAre(15, 2, 3, 4, 40, 50));
  call.arguments[4].second = text("amin");
  EXPECT_THAT(call.run()[0].values(), ElementsAre(10, 2, 3, 4, 40, 50));
  call.arguments[4].second = text("unheard");
  EXPECT_THAT(message_of(call), HasSubstr("'unheard'"));
}

TEST(Index, AddMultipliesByAlpha) {
  RecordedCall call = scatter_of("aten.index_add", "source");
  call.operands["i"] = i64({2}, {2, 2});
  call.operands["s"] = f32({2, 2}, {1, 2, 3, 4});
  call.arguments.emplace_back("alpha", integer(10));
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 2, 33, 4, 5, 76));
}

TEST(Index, MasksFillAndScatter) {
  RecordedCall call{.op = "aten.masked_fill",
                    .arguments = {{"self", tensor("a")}, {"mask", tensor("m")}, {"value", number(-1)}},
                    .results = {{DType::kF32, {2, 3}}},
                    .operands = {{"a", kMatrix}, {"m", HostTensor::of(DType::kBool, {3}, {1, 0, 1})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(-1, 2, -1, -1, 5, -1));
  call.op = "aten.masked_scatter";
  call.arguments[2] = {"source", tensor("s")};
  call.operands["s"] = f32({5}, {10, 20, 30, 40, 50});
  EXPECT_THAT(call.run()[0].values(), ElementsAre(10, 2, 20, 30, 5, 40));
}

TEST(Index, SizesThatDependOnDataAreRefusedByName) {
  RecordedCall call{.op = "aten.nonzero",
                    .arguments = {{"self", tensor("a")}},
                    .results = {{DType::kI64, {2, 1}}},
                    .operands = {{"a", f32({3}, {1, 0, 2})}}};
  EXPECT_THAT(message_of(call), HasSubstr("aten.nonzero"));
  EXPECT_THAT(message_of(call), HasSubstr("depends on data"));
  call.known = call.operands;
  call.operands.clear();
  EXPECT_THAT(call.run()[0].values(), ElementsAre(0, 2));
}

TEST(Order, SortsAreStableAndIndicesI64) {
  RecordedCall call{.op = "aten.sort",
                    .arguments = {{"self", tensor("a")}, {"dim", integer(0)}, {"descending", flag(true)}},
                    .results = {{DType::kF32, {4}}, {DType::kI64, {4}}},
                    .operands = {{"a", f32({4}, {1, 3, 3, 2})}}};
  const std::vector<HostTensor> sorted = call.run();
  EXPECT_THAT(sorted[0].values(), ElementsAre(3, 3, 2, 1));
  EXPECT_THAT(sorted[1].values(), ElementsAre(1, 2, 3, 0));
}

TEST(Order, MediansCountNans) {
  RecordedCall call{.op = "aten.median",
                    .arguments = {{"self", tensor("a")}},
                    .results = {{DType::kF32, {}}},
                    .operands = {{"a", f32({4}, {4, 1, NAN, 3})}}};
  EXPECT_TRUE(std::isnan(call.run()[0].get(0)));
  call.op = "aten.nanmedian";
  EXPECT_EQ(call.run()[0].get(0), 3);
  call.op = "aten.median";
  call.operands["a"] = f32({4}, {4, 1, 2, 3});
  EXPECT_EQ(call.run()[0].get(0), 2) << "the lower of the two in the middle";
}

TEST(Order, TheModeIsTheLeastOfTheMostFrequent) {
  RecordedCall call{.op = "aten.mode",
                    .arguments = {{"self", tensor("a")}},
                    .results = {{DType::kF32, {2}}, {DType::kI64, {2}}},
                    .operands = {{"a", f32({2, 5}, {5, 2, 5, 2, 7, 1, 1, 9, 9, 9})}}};
  const std::vector<HostTensor> found = call.run();
  EXPECT_THAT(found[0].values(), ElementsAre(2, 9));
  EXPECT_THAT(found[1].values(), ElementsAre(3, 4));
}

TEST(Order, LogOfRunningSumsOfExponentialsDoesNotOverflow) {
  const RecordedCall call{.op = "aten.logcumsumexp",
                          .arguments = {{"self", tensor("a")}, {"dim", integer(0)}},
                          .results = {{DType::kF32, {3}}},
                          .operands = {{"a", f32({3}, {-200, 100, 100})}}};
  EXPECT_THAT(call.run()[0].floats(), Pointwise(FloatNear(1e-4F), {-200.F, 100.F, 100.F + std::log(2.F)}));
}

TEST(Order, PlacesInSortedTensors) {
  RecordedCall call{.op = "aten.searchsorted",
                    .arguments = {{"sorted_sequence", tensor("s")}, {"self", tensor("v")}, {"side", text("right")}},
                    .results = {{DType::kI64, {2}}},
                    .operands = {{"s", f32({3}, {1, 2, 3})}, {"v", f32({2}, {2, 9})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(2, 3));
  call.arguments.pop_back();
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 3));
}

TEST(Distance, HistogramsIncludeTheirGreatestNumber) {
  const RecordedCall call{
      .op = "aten.histc",
      .arguments = {{"self", tensor("a")}, {"bins", integer(4)}, {"min", integer(0)}, {"max", integer(3)}},
      .results = {{DType::kF32, {4}}},
      .operands = {{"a", f32({6}, {0, 1, 3, 3, 2, 4})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 1, 1, 2));
}

TEST(Distance, CrossProductsTakeTheFirstDimensionOfThree) {
  RecordedCall call{.op = "aten.cross",
                    .arguments = {{"self", tensor("a")}, {"other", tensor("b")}},
                    .results = {{DType::kF32, {3, 1}}},
                    .operands = {{"a", f32({3, 1}, {1, 2, 3})}, {"b", f32({3, 1}, {4, 5, 7})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(-1, 5, -3));
}

TEST(Distance, ProductsOfGroupsOfRows) {
  const RecordedCall call{.op = "transformers.grouped_mm_fallback",
                          .arguments = {{"input", tensor("x")}, {"weight", tensor("w")}, {"offs", tensor("o")}},
                          .results = {{DType::kF32, {3, 1}}},
                          .operands = {{"x", f32({3, 1}, {1, 2, 3})},
                                       {"w", f32({3, 1, 1}, {10, 100, 1000})},
                                       {"o", HostTensor::of(DType::kI32, {3}, {1, 1, 3})}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(10, 2000, 3000));
}

TEST(Spectral, TransformsOfRealSignals) {
  RecordedCall call{.op = "aten.fft_rfft",
                    .arguments = {{"self", tensor("a")}},
                    .results = {{DType::kF32, {3, 2}}},
                    .operands = {{"a", f32({4}, {1, 2, 4, 8})}},
                    .complex = {"result0"}};
  EXPECT_THAT(call.run()[0].floats(), Pointwise(FloatNear(1e-5F), {15.F, 0.F, -3.F, 6.F, -5.F, 0.F}));
  call = {.op = "aten.fft_irfft",
          .arguments = {{"self", tensor("a")}},
          .results = {{DType::kF32, {4}}},
          .operands = {{"a", f32({3, 2}, {15, 0, -3, 6, -5, 0})}},
          .complex = {"a"}};
  EXPECT_THAT(call.run()[0].floats(), Pointwise(FloatNear(1e-5F), {1.F, 2.F, 4.F, 8.F}));
}

TEST(Spectral, OtherOperatorsRefuseComplexNumbers) {
  const RecordedCall call{.op = "aten.relu",
                          .arguments = {{"self", tensor("a")}},
                          .results = {{DType::kF32, {3, 2}}},
                          .operands = {{"a", f32({3, 2}, {15, 0, -3, 6, -5, 0})}},
                          .complex = {"a", "result0"}};
  EXPECT_THAT(message_of(call), HasSubstr("complex"));
}

TEST(Resize, FactorsCountBeforeSizes) {
  RecordedCall call{
      .op = "aten.upsample_nearest2d",
      .arguments = {{"input", tensor("a")}, {"output_size", none()}, {"scale_factors", list({number(2), number(1)})}},
      .results = {{DType::kF32, {1, 1, 4, 2}}},
      .operands = {{"a", f32({1, 1, 2, 2}, {1, 2, 3, 4})}},
      .overload = "vec"};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
  call.op = "aten.upsample_bilinear2d";
  call.overload = "default";
  call.arguments = {{"self", tensor("a")}, {"output_size", integers({2, 3})}, {"align_corners", flag(true)}};
  call.results = {{DType::kF32, {1, 1, 2, 3}}};
  EXPECT_THAT(call.run()[0].values(), ElementsAre(1, 1.5, 2, 3, 3.5, 4));
}

TEST(Recurrent, LayersStepThroughTimeInBothDirections) {
  RecordedCall call{.op = "aten.rnn_relu",
                    .arguments = {{"input", tensor("x")},
                                  {"hx", tensor("h")},
                                  {"params", list({tensor("w"), tensor("u"), tensor("w"), tensor("u")})},
                                  {"has_biases", flag(false)},
                                  {"num_layers", integer(1)},
                                  {"dropout", number(0)},
                                  {"train", flag(true)},
                                  {"bidirectional", flag(true)},
                                  {"batch_first", flag(true)}},
                    .results = {{DType::kF32, {1, 3, 2}}, {DType::kF32, {2, 1, 1}}},
                    .operands = {{"x", f32({1, 3, 1}, {1, 2, 3})},
                                 {"h", f32({2, 1, 1}, {0, 1})},
                                 {"w", f32({1, 1}, {1})},
                                 {"u", f32({1, 1}, {2})}},
                    .overload = "input"};
  const std::vector<HostTensor> results = call.run();
  EXPECT_THAT(results[0].values(), ElementsAre(1, 25, 4, 12, 11, 5));
  EXPECT_THAT(results[1].values(), ElementsAre(11, 25));
  call.overload = "data";
  EXPECT_THAT(message_of(call), HasSubstr("packed sequences"));
}

TEST(Recurrent, ACellIsOneStep) {
  const RecordedCall call{.op = "aten.rnn_tanh_cell",
                          .arguments = {{"input", tensor("x")},
                                        {"hx", tensor("h")},
                                        {"w_ih", tensor("w")},
                                        {"w_hh", tensor("u")},
                                        {"b_ih", tensor("b")}},
                          .results = {{DType::kF32, {1, 1}}},
                          .operands = {{"x", f32({1, 1}, {0.5})},
                                       {"h", f32({1, 1}, {0.25})},
                                       {"w", f32({1, 1}, {1})},
                                       {"u", f32({1, 1}, {2})},
                                       {"b", f32({1}, {-0.5})}}};
  EXPECT_NEAR(call.run()[0].get(0), std::tanh(0.5), 1e-6);
}

TEST(Table, NoOperatorStandsTwice) { EXPECT_GT(front::operator_names().size(), 300U); }

}  // namespace
}  // namespace ramet::tests

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/ir/builder.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/transform/chunk.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

/// The message of a convolution of these shapes.
std::string refused(const Shape& input, const Shape& filter, const ConvolutionOptions& options, bool transposed = false,
                    const std::vector<int64_t>& output_padding = {}) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, input), w = build.input("w", DType::kF32, filter);
  return error_of([&] {
    return transposed ? convolution_transposed(x, w, {}, options, output_padding) : convolution(x, w, {}, options);
  });
}

TEST(Convolution, RefusesOperandsThatDoNotFit) {
  EXPECT_THAT(
      refused({2, 3, 8, 8}, {4, 2, 3, 3}, {}),
      HasSubstr("the filter does not fit the channels of the input; found f32[4,2,3,3] with groups=1; expected 3 "
                "in dimension 1. A filter is [O, C / groups, taps...]"));
  EXPECT_THAT(refused({2, 3, 8, 8}, {4, 3, 3, 3}, {}, true),
              HasSubstr("A transposed filter is [C, O / groups, taps...]"));
  EXPECT_THAT(refused({2, 3, 8, 8}, {4, 3, 3}, {}), HasSubstr("4 dimensions of a floating type"));
  EXPECT_THAT(refused({2, 3}, {4, 3}, {}), HasSubstr("input 0 (input) has the wrong rank"));
  EXPECT_THAT(
      refused({2, 3, 8, 8}, {4, 3, 9, 1}, {}),
      HasSubstr("the filter is wider than the padded input; found 9 taps at distance 1, so 9 elements; expected at "
                "most 8. Pad the input, or use a smaller filter"));
  EXPECT_THAT(refused({2, 3, 8, 8}, {4, 3, 0, 1}, {}), HasSubstr("a filter needs taps in each dimension of space"));
}

TEST(Convolution, RefusesOptionsThatDoNotFit) {
  EXPECT_THAT(refused({2, 6, 8}, {4, 2, 3}, {.groups = 3}),
              HasSubstr("groups must divide the channels of input and output; found groups=3 of 6 and 4 channels"));
  EXPECT_THAT(refused({2, 6, 8}, {4, 6, 3}, {.groups = 0}), HasSubstr("groups must divide"));
  EXPECT_THAT(refused({2, 6, 8}, {4, 6, 3}, {.strides = {1, 1}}),
              HasSubstr("attribute 'strides' needs one number a dimension of space"));
  EXPECT_THAT(refused({2, 6, 8}, {4, 6, 3}, {.strides = {0}}), HasSubstr("attribute 'strides' is out of range"));
  EXPECT_THAT(refused({2, 6, 8}, {4, 6, 3}, {.low = {-1}}), HasSubstr("Cut the input with slice"));
  EXPECT_THAT(refused({2, 6, 8}, {6, 4, 3}, {.strides = {2}}, true, {2}),
              HasSubstr("output_padding must be less than the stride or the dilation; found 2; expected less than 2"));
  EXPECT_THAT(refused({2, 6, 1}, {6, 4, 2}, {.low = {2}, .high = {2}}, true),
              HasSubstr("the padding takes away more than there is"));
}

/// Channels that are summed are cut in chunks; where there are groups, layouts cut these.
TEST(Convolution, SumsOverChannelsGetTheChunksOfTheRecipe) {
  Graph graph("g");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, {2, 8, 5, 5}, {"batch", "", "", ""});
  const auto weight = [&](const std::string& name, const Shape& shape) {
    return build.state(name, DType::kF32, shape);
  };
  build.output("dense", convolution(x, weight("w", {6, 8, 3, 3}), {}));
  build.output("groups", convolution(x, weight("g", {8, 4, 3, 3}), {}, {.groups = 2}));
  build.output("odd", convolution(slice(x, {0, 0, 0, 0}, {2, 7, 5, 5}), weight("o", {6, 7, 1, 1}), {}));
  build.output("back", convolution_transposed(x, weight("t", {8, 6, 2, 2}), {}));
  std::vector<int64_t> chunks;
  const Graph chunked = set_chunks(graph, 4);
  for (const Node& node : chunked.nodes())
    if (node.op->products) chunks.push_back(node.attributes.get_int_or("chunks", 1));
  EXPECT_EQ(chunks, (std::vector<int64_t>{4, 1, 1, 4}));
}

/// A machine with matrix units sees products.
TEST(Convolution, IsAProductForTheMachineModels) {
  Graph graph("g");
  GraphBuilder build(graph);
  convolution(build.input("x", DType::kBF16, {2, 8, 6, 6}), build.input("w", DType::kBF16, {12, 4, 3, 3}), {},
              {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}, .groups = 2});
  const NodeSignature node = graph.signature(0);
  const std::vector<MatrixProduct> products = node.op->products(node);
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products[0], (MatrixProduct{2, 2 * 3 * 3, 4 * 9, 6, DType::kBF16}));
  EXPECT_EQ(node.op->cost(node).flops, 2.0 * 2 * 18 * 36 * 6);
}

}  // namespace
}  // namespace ramet::tests

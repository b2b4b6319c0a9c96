#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ramet/ops/build.h"
#include "ramet/transform/chunk.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using Dims = std::vector<int64_t>;
using Axes = std::vector<std::string>;

/// For each axis of a reshaped input: whether a sum over it is in order. Sets `chunked` to whether `set_chunks` cuts
/// it.
std::vector<bool> in_order(const Dims& from, const Axes& axes, const Dims& to, std::vector<bool>* chunked = nullptr) {
  Graph graph("sums");
  GraphBuilder build(graph);
  const Tensor x = reshape(build.input("x", DType::kF32, Shape(from), axes), Shape(to));
  for (int64_t axis = 0; axis < std::ssize(to); ++axis)
    build.output("sum" + std::to_string(axis), reduce_sum(x, {axis}));
  const auto sums = [](const Graph& of, const std::function<bool(const Attributes&)>& has) {
    std::vector<bool> found;
    for (const Node& node : of.nodes())
      if (node.op->name == "reduce_sum") found.push_back(has(node.attributes));
    return found;
  };
  if (chunked)
    *chunked = sums(set_chunks(graph, 2), [](const Attributes& each) { return each.get_int_or("chunks", 1) == 2; });
  return sums(set_sums_in_order(graph), [](const Attributes& each) { return each.get_bool_or("in_order", false); });
}

TEST(SumsInOrder, ABatchOfOneSampleIsOne) {
  for (const int64_t b : {1, 2}) {
    SCOPED_TRACE(b);
    EXPECT_THAT(in_order({b, 4, 6}, {"batch", "", ""}, {b * 4, 6}), ElementsAre(true, false));
    EXPECT_THAT(in_order({b, 4, 6}, {"batch", "", ""}, {b * 24}), ElementsAre(true));
    EXPECT_THAT(in_order({b, 4, 6}, {"batch", "", ""}, {b, 4, 2, 3}), ElementsAre(true, false, false, false));
    EXPECT_THAT(in_order({b, 4, 6}, {"batch", "", ""}, {b, 4, 6, 1}), ElementsAre(true, false, false, false));
    EXPECT_THAT(in_order({4, b, 6}, {"", "batch", ""}, {4 * b, 6}), ElementsAre(true, false));
    EXPECT_THAT(in_order({4, b, 6}, {"", "batch", ""}, {2, 2, b, 6}), ElementsAre(false, false, true, false));
    EXPECT_THAT(in_order({b, 4, 1}, {"batch", "", ""}, {b, 4}), ElementsAre(true, false));
  }
}

TEST(SumsInOrder, ChunksOfABatchOfOneSampleStay) {
  std::vector<bool> chunked;
  in_order({1, 4, 6}, {"batch", "", ""}, {4, 6}, &chunked);
  EXPECT_THAT(chunked, ElementsAre(true, true)) << "the bits of recipes that have them";
}

TEST(SumsInOrder, AnEmptyBatchIsReshapedToo) {
  EXPECT_THAT(in_order({1, 0, 6}, {"batch", "", ""}, {0, 6}), ElementsAre(false, false));
}

}  // namespace
}  // namespace ramet::tests

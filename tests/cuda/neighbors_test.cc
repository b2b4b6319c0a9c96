#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/row_data.h"
#include "ramet/base/error.h"

// Lists of edges that are wrong. What right ones give is compared by every_op_test.cc.

namespace ramet::tests {
namespace {

HostTensor integers(std::vector<int64_t> values) {
  HostTensor tensor(TensorType{DType::kI32, Shape{1, std::ssize(values)}});
  for (size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<int64_t>(i), static_cast<double>(values[i]));
  return tensor;
}

void expect_refused(const std::string& op, const std::vector<HostTensor>& inputs, const char* where,
                    const char* range) {
  const NodeSignature node = node_of(op, inputs, {});
  EXPECT_THAT([&] { run_on_card(node, inputs); },
              testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr(where), testing::HasSubstr(range))));
}

TEST(CudaNeighbors, WrongListsAreErrors) {
  const HostTensor edges = row_numbers(DType::kF32, {1, 4, 3}, 1);
  expect_refused("segment_sum", {edges, integers({0, 2, 5})}, "pointer [0,2]", "2 to 4");
  expect_refused("segment_sum", {edges, integers({1, 2, 4})}, "pointer [0,0]", "0 to 0");
  expect_refused("segment_softmax", {edges, integers({0, 3, 2})}, "pointer [0,2]", "3 to 4");
  const HostTensor x = row_numbers(DType::kF32, {1, 2, 3}, 2);
  const auto neighbors = [&](std::vector<int64_t> source, std::vector<int64_t> by_source) {
    return std::vector<HostTensor>{x,
                                   integers(std::move(source)),
                                   integers({0, 2, 3}),
                                   integers({0, 1, 0, -7}),
                                   integers(std::move(by_source)),
                                   integers({0, 2, 3})};
  };
  check_on_card("neighbor_sum", neighbors({0, 1, 0, 99}, {0, 2, 1, -1}), {});  // the last place holds no edge
  check_on_card("neighbor_sum", neighbors({0, 1, 0, 99}, {0, 2, 1, -1}), {{"transposed", true}});
  expect_refused("neighbor_sum", neighbors({0, 2, 0, 0}, {0, 2, 1, 0}), "source[0,1]", "0 to 1");
  expect_refused("neighbor_sum", neighbors({0, -1, 0, 0}, {0, 2, 1, 0}), "source[0,1]", "-1");
  expect_refused("neighbor_sum", neighbors({0, 1, 0, 0}, {0, 4, 1, 0}), "by_source[0,1]", "0 to 3");
}

}  // namespace
}  // namespace ramet::tests

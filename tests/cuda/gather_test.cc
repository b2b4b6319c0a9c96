#include <gtest/gtest.h>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"

// Rows of tables by indices, and sums by row, against the host's kernels.

namespace ramet::tests {
namespace {

/// Indices below `rows`: `heavy` of a hundred are one of the first three rows.
HostTensor indices(DType dtype, Shape shape, int64_t rows, int heavy, uint64_t which) {
  HostTensor out(TensorType{dtype, std::move(shape)});
  const RandomStream draw(which, RandomPurpose::kTest, 1, 1);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const auto at = static_cast<uint64_t>(i);
    const bool first = static_cast<int>(draw.below(3 * at, 100)) < heavy;
    out.set(i, draw.below(3 * at + 1, static_cast<uint32_t>(first ? std::min<int64_t>(rows, 3) : rows)));
  }
  return out;
}

void check(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes = {}) {
  std::string text = op;
  for (const HostTensor& input : inputs) text += " " + input.type.text();
  SCOPED_TRACE(text);
  expect_card_equals_host(node_of(op, inputs, attributes), inputs);
}

TEST(CardGather, EveryTypeAndWidth) {
  for (const DType number : {DType::kI32, DType::kI64})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kBool, DType::kI64, DType::kF64, DType::kI16})
      for (const int64_t width : {0, 1, 2, 3, 7, 8, 24, 64, 1030})
        check("gather", {random_bits(dtype, Shape{23, width}, 1), indices(number, Shape{5, 11}, 23, 10, 2)});
  check("gather", {random_bits(DType::kF32, Shape{40}, 1), indices(DType::kI32, Shape{7}, 40, 0, 2)});
  check("gather", {random_bits(DType::kF32, Shape{40, 8}, 1), indices(DType::kI32, Shape{0}, 40, 0, 2)});
}

TEST(CardGather, IndexOutOfRange) {
  HostTensor bad = indices(DType::kI32, Shape{9}, 4, 0, 1);
  bad.set(6, -1);
  const std::vector<HostTensor> inputs{random_bits(DType::kF32, Shape{4, 8}, 1), bad};
  try {
    run_on_card(node_of("gather", inputs, {}), inputs);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("index position 6"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("0 to 3"), std::string::npos) << error.what();
  }
}

struct ScatterSize {
  int64_t positions, rows, width;
  int heavy;
};
constexpr ScatterSize kScatterSizes[] = {{0, 3, 4, 0},     {1, 1, 1, 0},     {7, 40, 3, 0},      {300, 5, 8, 50},
                                         {500, 2, 33, 90}, {900, 7, 70, 80}, {400, 300, 64, 60}, {260, 1030, 12, 20}};

TEST(CardScatter, SumsInOrderOfPosition) {
  for (const ScatterSize& size : kScatterSizes)
    for (const DType update : {DType::kF32, DType::kBF16, DType::kF16})
      for (const DType result : {DType::kF32, DType::kBF16}) {
        const DType number = size.positions % 2 ? DType::kI64 : DType::kI32;
        const Shape updates{size.positions, size.width}, sums{size.rows, size.width};
        const HostTensor index = indices(number, Shape{size.positions}, size.rows, size.heavy, 3);
        Attributes attributes{{"rows", size.rows}, {"dtype", result}};
        check("scatter_add", {index, random_tensor(update, updates, 4)}, attributes);
        check("scatter_add", {index, random_bits(update, updates, 5)}, attributes);
        attributes.set("accumulate", true);
        check("scatter_add", {index, random_tensor(update, updates, 4), random_bits(result, sums, 6)}, attributes);
      }
}

TEST(CardScatter, IndexOutOfRange) {
  HostTensor bad = indices(DType::kI64, Shape{9}, 4, 0, 1);
  bad.set(2, 4);
  const std::vector<HostTensor> inputs{bad, random_tensor(DType::kF32, Shape{9, 8}, 1)};
  try {
    run_on_card(node_of("scatter_add", inputs, {{"rows", int64_t{4}}}), inputs);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("index position 2"), std::string::npos) << error.what();
  }
}

TEST(CardOneHot, EveryType) {
  HostTensor some = indices(DType::kI32, Shape{5, 6}, 9, 0, 1);
  some.set(3, -2);
  some.set(7, 9);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64, DType::kBool})
    check("one_hot", {some}, {{"depth", int64_t{9}}, {"dtype", dtype}});
}

}  // namespace
}  // namespace ramet::tests

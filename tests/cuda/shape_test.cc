#include <gtest/gtest.h>

#include <numeric>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"

// Ops that move elements, or make them from nothing, against the host's kernels: every bit.

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

/// One type of each size of elements.
constexpr DType kTypes[] = {DType::kBool, DType::kBF16, DType::kF32, DType::kF64};

void check(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes) {
  std::string text = op;
  for (const HostTensor& input : inputs) text += " " + input.type.text();
  SCOPED_TRACE(text);
  expect_card_equals_host(node_of(op, inputs, attributes), inputs, {.must_be_on_card = true, .bits = Bits::kAll});
}
void check_types(const std::string& op, const Shape& shape, const Attributes& attributes) {
  for (const DType dtype : kTypes) check(op, {random_bits(dtype, shape, 1)}, attributes);
}

TEST(CardShape, Transpose) {
  check_types("transpose", Shape{}, {{"permutation", Dims{}}});
  check_types("transpose", Shape{70, 133}, {{"permutation", Dims{1, 0}}});
  check_types("transpose", Shape{0, 13}, {{"permutation", Dims{1, 0}}});
  check_types("transpose", Shape{3, 64, 65}, {{"permutation", Dims{0, 2, 1}}});
  check_types("transpose", Shape{17, 3, 5, 40}, {{"permutation", Dims{3, 1, 0, 2}}});
  check_types("transpose", Shape{2, 9, 3, 4, 16}, {{"permutation", Dims{2, 0, 3, 1, 4}}});
  check_types("transpose", Shape{5, 3}, {{"permutation", Dims{1, 0}}});
  check_types("transpose", Shape{2, 3, 2, 3, 2, 3, 2}, {{"permutation", Dims{6, 5, 4, 3, 2, 1, 0}}});
}

TEST(CardShape, Broadcast) {
  check_types("broadcast_to", Shape{}, {{"shape", Dims{3, 70}}});
  check_types("broadcast_to", Shape{40, 1}, {{"shape", Dims{2, 40, 70}}});
  check_types("broadcast_to", Shape{1, 48}, {{"shape", Dims{50, 48}}});
  check_types("broadcast_to", Shape{3, 1, 5}, {{"shape", Dims{3, 0, 5}}});
}

TEST(CardShape, SliceReversePad) {
  check_types("slice", Shape{9, 40}, {{"start", Dims{2, 8}}, {"stop", Dims{7, 24}}});
  check_types("slice", Shape{9, 41}, {{"start", Dims{0, 3}}, {"stop", Dims{9, 40}}, {"stride", Dims{2, 3}}});
  check_types("reverse", Shape{7, 6, 16}, {{"axes", Dims{1}}});
  check_types("reverse", Shape{7, 33}, {{"axes", Dims{0, 1}}});
  check_types("pad", Shape{5, 16}, {{"low", Dims{1, 0}}, {"high", Dims{2, 16}}});
  check_types("pad", Shape{5, 7},
              {{"low", Dims{1, 2}}, {"high", Dims{0, 3}}, {"interior", Dims{1, 2}}, {"value", 1.0}});
}

TEST(CardShape, ConcatAndSplit) {
  for (const DType dtype : kTypes) {
    for (const int64_t axis : {0, 1, 2})
      for (const int64_t inner : {8, 3}) {
        std::vector<HostTensor> parts;
        for (int64_t i = 0; i < 3; ++i) {
          Dims dims{4, 6, inner};
          dims[static_cast<size_t>(axis)] = i * 2;
          parts.push_back(random_bits(dtype, Shape(dims), static_cast<uint64_t>(i)));
        }
        check("concat", parts, {{"axis", axis}});
      }
    check("split", {random_bits(dtype, Shape{5, 24, 3}, 1)}, {{"axis", int64_t{1}}, {"sizes", Dims{8, 15, 1}}});
  }
}

TEST(CardShape, FromNothing) {
  for (const DType dtype :
       {DType::kBool, DType::kBF16, DType::kF16, DType::kF32, DType::kI32, DType::kI64, DType::kF64})
    for (const int64_t size : {0, 1, 7, 1000})
      for (const double value : {0.0, 1.0})
        check("full", {}, {{"shape", Dims{size}}, {"dtype", dtype}, {"value", value}});
  for (const DType dtype : {DType::kI32, DType::kI64, DType::kF32, DType::kBF16})
    for (const int64_t axis : {0, 1, 2})
      check("iota", {}, {{"shape", Dims{3, 300, 5}}, {"dtype", dtype}, {"axis", axis}});
}

TEST(CardShape, Reshape) { check_types("reshape", Shape{6, 35}, {{"shape", Dims{14, 15}}}); }

}  // namespace
}  // namespace ramet::tests

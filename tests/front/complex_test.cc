#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "front/call_support.h"

// Arithmetic on complex tensors, which are pairs of f32 in a last dimension.

namespace ramet::tests {
namespace {

using namespace traced;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

/// Result of a call on a = (1 + 2i, 3 - i), b = (2 - i, i) and the real r = (2, -1).
struct Pair {
  std::string op;
  std::vector<std::pair<std::string, front::TracedArgument>> arguments;
  Shape shape{2, 2};  ///< of the result, with its parts
  bool complex = true;
  std::string overload = "default";

  std::vector<float> run() const {
    RecordedCall call{
        .op = op,
        .arguments = arguments,
        .results = {{DType::kF32, shape}},
        .operands = {{"a", f32({2, 2}, {1, 2, 3, -1})}, {"b", f32({2, 2}, {2, -1, 0, 1})}, {"r", f32({2}, {2, -1})}},
        .overload = overload,
        .complex = {"a", "b"}};
    if (complex) call.complex.emplace_back("result0");
    std::erase_if(call.operands, [&](const auto& operand) { return !reads(operand.first); });
    return call.run()[0].floats();
  }
  bool reads(const std::string& name) const {
    bool found = false;
    for (const auto& [key, argument] : arguments)
      front::each_tensor_of(argument, [&](const std::string& each) { found = found || each == name; });
    return found;
  }
};

void expect(const Pair& call, const std::vector<float>& values) {
  EXPECT_THAT(call.run(), Pointwise(FloatNear(1e-5F), values)) << call.op;
}

std::vector<std::pair<std::string, front::TracedArgument>> both(const std::string& self, const std::string& other) {
  return {{"self", tensor(self)}, {"other", tensor(other)}};
}

TEST(Complex, ProductsSumsAndQuotients) {
  expect({.op = "aten.mul", .arguments = both("a", "b"), .overload = "Tensor"}, {4, 3, 1, 3});
  expect({.op = "aten.mul", .arguments = both("a", "r"), .overload = "Tensor"}, {2, 4, -3, 1});
  expect({.op = "aten.mul", .arguments = both("r", "a"), .overload = "Tensor"}, {2, 4, -3, 1});
  expect({.op = "aten.mul", .arguments = {{"self", tensor("a")}, {"other", number(2)}}, .overload = "Tensor"},
         {2, 4, 6, -2});
  expect({.op = "aten.add", .arguments = both("a", "b"), .overload = "Tensor"}, {3, 1, 3, 0});
  expect({.op = "aten.add", .arguments = both("r", "a"), .overload = "Tensor"}, {3, 2, 2, -1});
  expect({.op = "aten.add", .arguments = {{"self", tensor("a")}, {"other", number(2)}}, .overload = "Tensor"},
         {3, 2, 5, -1});
  expect({.op = "aten.sub", .arguments = both("r", "a"), .overload = "Tensor"}, {1, -2, -4, 1});
  expect({.op = "aten.div", .arguments = both("a", "b"), .overload = "Tensor"}, {0, 1, -1, -3});
  expect({.op = "aten.div", .arguments = both("a", "r"), .overload = "Tensor"}, {0.5, 1, -3, 1});
  expect({.op = "aten.div", .arguments = both("r", "b"), .overload = "Tensor"}, {0.8F, 0.4F, 0, 1});
  expect({.op = "aten.dot", .arguments = {{"self", tensor("a")}, {"tensor", tensor("b")}}, .shape = {2}}, {5, 6});
  expect({.op = "aten.einsum",
          .arguments = {{"equation", text("i,j->ij")}, {"tensors", list({tensor("a"), tensor("b")})}},
          .shape = {2, 2, 2}},
         {4, 3, -2, 1, 5, -5, 1, 3});
}

TEST(Complex, FunctionsOfOneTensor) {
  const std::vector<std::pair<std::string, front::TracedArgument>> a = {{"self", tensor("a")}};
  expect({.op = "aten._conj", .arguments = a}, {1, -2, 3, 1});
  expect({.op = "aten.neg", .arguments = a}, {-1, -2, -3, 1});
  expect({.op = "aten.abs", .arguments = a, .shape = {2}, .complex = false}, {std::sqrt(5.F), std::sqrt(10.F)});
  expect({.op = "aten.angle", .arguments = a, .shape = {2}, .complex = false},
         {std::atan2(2.F, 1.F), std::atan2(-1.F, 3.F)});
  const float e = std::exp(1.F), e3 = std::exp(3.F);
  expect({.op = "aten.exp", .arguments = a},
         {e * std::cos(2.F), e * std::sin(2.F), e3 * std::cos(1.F), -e3 * std::sin(1.F)});
  expect({.op = "aten.polar", .arguments = {{"abs", tensor("r")}, {"angle", tensor("r")}}},
         {2 * std::cos(2.F), 2 * std::sin(2.F), -std::cos(1.F), std::sin(1.F)});
  expect({.op = "aten.complex", .arguments = {{"real", tensor("r")}, {"imag", tensor("r")}}}, {2, 2, -1, -1});
}

TEST(Complex, ElementsThatMove) {
  expect({.op = "aten.flip", .arguments = {{"self", tensor("a")}, {"dims", integers({0})}}}, {3, -1, 1, 2});
  expect({.op = "aten.sum", .arguments = {{"self", tensor("a")}}, .shape = {2}}, {4, 1});
  expect({.op = "aten.unsqueeze", .arguments = {{"self", tensor("a")}, {"dim", integer(-1)}}, .shape = {2, 1, 2}},
         {1, 2, 3, -1});
  expect({.op = "aten.cat", .arguments = {{"tensors", list({tensor("a"), tensor("b")})}}, .shape = {4, 2}},
         {1, 2, 3, -1, 2, -1, 0, 1});
  expect({.op = "aten._to_copy", .arguments = {{"self", tensor("r")}, {"dtype", text("complex64")}}}, {2, 0, -1, 0});
  expect({.op = "aten.ones", .arguments = {{"size", integers({2})}, {"dtype", text("complex64")}}}, {1, 0, 1, 0});
}

TEST(Complex, OtherOperatorsAreRefused) {
  try {
    Pair{.op = "aten.cosh", .arguments = {{"self", tensor("a")}}}.run();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("complex"));
  }
}

}  // namespace
}  // namespace ramet::tests

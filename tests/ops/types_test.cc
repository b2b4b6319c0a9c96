#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/fuse.h"

// Number types: f64 keeps its digits through every op, integers theirs, and what does not go together is refused.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

HostTensor only_output(const Graph& graph, const std::map<std::string, HostTensor>& feeds) {
  const HostTensor found = interpret(graph, cpu_backend(), feeds)[0];
  EXPECT_EQ(interpret(fuse(graph), cpu_backend(), feeds)[0], found) << "fused";
  return found;
}

TEST(Types, F64KeepsItsDigits) {
  Graph graph("f64");
  GraphBuilder build(graph);
  const Tensor a = build.input("a", DType::kF64, {2, 3}), b = build.input("b", DType::kF64, {3, 2});
  const Tensor product = matmul(add(exp(a), a), b);
  build.output("out", reduce_sum(transpose(product, {1, 0}), {1}));
  const std::vector<double> x{0.1, 1 + 1e-12, -0.3, 1e-9, 2, -1}, y{1, 1e-10, 3, -2, 1e10, 0.7};
  const HostTensor found = only_output(
      graph, {{"a", HostTensor::of(DType::kF64, {2, 3}, x)}, {"b", HostTensor::of(DType::kF64, {3, 2}, y)}});
  EXPECT_EQ(found.type, (TensorType{DType::kF64, {2}}));
  for (int column = 0; column < 2; ++column) {
    double sum = 0;
    for (size_t row = 0; row < 2; ++row)
      for (size_t k = 0; k < 3; ++k)
        sum += (std::exp(x[row * 3 + k]) + x[row * 3 + k]) * y[k * 2 + static_cast<size_t>(column)];
    EXPECT_NEAR(found.get(column), sum, 1e-14 * std::fabs(sum));
  }
}

TEST(Types, F64IsDifferentiatedInF64) {
  Graph graph("f64");
  GraphBuilder build(graph);
  const Tensor a = build.input("a", DType::kF64, Shape{1});
  build.output("loss", cast(reduce_sum(multiply(exp(a), tanh(a))), DType::kF32));
  const double x = 0.7;
  const Graph both = differentiate(graph, "loss", {"a"});
  const HostTensor gradient =
      interpret(both, cpu_backend(), {{"a", HostTensor::of(DType::kF64, Shape{1}, {x})}}).back();
  // Rounded once: gradients of inputs are given in f32.
  const double t = std::tanh(x);
  EXPECT_EQ(gradient.get(0), static_cast<float>(std::exp(x) * (t + 1 - t * t)));
}

TEST(Types, IntegersKeepAllBits) {
  Graph graph("u64");
  GraphBuilder build(graph);
  const Tensor a = build.input("a", DType::kU64, Shape{2}), b = build.input("b", DType::kU64, Shape{2});
  build.output("out", remainder(add(a, b), bitwise_or(b, shift_left(b, b))));
  HostTensor first(TensorType{DType::kU64, Shape{2}}), second = first;
  constexpr uint64_t kA[] = {0xfedcba9876543211, 0x8000000000000000}, kB[] = {9, 3};
  for (int64_t i = 0; i < 2; ++i) {
    store_integer(first.data.data(), DType::kU64, i, static_cast<int64_t>(kA[i]));
    store_integer(second.data.data(), DType::kU64, i, static_cast<int64_t>(kB[i]));
  }
  const HostTensor found = only_output(graph, {{"a", first}, {"b", second}});
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(static_cast<uint64_t>(load_integer(found.data.data(), DType::kU64, i)),
              (kA[i] + kB[i]) % (kB[i] | kB[i] << kB[i]));
}

TEST(Types, ImagesOfBytesBecomeFloats) {
  Graph graph("u8");
  GraphBuilder build(graph);
  const Tensor image = build.input("image", DType::kU8, {2, 37});
  build.output("out", scale(cast(image, DType::kF32), 1.0 / 255));
  HostTensor pixels(image.type());
  for (int64_t i = 0; i < pixels.elements(); ++i) pixels.set(i, static_cast<double>(i * 91 % 256));
  const HostTensor found = only_output(graph, {{"image", pixels}});
  for (int64_t i = 0; i < pixels.elements(); ++i)
    EXPECT_EQ(found.get(i), static_cast<float>(pixels.get(i)) * static_cast<float>(1.0 / 255));
}

TEST(Types, WhatDoesNotGoTogetherIsRefused) {
  Graph graph("types");
  GraphBuilder build(graph);
  const Tensor wide = build.input("wide", DType::kF64, {2}), narrow = build.input("narrow", DType::kF32, {2});
  const Tensor bytes = build.input("bytes", DType::kU8, {2}), words = build.input("words", DType::kI16, {2});
  const auto error = [](const std::function<Tensor()>& make) -> std::string {
    try {
      make();
    } catch (const Error& caught) {
      return caught.what();
    }
    return "no error";
  };
  EXPECT_THAT(error([&] { return add(wide, narrow); }), HasSubstr("found f64, f32; expected floats"));
  EXPECT_THAT(error([&] { return add(bytes, words); }),
              HasSubstr("found u8, i16; expected floats, or integers of one"));
  EXPECT_THAT(error([&] { return exp(bytes); }), HasSubstr("expected floats"));
  EXPECT_THAT(error([&] { return bitwise_and(narrow, narrow); }), HasSubstr("expected integers of one type"));
  EXPECT_THAT(error([&] { return full(build, DType::kI8, {1}, 128); }), HasSubstr("does not fit"));
  EXPECT_THAT(error([&] { return full(build, DType::kU64, {1}, -1); }), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace ramet::tests

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_random.h"
#include "ramet/transform/differentiate.h"

// Random numbers of micro-batches: that they are those of the stream, on every kernel, and what is made of them.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

/// What `make` gives for a counter; by both backends, which must agree in every bit.
HostTensor drawn(const std::function<Tensor(GraphBuilder&, const DrawBy&)>& make, int64_t step, int64_t micro) {
  Graph graph("drawn");
  GraphBuilder build(graph);
  const Tensor counter = build.input("counter", DType::kI64, {2}, InputRole::kScalar);
  build.output("out", make(build, {.counter = counter, .seed = 5, .random_name = "layer/noise"}));
  const std::map<std::string, HostTensor> feeds{
      {"counter", HostTensor::of(DType::kI64, {2}, {static_cast<double>(step), static_cast<double>(micro)})}};
  const HostTensor reference = interpret(graph, reference_backend(), feeds)[0];
  for (const int threads : {1, 3}) EXPECT_EQ(interpret(graph, cpu_backend(), feeds, threads)[0], reference);
  return reference;
}

TEST(Random, NumbersAreThoseOfTheLogicalElement) {
  const Shape shape{3, 41};
  const RandomStream stream(5, RandomPurpose::kDraw, 7, hash64("layer/noise"));
  const HostTensor uniform =
      drawn([&](GraphBuilder&, const DrawBy& by) { return random_uniform(by, shape, -1, 3); }, 7, 2);
  const HostTensor normal =
      drawn([&](GraphBuilder&, const DrawBy& by) { return random_normal(by, shape, 1, 0.5); }, 7, 2);
  const HostTensor whole =
      drawn([&](GraphBuilder&, const DrawBy& by) { return random_integers(by, shape, -4, 9, DType::kI64); }, 7, 2);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const auto element = static_cast<uint64_t>(2 * shape.elements() + i);
    EXPECT_EQ(uniform.get(i), static_cast<float>(-1 + 4.0 * static_cast<double>(stream.uniform(element))));
    EXPECT_EQ(normal.get(i), static_cast<float>(1 + 0.5 * stream.normal(element)));
    EXPECT_EQ(whole.get(i), -4 + static_cast<double>(stream.below(element, 13)));
  }
}

TEST(Random, MicroBatchesAndStepsHaveNumbersOfTheirOwn) {
  const auto make = [](GraphBuilder&, const DrawBy& by) { return random_uniform(by, {64}); };
  const HostTensor first = drawn(make, 1, 0);
  EXPECT_NE(drawn(make, 1, 1), first);
  EXPECT_NE(drawn(make, 2, 0), first);
  EXPECT_EQ(drawn(make, 1, 0), first);
}

TEST(Random, BernoulliHasItsProbability) {
  const auto share = [&](const std::function<Tensor(GraphBuilder&, const DrawBy&)>& make) {
    const std::vector<double> values = drawn(make, 3, 0).values();
    double sum = 0;
    for (const double value : values) {
      EXPECT_TRUE(value == 0 || value == 1);
      sum += value;
    }
    return sum / static_cast<double>(values.size());
  };
  constexpr int64_t kCount = 40000;
  for (const double p : {0.0, 0.1, 0.75, 1.0}) {
    const double tolerance = 5 * std::sqrt(p * (1 - p) / kCount);
    EXPECT_NEAR(share([&](GraphBuilder&, const DrawBy& by) { return bernoulli(by, {kCount}, p); }), p, tolerance);
    // The same numbers decide where each element has its own probability.
    EXPECT_NEAR(share([&](GraphBuilder& build, const DrawBy& by) {
                  return bernoulli(by, full(build, DType::kF32, {kCount}, p));
                }),
                p, tolerance + 1e-7);
  }
}

TEST(Random, DropPathDropsWholeSamples) {
  Graph graph("path");
  GraphBuilder build(graph);
  const Tensor counter = build.input("counter", DType::kI64, {2}, InputRole::kScalar);
  const Tensor a = build.input("a", DType::kF32, {64, 3, 5});
  const Tensor out = drop_path(a, {.counter = counter, .seed = 1, .random_name = "path"}, 0.25);
  build.output("out", out);
  build.output("loss", reduce_sum(out));
  HostTensor values(a.type());
  for (int64_t i = 0; i < values.elements(); ++i) values.set(i, 1 + static_cast<double>(i % 7));
  const Graph both = differentiate(graph, "loss", {"a"});
  const auto results =
      interpret(both, cpu_backend(), {{"a", values}, {"counter", HostTensor::of(DType::kI64, {2}, {4, 1})}});
  const HostTensor &found = results[0], &gradient = results[2];
  int kept = 0;
  for (int64_t sample = 0; sample < 64; ++sample) {
    const double factor = found.get(sample * 15) / values.get(sample * 15);
    EXPECT_TRUE(factor == 0 || std::fabs(factor - 1 / 0.75) < 1e-6) << factor;
    kept += factor != 0;
    for (int64_t i = sample * 15; i < (sample + 1) * 15; ++i) {
      EXPECT_NEAR(found.get(i), factor * values.get(i), 1e-5);
      EXPECT_NEAR(gradient.get(i), factor, 1e-6);
    }
  }
  EXPECT_GT(kept, 32);
  EXPECT_LT(kept, 64);
}

TEST(Random, RefusesWhatCannotBeDrawn) {
  const auto error = [](const std::function<Tensor(GraphBuilder&, const DrawBy&)>& make) -> std::string {
    try {
      drawn(make, 0, 0);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "no error";
  };
  const auto with = [](auto make) { return [make](GraphBuilder&, const DrawBy& by) -> Tensor { return make(by); }; };
  EXPECT_THAT(error(with([](const DrawBy& by) { return bernoulli(by, {3}, 1.5); })), HasSubstr("probability"));
  EXPECT_THAT(error(with([](const DrawBy& by) { return random_integers(by, {3}, 4, 4); })),
              HasSubstr("whole numbers a < b"));
  EXPECT_THAT(error(with([](const DrawBy& by) { return random_integers(by, {3}, 0, 4, DType::kU8); })),
              HasSubstr("i32 or i64"));
  EXPECT_THAT(error(with([](const DrawBy& by) { return random_normal(by, {3}, 0, -1); })), HasSubstr("deviation"));
  EXPECT_THAT(error(with([](const DrawBy& by) { return random_uniform(by, {3}, 2, 1); })), HasSubstr("a <= b"));
  EXPECT_THAT(error(with([](DrawBy by) {
                by.random_name.clear();
                return random_uniform(by, {3});
              })),
              HasSubstr("name of their logical tensor"));
  EXPECT_THAT(
      error(with([](const DrawBy& by) { return drop_path(full(*by.counter.builder, DType::kF32, {2}, 1), by, 1); })),
      HasSubstr("0 <= rate < 1"));
}

}  // namespace
}  // namespace ramet::tests

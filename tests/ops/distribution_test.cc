#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_random.h"

// The distributions of random numbers, by statistics of fixed draws whose bounds a fair draw passes with a probability
// of 0.999 or more each; and on what a number depends.

namespace ramet::tests {
namespace {

constexpr int64_t kCount = 60000;

/// Where numbers are drawn.
struct At {
  int64_t step = 3, micro = 0, seed = 5;
  std::string name = "layer/noise";
};

using Make = std::function<Tensor(GraphBuilder&, const DrawBy&)>;

std::vector<double> drawn(const Make& make, const At& at = {}) {
  Graph graph("drawn");
  GraphBuilder build(graph);
  const Tensor counter = build.input("counter", DType::kI64, Shape{2}, InputRole::kScalar);
  build.output("out", make(build, {.counter = counter, .seed = at.seed, .random_name = at.name}));
  const HostTensor where =
      HostTensor::of(DType::kI64, Shape{2}, {static_cast<double>(at.step), static_cast<double>(at.micro)});
  return interpret(graph, cpu_backend(), {{"counter", where}})[0].values();
}

Make uniform(int64_t count = kCount) {
  return [=](GraphBuilder&, const DrawBy& by) { return random_uniform(by, Shape{count}); };
}
Make normal(int64_t count = kCount) {
  return [=](GraphBuilder&, const DrawBy& by) { return random_normal(by, Shape{count}); };
}
Make whole(int64_t low, int64_t high) {
  return [=](GraphBuilder&, const DrawBy& by) { return random_integers(by, Shape{kCount}, low, high); };
}
Make coins(double probability) {
  return [=](GraphBuilder&, const DrawBy& by) { return bernoulli(by, Shape{kCount}, probability); };
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
/// The mean of the k-th powers of the distances from `center`.
double moment_of(const std::vector<double>& values, double center, int k) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value - center, k);
  return sum / static_cast<double>(values.size());
}

/// Kolmogorov and Smirnov's statistic times the root of the number of values: below 1.95 with probability 0.999.
double distance_from(std::vector<double> values, const std::function<double(double)>& distribution) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double share = distribution(values[i]);
    most = std::max({most, std::fabs(share - static_cast<double>(i) / count),
                     std::fabs(share - static_cast<double>(i + 1) / count)});
  }
  return most * std::sqrt(count);
}

/// Pearson's chi-square of the number of values in each class, as a standard normal number (Wilson and Hilferty).
double chi_square_of(const std::vector<int64_t>& classes, size_t count) {
  std::vector<double> found(count, 0.0);
  for (const int64_t each : classes) found.at(static_cast<size_t>(each)) += 1;
  const double wanted = static_cast<double>(classes.size()) / static_cast<double>(count);
  double sum = 0;
  for (const double each : found) sum += (each - wanted) * (each - wanted) / wanted;
  const double freedom = static_cast<double>(count) - 1, part = 2 / (9 * freedom);
  return (std::cbrt(sum / freedom) - (1 - part)) / std::sqrt(part);
}

/// The correlation of two lists times the root of their length: within 4 with probability 0.9999.
double correlation_of(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double together = 0;
  for (size_t i = 0; i < a.size(); ++i) together += (a[i] - mean_a) * (b[i] - mean_b);
  const double count = static_cast<double>(a.size());
  return together / count / std::sqrt(moment_of(a, mean_a, 2) * moment_of(b, mean_b, 2)) * std::sqrt(count);
}

const double kRoot = std::sqrt(static_cast<double>(kCount));

TEST(Distribution, OfUniformNumbers) {
  const std::vector<double> values = drawn(uniform());
  EXPECT_NEAR(mean_of(values), 0.5, 4 / kRoot * std::sqrt(1.0 / 12));
  EXPECT_NEAR(moment_of(values, 0.5, 2), 1.0 / 12, 4 / kRoot * std::sqrt(1.0 / 180));
  EXPECT_LT(distance_from(values, [](double x) { return std::clamp(x, 0.0, 1.0); }), 1.95);
  std::vector<int64_t> bins, pairs;
  for (const double value : values) bins.push_back(static_cast<int64_t>(value * 256));
  EXPECT_LT(std::fabs(chi_square_of(bins, 256)), 3.3);
  // Neighbours are independent of each other.
  for (size_t i = 0; i + 1 < values.size(); i += 2)
    pairs.push_back(static_cast<int64_t>(values[i] * 16) * 16 + static_cast<int64_t>(values[i + 1] * 16));
  EXPECT_LT(std::fabs(chi_square_of(pairs, 256)), 3.3);
  const std::vector<double> wide =
      drawn([](GraphBuilder&, const DrawBy& by) { return random_uniform(by, Shape{kCount}, -2, 6); });
  EXPECT_LT(distance_from(wide, [](double x) { return (x + 2) / 8; }), 1.95);
}

TEST(Distribution, OfNormalNumbers) {
  const std::vector<double> values = drawn(normal());
  EXPECT_NEAR(mean_of(values), 0, 4 / kRoot);
  EXPECT_NEAR(moment_of(values, 0, 2), 1, 4 / kRoot * std::numbers::sqrt2);
  EXPECT_NEAR(moment_of(values, 0, 3), 0, 4 / kRoot * std::sqrt(15.0));
  EXPECT_NEAR(moment_of(values, 0, 4), 3, 4 / kRoot * std::sqrt(96.0));
  const auto cumulative = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  EXPECT_LT(distance_from(values, cumulative), 1.95);
  // Far values come as often as they should: beyond three deviations 0.27%.
  const auto far = std::count_if(values.begin(), values.end(), [](double x) { return std::fabs(x) > 3; });
  EXPECT_NEAR(static_cast<double>(far), 0.0026998 * kCount, 4 * std::sqrt(0.0026998 * kCount));
  std::vector<double> shifted = values;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  EXPECT_LT(std::fabs(correlation_of(values, shifted)), 4);
  const std::vector<double> wide =
      drawn([](GraphBuilder&, const DrawBy& by) { return random_normal(by, Shape{kCount}, 2, 0.5); });
  EXPECT_LT(distance_from(wide, [&](double x) { return cumulative((x - 2) / 0.5); }), 1.95);
}

TEST(Distribution, OfWholeNumbers) {
  for (const int64_t classes : {2, 13, 1000}) {
    std::vector<int64_t> found;
    for (const double value : drawn(whole(-4, classes - 4))) found.push_back(static_cast<int64_t>(value) + 4);
    EXPECT_LT(std::fabs(chi_square_of(found, static_cast<size_t>(classes))), 3.3) << classes;
  }
}

TEST(Distribution, OfCoins) {
  for (const double p : {0.02, 0.5, 0.7}) {
    const std::vector<double> values = drawn(coins(p));
    EXPECT_NEAR(mean_of(values), p, 4 / kRoot * std::sqrt(p * (1 - p)));
    for (size_t by : {1, 2, 3, 4, 8}) {  // numbers come in blocks of four
      std::vector<double> shifted = values;
      std::rotate(shifted.begin(), shifted.begin() + static_cast<std::ptrdiff_t>(by), shifted.end());
      EXPECT_LT(std::fabs(correlation_of(values, shifted)), 4) << p << ", " << by;
    }
  }
  std::vector<int64_t> patterns;
  const std::vector<double> even = drawn(coins(0.5));
  for (size_t i = 0; i + 8 <= even.size(); i += 8) {
    int64_t pattern = 0;
    for (size_t j = 0; j < 8; ++j) pattern = 2 * pattern + static_cast<int64_t>(even[i + j]);
    patterns.push_back(pattern);
  }
  EXPECT_LT(std::fabs(chi_square_of(patterns, 256)), 3.3);
}

TEST(Distribution, OfDroppedElementsAndPaths) {
  constexpr double kRate = 0.3;
  const std::vector<double> kept = drawn([](GraphBuilder& build, const DrawBy& by) {
    return dropout(full(build, DType::kF32, Shape{kCount}, 1), by.counter, kRate, by.seed, by.random_name);
  });
  EXPECT_NEAR(mean_of(kept), 1, 4 / kRoot * std::sqrt(kRate / (1 - kRate)));
  const std::vector<double> paths = drawn([](GraphBuilder& build, const DrawBy& by) {
    return drop_path(full(build, DType::kF32, {kCount, 2}, 1), by, kRate);
  });
  EXPECT_NEAR(mean_of(paths), 1, 4 / kRoot * std::sqrt(kRate / (1 - kRate)));
  for (size_t i = 0; i < paths.size(); i += 2) ASSERT_EQ(paths[i], paths[i + 1]);
}

/// Other seeds, steps, micro-batches and tensors have numbers that have nothing to do with each other.
TEST(Distribution, OfOtherPlacesIsIndependent) {
  for (const Make& make : {uniform(), normal(), coins(0.4)}) {
    const std::vector<double> here = drawn(make);
    EXPECT_EQ(drawn(make), here);
    for (const At& there :
         {At{.step = 4}, At{.micro = 1}, At{.seed = 6}, At{.name = "layer/noise2"}, At{.step = 4, .seed = 4}})
      EXPECT_LT(std::fabs(correlation_of(drawn(make, there), here)), 4)
          << there.step << " " << there.micro << " " << there.seed << " " << there.name;
  }
}

/// A number belongs to an element of all samples of a step, however they are dealt to micro-batches.
TEST(Distribution, AMicroBatchHasItsPartOfTheStep) {
  constexpr int64_t kPart = 240;
  for (const auto& make : {uniform, normal}) {
    const std::vector<double> all = drawn(make(4 * kPart));
    for (int64_t micro = 0; micro < 4; ++micro)
      EXPECT_EQ(drawn(make(kPart), {.micro = micro}),
                std::vector<double>(all.begin() + micro * kPart, all.begin() + (micro + 1) * kPart));
  }
}

}  // namespace
}  // namespace ramet::tests

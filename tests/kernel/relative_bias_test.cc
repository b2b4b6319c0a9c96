// Attention with the relative biases of T5 and Swin: values and gradients, of the tables too, against a computation in
// double that is written here from the papers' formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/ir/builder.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build_attention.h"
#include "ramet/transform/differentiate.h"

namespace ramet::tests {
namespace {

struct Sizes {
  int64_t batch, queries, keys, heads, size;
};

/// One attention: rows of the table by query and key, and which pairs see each other.
struct Setting {
  Sizes sizes;
  int64_t rows;                                         ///< of the table
  std::function<int64_t(int64_t q, int64_t k)> row_of;  ///< as the paper defines it
  std::function<bool(int64_t b, int64_t q, int64_t k)> visible;
  std::function<Tensor(Tensor q, Tensor k, Tensor v, Tensor table)> build;
};

constexpr double kScale = 0.4;

HostTensor drawn(Shape shape, uint64_t tensor) {
  HostTensor made({DType::kF32, std::move(shape)});
  const RandomStream stream(31, RandomPurpose::kTest, tensor, 0);
  for (int64_t i = 0; i < made.elements(); ++i) made.set(i, stream.normal(static_cast<uint64_t>(i)));
  return made;
}

using Feeds = std::map<std::string, HostTensor>;
using Values = std::map<std::string, std::vector<double>>;

/// The output, and the gradients of the sum of output times `weights`, in double.
Values in_double(const Setting& setting, const Feeds& feeds) {
  const auto& [batch, queries, keys, heads, size] = setting.sizes;
  const std::vector<double> q = feeds.at("q").values(), k = feeds.at("k").values(), v = feeds.at("v").values(),
                            table = feeds.at("table").values(), weights = feeds.at("weights").values();
  Values made;
  for (const auto& [name, tensor] : feeds)
    made[name == "weights" ? "out" : name].assign(static_cast<size_t>(tensor.elements()), 0.0);
  const auto at = [&, h_count = heads, d_count = size](int64_t b, int64_t count, int64_t i, int64_t h, int64_t d) {
    return static_cast<size_t>(((b * count + i) * h_count + h) * d_count + d);
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> share(static_cast<size_t>(keys), 0.0), slope = share;
        double sum = 0, mean = 0;
        const auto row = [&](int64_t j) { return static_cast<size_t>(setting.row_of(i, j) * heads + h); };
        for (int64_t j = 0; j < keys; ++j) {
          if (!setting.visible(b, i, j)) continue;
          double score = table[row(j)];
          for (int64_t d = 0; d < size; ++d) score += kScale * q[at(b, queries, i, h, d)] * k[at(b, keys, j, h, d)];
          sum += share[static_cast<size_t>(j)] = std::exp(score);
        }
        for (int64_t j = 0; j < keys && sum > 0; ++j) {
          double& part = share[static_cast<size_t>(j)] /= sum;
          for (int64_t d = 0; d < size; ++d) {
            const double weight = weights[at(b, queries, i, h, d)];
            made["out"][at(b, queries, i, h, d)] += part * v[at(b, keys, j, h, d)];
            made["v"][at(b, keys, j, h, d)] += part * weight;
            slope[static_cast<size_t>(j)] += v[at(b, keys, j, h, d)] * weight;
          }
          mean += part * slope[static_cast<size_t>(j)];
        }
        for (int64_t j = 0; j < keys; ++j) {
          const double dscore = share[static_cast<size_t>(j)] * (slope[static_cast<size_t>(j)] - mean);
          made["table"][row(j)] += dscore;
          for (int64_t d = 0; d < size; ++d) {
            made["q"][at(b, queries, i, h, d)] += kScale * dscore * k[at(b, keys, j, h, d)];
            made["k"][at(b, keys, j, h, d)] += kScale * dscore * q[at(b, queries, i, h, d)];
          }
        }
      }
  return made;
}

void expect_agree(const Setting& setting) {
  const auto& [batch, queries, keys, heads, size] = setting.sizes;
  const Feeds feeds{{"q", drawn({batch, queries, heads, size}, 1)},
                    {"k", drawn({batch, keys, heads, size}, 2)},
                    {"v", drawn({batch, keys, heads, size}, 3)},
                    {"table", drawn({setting.rows, heads}, 4)},
                    {"weights", drawn({batch, queries, heads, size}, 5)}};
  Graph graph("attention");
  GraphBuilder build(graph);
  std::map<std::string, Tensor> in;
  for (const auto& [name, value] : feeds) in[name] = build.input(name, DType::kF32, value.type.shape);
  const Tensor out = setting.build(in["q"], in["k"], in["v"], in["table"]);
  build.output("out", out);
  build.output("loss", reduce_sum(multiply(out, in["weights"])));
  const Graph both = differentiate(graph, "loss", {"q", "k", "v", "table"});
  const Values wanted = in_double(setting, feeds);
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
    const std::vector<HostTensor> found = interpret(both, *backend, feeds);
    const double tolerance = backend == &reference_backend() ? 1e-6 : 4e-6;
    for (size_t i = 0; i < found.size(); ++i) {
      std::string name = both.outputs()[i].name;
      if (name == "loss") continue;
      if (name.starts_with("grad.")) name = name.substr(5);
      const std::vector<double>& values = wanted.at(name);
      ASSERT_EQ(found[i].elements(), std::ssize(values)) << name;
      double most = 1;
      for (double value : values) most = std::max(most, std::fabs(value));
      for (int64_t e = 0; e < found[i].elements(); ++e)
        ASSERT_NEAR(found[i].get(e), values[static_cast<size_t>(e)], tolerance * most) << name << ", element " << e;
    }
  }
}

/// Section 2.1 of arXiv 1910.10683: single distances, then buckets that grow by a logarithm.
int64_t t5_bucket(int64_t ahead, bool bidirectional, int64_t buckets, int64_t max_distance) {
  const int64_t half = bidirectional ? buckets / 2 : buckets, exact = half / 2;
  const int64_t side = bidirectional && ahead > 0 ? half : 0;
  const int64_t distance = bidirectional ? std::abs(ahead) : std::max<int64_t>(0, -ahead);
  if (distance < exact) return side + distance;
  const double steps = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const auto further = static_cast<int64_t>(steps * static_cast<double>(half - exact) + 1e-9);
  return side + std::min(half - 1, exact + further);
}

TEST(RelativeBias, OfT5AgreesWithItsFormula) {
  for (const bool bidirectional : {true, false}) {
    const int64_t buckets = bidirectional ? 16 : 12, farthest = 20;
    const Sizes sizes{2, 29, bidirectional ? 37 : 29, 4, 3};
    expect_agree({.sizes = sizes,
                  .rows = buckets,
                  .row_of = [=](int64_t q, int64_t k) { return t5_bucket(k - q, bidirectional, buckets, farthest); },
                  .visible = [=](int64_t, int64_t q, int64_t k) { return bidirectional || k <= q; },
                  .build =
                      [=](Tensor q, Tensor k, Tensor v, Tensor table) {
                        const HostTensor rows = t5_buckets(sizes.queries, sizes.keys, bidirectional, buckets, farthest);
                        const Tensor bias = relative_bias(table, constant(*q.builder, TensorData(rows)));
                        EXPECT_EQ(bias.shape(), (Shape{1, sizes.heads, sizes.queries, sizes.keys}));
                        return attention_with(q, k, v, {.bias = bias}, {.causal = !bidirectional, .scale = kScale});
                      }});
  }
}

// A grid of 8 x 9 places in windows of 4 x 3, shifted by 2 down and 1 right: of a window, a place sees those that come
// from the same side of the grid's edges.
constexpr int64_t kRows = 8, kColumns = 9, kTall = 4, kWide = 3, kDown = 2, kRight = 1;
constexpr int64_t kPlaces = kTall * kWide, kWindows = kRows / kTall * (kColumns / kWide), kImages = 2;

bool sees_in_shifted(int64_t window, int64_t q, int64_t k) {
  const auto region = [&](int64_t place) {
    const int64_t row = window / (kColumns / kWide) * kTall + place / kWide,
                  column = window % (kColumns / kWide) * kWide + place % kWide;
    return std::pair(row < kRows - kDown, column < kColumns - kRight);
  };
  return region(q) == region(k);
}

/// Equation 4 of arXiv 2103.14030: the table is [2 M - 1, 2 M - 1] by the difference of rows and columns.
TEST(RelativeBias, OfSwinAgreesWithItsFormula) {
  const Sizes sizes{kImages * kWindows, kPlaces, kPlaces, 3, 5};
  const auto row_of = [](int64_t q, int64_t k) {
    return (q / kWide - k / kWide + kTall - 1) * (2 * kWide - 1) + q % kWide - k % kWide + kWide - 1;
  };
  const auto bias_of = [](Tensor table) {
    const Tensor bias = relative_bias(table, constant(*table.builder, TensorData(swin_places(kTall, kWide))));
    EXPECT_EQ(bias.shape(), (Shape{1, 3, kPlaces, kPlaces}));
    return bias;
  };
  Setting setting{
      .sizes = sizes,
      .rows = (2 * kTall - 1) * (2 * kWide - 1),
      .row_of = row_of,
      .visible = [](int64_t, int64_t, int64_t) { return true; },
      .build = [=](Tensor q, Tensor k, Tensor v,
                   Tensor table) { return attention_with(q, k, v, {.bias = bias_of(table)}, {.scale = kScale}); }};
  expect_agree(setting);
  HostTensor mask({DType::kBool, {sizes.batch, 1, kPlaces, kPlaces}}), added({DType::kF32, mask.type.shape});
  for (int64_t i = 0; i < mask.elements(); ++i) {
    const bool seen = sees_in_shifted(i / (kPlaces * kPlaces) % kWindows, i / kPlaces % kPlaces, i % kPlaces);
    mask.set(i, seen);
    added.set(i, seen ? 0 : -INFINITY);
  }
  setting.visible = [](int64_t b, int64_t q, int64_t k) { return sees_in_shifted(b % kWindows, q, k); };
  setting.build = [=](Tensor q, Tensor k, Tensor v, Tensor table) {
    return attention_with(q, k, v, {.mask = constant(*q.builder, TensorData(mask)), .bias = bias_of(table)},
                          {.scale = kScale});
  };
  expect_agree(setting);
  // The mask as a term of the bias, which then is one of samples and heads.
  setting.build = [=](Tensor q, Tensor k, Tensor v, Tensor table) {
    const Tensor bias = add(bias_of(table), constant(*q.builder, TensorData(added)));
    return attention_with(q, k, v, {.bias = bias}, {.scale = kScale});
  };
  expect_agree(setting);
}

}  // namespace
}  // namespace ramet::tests

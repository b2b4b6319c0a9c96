// The bits of kernels for graphs at sizes that meet all their paths: whole vectors and parts of them, rows that threads
// share, pairs between the rows of two threads, and lists with one wrong number among many.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/radial.h"
#include "ramet/ops/random_fill.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<HostTensor>;

HostTensor numbers(const std::vector<int64_t>& values) {
  HostTensor out(TensorType{DType::kI32, Shape{1, std::ssize(values)}});
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), static_cast<double>(values[i]));
  return out;
}

void expect_bits(const std::string& op, const Tensors& inputs, const Attributes& attributes,
                 const std::vector<float>& wanted) {
  const NodeSignature node = node_of(op, inputs, attributes);
  for (const int threads : {1, 2, 3}) {
    const HostTensor found = interpret_node(node, cpu_backend(), inputs, threads, "hwy")[0];
    ASSERT_EQ(found.elements(), std::ssize(wanted));
    int64_t wrong = 0;
    for (int64_t i = 0; i < found.elements(); ++i)
      wrong += static_cast<float>(found.get(i)) != wanted[static_cast<size_t>(i)];
    EXPECT_EQ(wrong, 0) << node.text() << ", " << threads << " threads";
  }
}

/// Pairs (first, second, distance) of 60 rows: of graphs of ten rows, with a pair of a row with itself, and, if they
/// `cross`, some from one end to the other.
struct DrawnPairs {
  static constexpr int64_t kRows = 60;
  std::vector<std::tuple<int64_t, int64_t, float>> all;
  std::vector<int64_t> ptr, second;
  HostTensor distance{TensorType{DType::kF32, Shape{1, 0}}};

  explicit DrawnPairs(bool cross) {
    const RandomStream random(5, RandomPurpose::kTest, 0, 1);
    uint64_t next = 0;
    const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random.below(next++, bound)); };
    const auto add = [&](int64_t a, int64_t b) { all.emplace_back(a, b, 0.001f * static_cast<float>(below(3001))); };
    for (int64_t graph = 0; graph < kRows; graph += 10)
      for (int64_t a = 0; a < 10; ++a)
        for (int64_t b = a + 1; b < 10; ++b) add(graph + a, graph + b);
    add(13, 13);
    if (cross)
      for (int64_t i = 0; i < 9; ++i) add(i * 3, kRows - 1 - i);
    std::sort(all.begin(), all.end());
    distance = HostTensor(TensorType{DType::kF32, Shape{1, std::ssize(all)}});
    for (int64_t row = 0, at = 0; row <= kRows; ++row) {
      while (at < std::ssize(all) && std::get<0>(all[static_cast<size_t>(at)]) < row) ++at;
      ptr.push_back(at);
    }
    for (size_t p = 0; p < all.size(); ++p) {
      second.push_back(std::get<1>(all[p]));
      distance.set(static_cast<int64_t>(p), std::get<2>(all[p]));
    }
  }
};

/// Values of a tensor as they are.
std::vector<float> floats(const HostTensor& tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) values.push_back(static_cast<float>(tensor.get(i)));
  return values;
}

TEST(GraphKernels, TablesOfFiltersAreAddedInOrderOfPairs) {
  constexpr int64_t kPoints = 40;
  const ops::RadialForm form{.cutoff = 3, .points = kPoints};
  for (const bool cross : {false, true})
    for (const int64_t width : {3, 16, 64, 128, 131}) {
      const auto at = [width](int64_t row, int64_t f) { return static_cast<size_t>(row * width + f); };
      const DrawnPairs pairs(cross);
      const HostTensor x = random_tensor(DType::kF32, {1, DrawnPairs::kRows, width}, 1),
                       dy = random_tensor(DType::kF32, {1, DrawnPairs::kRows, width}, 2),
                       table = random_tensor(DType::kF32, {kPoints, width}, 3);
      const std::vector<float> rows = floats(x), slopes = floats(dy), filters = floats(table);
      std::vector<float> sums(rows.size(), 0), gradient(filters.size(), 0);
      for (const auto& [first, second, distance] : pairs.all) {
        const ops::TableCell cell = ops::table_cell(kPoints, static_cast<double>(distance) * ops::table_density(form));
        const auto share = [&](int k) { return static_cast<float>(cell.share[static_cast<size_t>(k)]); };
        for (int64_t f = 0; f < width; ++f) {
          float filter = share(0) * filters[at(cell.first, f)];
          for (int k = 1; k < 4; ++k) filter = multiply_add(share(k), filters[at(cell.first + k, f)], filter);
          sums[at(first, f)] = multiply_add(filter, rows[at(second, f)], sums[at(first, f)]);
          sums[at(second, f)] = multiply_add(filter, rows[at(first, f)], sums[at(second, f)]);
          const float one_way = slopes[at(first, f)] * rows[at(second, f)],
                      both = multiply_add(slopes[at(second, f)], rows[at(first, f)], one_way);
          for (int k = 0; k < 4; ++k)
            gradient[at(cell.first + k, f)] = multiply_add(share(k), both, gradient[at(cell.first + k, f)]);
        }
      }
      const HostTensor ptr = numbers(pairs.ptr), second = numbers(pairs.second);
      expect_bits("table_filter_sum", {x, pairs.distance, ptr, second, table}, {{"cutoff", 3.0}}, sums);
      expect_bits("table_filter_gradient", {dy, pairs.distance, ptr, second, x}, {{"cutoff", 3.0}, {"points", kPoints}},
                  gradient);
    }
}

/// A graph of many edges, each of row i from row i * k mod rows, and its lists.
struct ManyEdges {
  static constexpr int64_t kRows = 3000, kEach = 14;
  std::vector<int64_t> source, ptr{0}, target, by_source, source_ptr{0};

  ManyEdges() {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> from(kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t k = 0; k < (row % 5 == 0 ? 0 : kEach + row % 7); ++k) {
        const int64_t other = (row * 31 + k * k * 7) % kRows;
        from[static_cast<size_t>(other)].emplace_back(row, std::ssize(source));
        source.push_back(other);
      }
      ptr.push_back(std::ssize(source));
    }
    for (const auto& edges : from) {
      for (const auto& [row, place] : edges) target.push_back(row), by_source.push_back(place);
      source_ptr.push_back(std::ssize(target));
    }
  }
  Tensors with(const HostTensor& x) const {
    return {x, numbers(source), numbers(ptr), numbers(target), numbers(by_source), numbers(source_ptr)};
  }
};

TEST(GraphKernels, SumsOverNeighboursAreChains) {
  const ManyEdges graph;
  const HostTensor weight = random_tensor(DType::kF32, {1, std::ssize(graph.source)}, 9);
  for (const int64_t width : {1, 7, 16, 32, 48, 130, 144}) {
    const HostTensor x = random_tensor(DType::kF32, {1, ManyEdges::kRows, width}, 4);
    const std::vector<float> rows = floats(x), weights = floats(weight);
    std::vector<float> sums, weighted;
    for (int64_t row = 0; row < ManyEdges::kRows; ++row)
      for (int64_t f = 0; f < width; ++f) {
        float sum = 0, with_weights = 0;
        for (int64_t e = graph.ptr[static_cast<size_t>(row)]; e < graph.ptr[static_cast<size_t>(row) + 1]; ++e) {
          const float value = rows[static_cast<size_t>(graph.source[static_cast<size_t>(e)] * width + f)];
          sum += value, with_weights = multiply_add(weights[static_cast<size_t>(e)], value, with_weights);
        }
        sums.push_back(sum), weighted.push_back(with_weights);
      }
    Tensors inputs = graph.with(x);
    expect_bits("neighbor_sum", inputs, {}, sums);
    inputs.push_back(weight);
    expect_bits("neighbor_sum", inputs, {}, weighted);
  }
}

/// Features of several heads, narrower than vectors and wider, with each head's own weight of an edge; and the products
/// of heads, sixteen strided lanes that are folded in halves.
TEST(GraphKernels, SumsAndProductsOfHeads) {
  const ManyEdges graph;
  for (const auto& [width, heads] : std::vector<std::pair<int64_t, int64_t>>{
           {6, 3}, {16, 4}, {36, 2}, {60, 4}, {100, 2}, {128, 8}, {130, 13}, {144, 2}, {150, 2}}) {
    const HostTensor x = random_tensor(DType::kF32, {1, ManyEdges::kRows, width}, 4),
                     a = random_tensor(DType::kF32, {1, ManyEdges::kRows, width}, 5),
                     weight = random_tensor(DType::kF32, {1, std::ssize(graph.source), heads}, 9);
    const std::vector<float> rows = floats(x), others = floats(a), weights = floats(weight);
    const int64_t size = width / heads;
    std::vector<float> sums, products;
    for (int64_t row = 0; row < ManyEdges::kRows; ++row) {
      const int64_t begin = graph.ptr[static_cast<size_t>(row)], end = graph.ptr[static_cast<size_t>(row) + 1];
      const auto value = [&](int64_t e, int64_t f) {
        return rows[static_cast<size_t>(graph.source[static_cast<size_t>(e)] * width + f)];
      };
      for (int64_t f = 0; f < width; ++f) {
        float sum = 0;
        for (int64_t e = begin; e < end; ++e)
          sum = multiply_add(weights[static_cast<size_t>(e * heads + f / size)], value(e, f), sum);
        sums.push_back(sum);
      }
      for (int64_t e = begin; e < end; ++e)
        for (int64_t head = 0; head < heads; ++head) {
          std::array<float, 16> lanes{};
          for (int64_t i = 0; i < size; ++i) {
            float& lane = lanes[static_cast<size_t>(i % 16)];
            lane = multiply_add(others[static_cast<size_t>(row * width + head * size + i)], value(e, head * size + i),
                                lane);
          }
          for (size_t half = 8; half > 0; half /= 2)
            for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
          products.push_back(lanes[0]);
        }
    }
    Tensors inputs = graph.with(x);
    inputs.push_back(weight);
    expect_bits("neighbor_sum", inputs, {}, sums);
    inputs = graph.with(x);
    inputs.insert(inputs.begin(), a);
    expect_bits("neighbor_dot", inputs, {{"heads", heads}}, products);
  }
}

/// Rows of heads and edges that all heads read: chains over edges and over heads, and products in sixteen strided
/// lanes.
TEST(GraphKernels, HeadsOverEdges) {
  const ManyEdges graph;
  const int64_t edges = std::ssize(graph.source), places = edges + 5;
  const HostTensor ptr = numbers(graph.ptr);
  for (const auto& [width, heads] :
       std::vector<std::pair<int64_t, int64_t>>{{5, 3}, {16, 1}, {100, 2}, {130, 2}, {144, 2}}) {
    const HostTensor rows = random_tensor(DType::kF32, {1, heads, ManyEdges::kRows, width}, 4),
                     x = random_tensor(DType::kF32, {1, places, width}, 5),
                     weight = random_tensor(DType::kF32, {1, places, heads}, 9);
    const std::vector<float> of_rows = floats(rows), of_edges = floats(x), weights = floats(weight);
    std::vector<float> dots(static_cast<size_t>(places * heads)), sums(of_rows.size()), blends(of_edges.size());
    for (int64_t row = 0; row < ManyEdges::kRows; ++row)
      for (int64_t e = graph.ptr[static_cast<size_t>(row)]; e < graph.ptr[static_cast<size_t>(row) + 1]; ++e)
        for (int64_t head = 0; head < heads; ++head) {
          const auto by = static_cast<size_t>(e * heads + head);
          std::array<float, 16> lanes{};
          for (int64_t f = 0; f < width; ++f) {
            const auto i = static_cast<size_t>((head * ManyEdges::kRows + row) * width + f),
                       k = static_cast<size_t>(e * width + f);
            float& lane = lanes[static_cast<size_t>(f % 16)];
            lane = multiply_add(of_rows[i], of_edges[k], lane);
            sums[i] = multiply_add(weights[by], of_edges[k], sums[i]);
            blends[k] = multiply_add(weights[by], of_rows[i], blends[k]);
          }
          for (size_t half = 8; half > 0; half /= 2)
            for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
          dots[by] = lanes[0];
        }
    expect_bits("segment_dot", {rows, x, ptr}, {}, dots);
    expect_bits("segment_combine", {x, weight, ptr}, {}, sums);
    expect_bits("segment_blend", {rows, weight, ptr}, {}, blends);
  }
}

TEST(GraphKernels, OneWrongNumberAmongManyIsNamed) {
  const HostTensor x = random_tensor(DType::kF32, {1, ManyEdges::kRows, 4}, 4);
  const auto error_of = [&](const ManyEdges& graph, int threads) -> std::string {
    const Tensors inputs = graph.with(x);
    try {
      interpret_node(node_of("neighbor_sum", inputs, {}), cpu_backend(), inputs, threads, "hwy");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const size_t edges = ManyEdges().source.size();
  ASSERT_GT(edges, 36'000U);
  for (const int threads : {1, 3}) {
    EXPECT_EQ(error_of({}, threads), "");
    for (const size_t place : {size_t{0}, size_t{17}, edges - 40, edges - 1}) {
      ManyEdges graph;
      graph.source[place] = ManyEdges::kRows;
      EXPECT_THAT(error_of(graph, threads), HasSubstr("source[0," + std::to_string(place) + "]"));
      graph = {}, graph.target[place] = -1;
      EXPECT_THAT(error_of(graph, threads), HasSubstr("target[0," + std::to_string(place) + "]"));
      graph = {}, graph.by_source[place] = static_cast<int64_t>(edges);
      EXPECT_THAT(error_of(graph, threads), HasSubstr("by_source[0," + std::to_string(place) + "]"));
    }
    ManyEdges graph;
    graph.ptr[1500] = 2147483647;
    EXPECT_THAT(error_of(graph, threads), HasSubstr("pointer [0,15"));
    graph = {}, graph.source_ptr[2999] = -2;
    EXPECT_THAT(error_of(graph, threads), HasSubstr("pointer [0,2999]"));
  }
}

/// Sums of a row are 64 strided lanes, folded in halves; layer norm gives one of them, a mean.
TEST(GraphKernels, SumsOfNarrowRowsAreFoldedInHalves) {
  for (int64_t width = 1; width <= 150; ++width) {
    constexpr int64_t kRows = 5;
    const HostTensor a = random_tensor(DType::kF32, {kRows, width}, static_cast<uint64_t>(width)),
                     gain = random_tensor(DType::kF32, {width}, 2), bias = random_tensor(DType::kF32, {width}, 3);
    const NodeSignature node = node_of("layer_norm", {a, gain, bias}, {{"epsilon", 1e-3}});
    const HostTensor means = interpret_node(node, cpu_backend(), {a, gain, bias}, 1, "hwy")[1];
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> lanes(64, 0);
      for (int64_t i = 0; i < width; ++i)
        lanes[static_cast<size_t>(i % 64)] += static_cast<float>(a.get(row * width + i));
      for (size_t half = 32; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
      EXPECT_EQ(static_cast<float>(means.get(row)), lanes[0] / static_cast<float>(width)) << width;
    }
  }
}

}  // namespace
}  // namespace ramet::tests

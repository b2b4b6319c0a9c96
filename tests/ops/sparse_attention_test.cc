#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build_sparse.h"

namespace ramet::tests {
namespace {

HostTensor drawn(const Shape& shape, uint64_t seed) {
  HostTensor tensor(TensorType{DType::kF32, shape});
  const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, random.uniform(static_cast<uint64_t>(i)) - 0.5);
  return tensor;
}

/// Attention where `sees(query, key)`, in double precision.
template <typename Sees>
std::vector<double> plain_attention(const HostTensor& q, const HostTensor& k, const HostTensor& v, int64_t heads,
                                    double scale, const Sees& sees) {
  const int64_t queries = q.type.shape.dim(-2), keys = k.type.shape.dim(-2);
  const int64_t depth = q.type.shape.dim(-1), width = v.type.shape.dim(-1);
  std::vector<double> out;
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t i = 0; i < queries; ++i) {
      std::vector<double> row(static_cast<size_t>(width));
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        if (!sees(i, j)) continue;
        double score = 0;
        for (int64_t d = 0; d < depth; ++d)
          score += q.get((head * queries + i) * depth + d) * k.get((head * keys + j) * depth + d);
        const double share = std::exp(scale * score);
        sum += share;
        for (int64_t d = 0; d < width; ++d) row[static_cast<size_t>(d)] += share * v.get((head * keys + j) * width + d);
      }
      for (const double value : row) out.push_back(sum == 0 ? 0 : value / sum);
    }
  return out;
}

TEST(SparseAttention, IsAttentionOverTheStoredBlocks) {
  constexpr int64_t kBlock = 4, kSide = 24;
  const HostTensor q = drawn({2, 3, kSide, 8}, 1), k = drawn({2, 3, kSide, 8}, 2), v = drawn({2, 3, kSide, 5}, 3);
  // A band beside the diagonal, and the first column of blocks, as long sequences have them.
  std::vector<double> numbers;
  std::vector<bool> stored;
  for (int64_t row = 0; row < kSide / kBlock; ++row)
    for (int64_t column = 0; column < kSide / kBlock; ++column) {
      stored.push_back(column == 0 || std::abs(row - column) <= 1);
      if (stored.back()) numbers.push_back(static_cast<double>(row * (kSide / kBlock) + column));
    }
  const auto slots = static_cast<int64_t>(numbers.size());
  for (const std::string keep : {"all", "lower"}) {
    Graph graph;
    GraphBuilder build(graph);
    const std::map<std::string, HostTensor> feeds{
        {"q", q}, {"k", k}, {"v", v}, {"index", HostTensor::of(DType::kI32, {1, 1, slots}, numbers)}};
    std::map<std::string, Tensor> in;
    for (const auto& [name, tensor] : feeds) in[name] = build.input(name, tensor.type.dtype, tensor.type.shape);
    build.output("out", ops::sparse_attention(in["q"], in["k"], in["v"], in["index"], {kSide, kSide}, kBlock, kBlock,
                                              0.3, keep));
    verify(graph, "sparse attention");
    const std::vector<double> expected = plain_attention(q, k, v, 6, 0.3, [&](int64_t i, int64_t j) {
      return stored[static_cast<size_t>(i / kBlock * (kSide / kBlock) + j / kBlock)] && (keep == "all" || j <= i);
    });
    const HostTensor out = interpret(graph, cpu_backend(), feeds, 2)[0];
    ASSERT_EQ(out.type.shape, (Shape{2, 3, kSide, 5}));
    for (int64_t i = 0; i < out.elements(); ++i)
      ASSERT_NEAR(out.get(i), expected[static_cast<size_t>(i)], 1e-5) << keep << " element " << i;
  }
}

}  // namespace
}  // namespace ramet::tests

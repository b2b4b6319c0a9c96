#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/sparse.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

HostTensor run(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes,
               int threads = 1) {
  return interpret_node(node_of(op, inputs, attributes), cpu_backend(), inputs, threads, "hwy")[0];
}

/// A dense matrix, as a sparse one with cells and blocks of these sizes: every block that has an element that is not 0
/// is stored, and as many empty ones as make all cells equal.
struct Sparse {
  HostTensor values, index;
  Dims cell;
};

Sparse sparse_of(const HostTensor& dense, int64_t cells_down, int64_t cells_across, int64_t rows, int64_t columns) {
  const int64_t high = dense.type.shape[0] / cells_down, wide = dense.type.shape[1] / cells_across;
  const int64_t down = high / rows, across = wide / columns;
  std::vector<std::vector<bool>> stored(static_cast<size_t>(cells_down * cells_across));
  const auto at = [&](int64_t cell, int64_t block, int64_t i, int64_t j) {
    const int64_t row = cell / cells_across * high + block / across * rows + i;
    return row * dense.type.shape[1] + cell % cells_across * wide + block % across * columns + j;
  };
  int64_t slots = 0;
  for (int64_t cell = 0; cell < cells_down * cells_across; ++cell) {
    auto& mine = stored[static_cast<size_t>(cell)];
    mine.resize(static_cast<size_t>(down * across));
    for (int64_t block = 0; block < down * across; ++block)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          if (dense.get(at(cell, block, i, j)) != 0) mine[static_cast<size_t>(block)] = true;
    slots = std::max<int64_t>(slots, std::count(mine.begin(), mine.end(), true));
  }
  std::vector<double> index, values;
  for (int64_t cell = 0; cell < cells_down * cells_across; ++cell) {
    auto& mine = stored[static_cast<size_t>(cell)];
    for (size_t b = 0; std::count(mine.begin(), mine.end(), true) < slots; ++b) mine[b] = true;
    for (int64_t block = 0; block < down * across; ++block) {
      if (!mine[static_cast<size_t>(block)]) continue;
      index.push_back(static_cast<double>(block));
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) values.push_back(dense.get(at(cell, block, i, j)));
    }
  }
  return {HostTensor::of(dense.type.dtype, {cells_down, cells_across, slots, rows, columns}, values),
          HostTensor::of(DType::kI32, {cells_down, cells_across, slots}, index),
          {high, wide}};
}

/// Random, with about `density` of its elements not 0.
HostTensor masked(DType dtype, int64_t rows, int64_t columns, double density) {
  HostTensor out = random_tensor(dtype, {rows, columns}, 11);
  const RandomStream random(12, RandomPurpose::kTest, 0, 7);
  for (int64_t i = 0; i < out.elements(); ++i)
    if (random.uniform(static_cast<uint64_t>(i)) >= density) out.set(i, 0.0);
  return out;
}

std::vector<float> numbers(const HostTensor& tensor) {
  std::vector<float> all;
  for (int64_t i = 0; i < tensor.elements(); ++i) all.push_back(static_cast<float>(tensor.get(i)));
  return all;
}

const std::vector<Dims> kBlocks{{1, 1}, {4, 4}, {8, 8}, {16, 16}, {2, 8}, {16, 1}};

/// The dense product that sums in order, one part of the sum after another.
HostTensor dense_product(const HostTensor& x, const HostTensor& matrix, bool transpose, int64_t parts) {
  const int64_t tokens = x.type.shape[0], k = x.type.shape[1];
  const int64_t n = matrix.type.shape[transpose ? 1 : 0];
  HostTensor y(TensorType{DType::kF32, {tokens, n}});
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t o = 0; o < n; ++o) {
      const auto part = [&](int64_t p) {
        float sum = 0;
        for (int64_t i = p * (k / parts); i < (p + 1) * (k / parts); ++i)
          sum = std::fma(static_cast<float>(matrix.get(transpose ? i * n + o : o * k + i)),
                         static_cast<float>(x.get(t * k + i)), sum);
        return sum;
      };
      y.set(t * n + o, tree_combine<float>(0, parts, part, [](float a, float b) { return a + b; }));
    }
  return y;
}

TEST(Sparse, AProductIsTheDenseOneInOrderWhateverTheBlocks) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const double density : {0.0, 0.05, 0.5, 1.0})
      for (const bool transpose : {false, true}) {
        const HostTensor matrix = masked(dtype, 96, 64, density);
        const HostTensor x = random_tensor(dtype, {131, transpose ? 96 : 64}, 13);
        for (const int64_t parts : {1, 2}) {
          const HostTensor expected = dense_product(x, matrix, transpose, parts);
          for (const Dims& block : kBlocks) {
            const Sparse sparse = sparse_of(matrix, transpose ? parts : 1, transpose ? 1 : parts, block[0], block[1]);
            Attributes attributes{{"cell", sparse.cell}, {"dtype", DType::kF32}};
            if (transpose) attributes.set("transpose", true);
            for (const int threads : {1, 3})
              EXPECT_EQ(numbers(run("sparse_matmul", {x, sparse.values, sparse.index}, attributes, threads)),
                        numbers(expected))
                  << name_of(dtype) << " density " << density << " transpose " << transpose << " parts " << parts
                  << " block " << block[0] << "x" << block[1] << " threads " << threads;
          }
        }
      }
}

TEST(Sparse, DensityOneGivesTheBitsOfTheDenseKernel) {
  const HostTensor matrix = masked(DType::kF32, 48, 80, 1.0), x = random_tensor(DType::kF32, {70, 80}, 14);
  const HostTensor dense = interpret_node(node_of("matmul", {x, matrix}, {{"transpose_b", true}, {"in_order", true}}),
                                          cpu_backend(), {x, matrix}, 2)[0];
  const Sparse sparse = sparse_of(matrix, 1, 1, 8, 8);
  EXPECT_EQ(numbers(run("sparse_matmul", {x, sparse.values, sparse.index}, {{"cell", sparse.cell}})), numbers(dense));
}

/// The sum of one element, as ops/sparse.h defines it.
float outer_element(const HostTensor& a, const HostTensor& b, int64_t row, int64_t column) {
  const int64_t tokens = a.type.shape[0], rows = a.type.shape[1], columns = b.type.shape[1];
  const bool pairs = a.type.dtype != DType::kF32;
  float total = 0;
  for (int64_t first = 0; first < tokens; first += kOuterTokens) {
    float lanes[16] = {};
    const auto add = [&](int64_t lane, int64_t token) {
      if (token < std::min(tokens, first + kOuterTokens))
        lanes[lane] = std::fma(static_cast<float>(a.get(token * rows + row)),
                               static_cast<float>(b.get(token * columns + column)), lanes[lane]);
    };
    for (int64_t t = 0; t < kOuterTokens; t += 32)
      for (int64_t lane = 0; lane < 16; ++lane) {
        add(lane, first + t + (pairs ? 2 * lane + 1 : lane));
        add(lane, first + t + (pairs ? 2 * lane : lane + 16));
      }
    for (int64_t width = 8; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    total = first == 0 ? lanes[0] : total + lanes[0];
  }
  return total;
}

TEST(Sparse, AnOuterProductSumsInItsFixedOrderWhateverTheBlocks) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const int64_t tokens : {1, 37, 512, 1100}) {
      const HostTensor a = random_tensor(dtype, {tokens, 32}, 15), b = random_tensor(dtype, {tokens, 48}, 16);
      const HostTensor pattern = masked(dtype, 32, 48, 0.2);
      for (const Dims& block : kBlocks) {
        const Sparse sparse = sparse_of(pattern, 1, 1, block[0], block[1]);
        const HostTensor sums =
            run("sparse_outer", {a, b, sparse.index}, {{"cell", sparse.cell}, {"block", block}}, 1 + tokens % 2);
        const int64_t across = 48 / block[1];
        int64_t element = 0;
        for (int64_t slot = 0; slot < sparse.index.elements(); ++slot)
          for (int64_t i = 0; i < block[0]; ++i)
            for (int64_t j = 0; j < block[1]; ++j, ++element) {
              const auto number = static_cast<int64_t>(sparse.index.get(slot));
              const float expected =
                  outer_element(a, b, number / across * block[0] + i, number % across * block[1] + j);
              ASSERT_EQ(static_cast<float>(sums.get(element)), expected)
                  << name_of(dtype) << " tokens " << tokens << " block " << block[0] << "x" << block[1];
            }
      }
    }
}

TEST(Sparse, RefusesNumbersThatDoNotAscendOrLeaveTheirCell) {
  const HostTensor x = random_tensor(DType::kF32, {3, 8}, 1), values = random_tensor(DType::kF32, {1, 2, 2, 2, 2}, 2);
  const Attributes attributes{{"cell", Dims{4, 4}}};
  for (const std::vector<double>& index :
       {std::vector<double>{0, 0, 1, 2}, {1, 0, 1, 2}, {0, 1, 1, 4}, {-1, 1, 1, 2}, {0, 1, 2, 2147483647}})
    for (const std::string kernel : {"hwy", "reference"}) {
      const std::vector<HostTensor> inputs{x, values, HostTensor::of(DType::kI32, {1, 2, 2}, index)};
      try {
        interpret_node(node_of("sparse_matmul", inputs, attributes), cpu_backend(), inputs, 1, kernel);
        ADD_FAILURE() << "not refused";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("must ascend, and lie in their cell"));
      }
    }
}

TEST(Sparse, RefusesShapesByName) {
  const auto types = [](const Shape& x, const Shape& values, const Shape& index) {
    return std::vector<HostTensor>{HostTensor(TensorType{DType::kF32, x}), HostTensor(TensorType{DType::kF32, values}),
                                   HostTensor(TensorType{DType::kI32, index})};
  };
  const auto message = [](const std::vector<HostTensor>& inputs, const Dims& cell) -> std::string {
    try {
      node_of("sparse_matmul", inputs, {{"cell", cell}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_THAT(message(types({2, 8}, {1, 2, 1, 3, 2}, {1, 2, 1}), {4, 4}), HasSubstr("blocks must divide a cell"));
  EXPECT_THAT(message(types({2, 8}, {1, 2, 5, 2, 2}, {1, 2, 5}), {4, 4}), HasSubstr("stores more blocks than it has"));
  EXPECT_THAT(message(types({2, 9}, {1, 2, 1, 2, 2}, {1, 2, 1}), {4, 4}), HasSubstr("does not fit the sparse matrix"));
  EXPECT_THAT(message(types({2, 8}, {1, 2, 2, 2, 2}, {1, 2, 1}), {4, 4}), HasSubstr("values"));
  EXPECT_THAT(message(types({2, 8}, {1, 2, 1, 2, 2}, {1, 2, 1}), {4, 0}), HasSubstr("two positive numbers"));
}

}  // namespace
}  // namespace ramet::tests

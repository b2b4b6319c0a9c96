#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

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
          sum = multiply_add(static_cast<float>(matrix.get(transpose ? i * n + o : o * k + i)),
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

/// A product's and an outer product's numbers at the stored elements of a pattern, beside what they have to be.
void expect_products(const HostTensor& matrix, const HostTensor& x, const HostTensor& dy, const Dims& block,
                     const std::string& what);

TEST(Sparse, ProductsOfOddSizesHaveTheirBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const int64_t tokens : {1, 33, 63, 130})
      for (const Dims& block : {Dims{1, 1}, Dims{4, 4}, Dims{6, 2}, Dims{3, 5}}) {
        const int64_t rows = 11 * block[0], columns = 13 * block[1];
        HostTensor matrix = masked(dtype, rows, columns, 0.3);
        for (int64_t i = 0; i < matrix.elements(); ++i)  // a row of blocks and a column without any
          if (i / columns / block[0] == 4 || i % columns / block[1] == 7) matrix.set(i, 0.0);
        expect_products(matrix, random_tensor(dtype, {tokens, columns}, 21), random_tensor(dtype, {tokens, rows}, 22),
                        block, std::string(name_of(dtype)) + " tokens " + std::to_string(tokens));
      }
}

/// Sums near the least normal numbers, and operands below: the instruction for pairs of bf16 makes zeros of those.
TEST(Sparse, SumsOfNumbersNearZeroHaveTheirBits) {
  for (const double scale : {0x1p-50, 0x1p-58, 0x1p-66, 0x1p-128})
    for (const Dims& block : {Dims{1, 1}, Dims{4, 4}, Dims{16, 16}}) {
      HostTensor matrix = masked(DType::kBF16, 64, 32, 0.3);
      for (int64_t i = 0; i < matrix.elements(); ++i) matrix.set(i, matrix.get(i) * 0x1p-60);
      HostTensor x = random_tensor(DType::kBF16, {200, 32}, 23), dy = random_tensor(DType::kBF16, {200, 64}, 24);
      // Small numbers in some tokens and features only.
      for (int64_t i = 0; i < x.elements(); ++i)
        if (i / 32 % 100 < 40) x.set(i, x.get(i) * scale);
      for (int64_t i = 0; i < dy.elements(); ++i)
        if (i % 64 < 16) dy.set(i, dy.get(i) * 0x1p-70);
      expect_products(matrix, x, dy, block, std::to_string(std::log2(scale)));
    }
}

TEST(Sparse, DensityOneGivesTheBitsOfTheDenseKernelThatSumsInOrder) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const int64_t parts : {1, 2, 5})
      for (const bool transpose : {false, true}) {
        // A long sum, which a dense kernel might cut.
        const HostTensor matrix = masked(dtype, 640, 1600, 1.0);
        const HostTensor x = random_tensor(dtype, {70, transpose ? 640 : 1600}, 14);
        Attributes dense{{"in_order", true}, {"dtype", DType::kF32}};
        if (!transpose) dense.set("transpose_b", true);
        if (parts > 1) dense.set("chunks", parts);
        const HostTensor expected =
            interpret_node(node_of("matmul", {x, matrix}, dense), cpu_backend(), {x, matrix}, 2)[0];
        const Sparse sparse = sparse_of(matrix, transpose ? parts : 1, transpose ? 1 : parts, 8, 8);
        Attributes attributes{{"cell", sparse.cell}, {"dtype", DType::kF32}};
        if (transpose) attributes.set("transpose", true);
        EXPECT_EQ(numbers(run("sparse_matmul", {x, sparse.values, sparse.index}, attributes)), numbers(expected))
            << name_of(dtype) << " parts " << parts << " transpose " << transpose;
      }
}

/// Several tensors one behind another, as a new first dimension.
HostTensor stacked(const std::vector<HostTensor>& parts) {
  Dims dims = parts[0].type.shape.dims();
  dims.insert(dims.begin(), static_cast<int64_t>(parts.size()));
  HostTensor all(TensorType{parts[0].type.dtype, Shape(dims)});
  int64_t at = 0;
  for (const HostTensor& part : parts)
    for (int64_t i = 0; i < part.elements(); ++i) all.set(at++, part.get(i));
  return all;
}

std::vector<float> joined(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Sparse, SeveralProductsGiveTheBitsOfEach) {
  for (const bool own_index : {false, true}) {
    std::vector<HostTensor> x, dy, values, index;
    std::vector<std::vector<float>> products, outers;
    Dims cell;
    for (int group = 0; group < 3; ++group) {
      HostTensor matrix = random_tensor(DType::kF32, {32, 48}, static_cast<uint64_t>(20 + group));
      // Every second block, or others for each product.
      const auto stores = [&](int64_t i) { return (i / 48 / 4 + i % 48 / 8 + (own_index ? group : 0)) % 2 == 0; };
      for (int64_t i = 0; i < matrix.elements(); ++i)
        if (!stores(i)) matrix.set(i, 0.0);
      const Sparse sparse = sparse_of(matrix, 1, 2, 4, 8);
      cell = sparse.cell;
      x.push_back(random_tensor(DType::kF32, {130, 48}, static_cast<uint64_t>(30 + group)));
      dy.push_back(random_tensor(DType::kF32, {130, 32}, static_cast<uint64_t>(40 + group)));
      values.push_back(sparse.values), index.push_back(sparse.index);
      products.push_back(numbers(run("sparse_matmul", {x.back(), sparse.values, sparse.index}, {{"cell", cell}})));
      outers.push_back(
          numbers(run("sparse_outer", {dy.back(), x.back(), sparse.index}, {{"cell", cell}, {"block", Dims{4, 8}}})));
    }
    const HostTensor pattern = own_index ? stacked(index) : index[0];
    for (const int threads : {1, 4}) {
      EXPECT_EQ(numbers(run("sparse_matmul", {stacked(x), stacked(values), pattern}, {{"cell", cell}}, threads)),
                joined(products));
      EXPECT_EQ(numbers(run("sparse_outer", {stacked(dy), stacked(x), pattern},
                            {{"cell", cell}, {"block", Dims{4, 8}}, {"grouped", true}}, threads)),
                joined(outers));
    }
  }
}

/// The dense matrix of values at the blocks of an index in one row of cells.
std::vector<float> dense_of(const HostTensor& values, const HostTensor& index, const Dims& cell, const Dims& block,
                            int64_t cells) {
  const int64_t across = cell[1] / block[1], slots = index.type.shape.dim(-1), width = cells * cell[1];
  std::vector<float> dense(static_cast<size_t>(cell[0] * width));
  int64_t element = 0;
  for (int64_t slot = 0; slot < index.elements(); ++slot) {
    const auto number = static_cast<int64_t>(index.get(slot));
    for (int64_t i = 0; i < block[0]; ++i)
      for (int64_t j = 0; j < block[1]; ++j)
        dense[static_cast<size_t>((number / across * block[0] + i) * width + slot / slots * cell[1] +
                                  number % across * block[1] + j)] = static_cast<float>(values.get(element++));
  }
  return dense;
}

TEST(Sparse, ASoftmaxHasTheSameBitsWhateverTheBlocksAndCells) {
  // Every block of 16 x 16 is full or empty, so all sizes of blocks store the same elements.
  HostTensor scores = random_tensor(DType::kF32, {64, 160}, 17);
  for (int64_t i = 0; i < scores.elements(); ++i)
    if ((i / 160 / 16 + i % 160 / 16) % 2 == 1) scores.set(i, 0.0);
  for (const std::string keep : {"all", "lower", "upper"}) {
    std::vector<float> expected;
    for (const Dims& block : kBlocks)
      for (const int64_t cells : {1, 5}) {
        const Sparse sparse = sparse_of(scores, 1, cells, block[0], block[1]);
        const Attributes attributes{{"cell", sparse.cell}, {"keep", keep}};
        const HostTensor y = run("sparse_softmax", {sparse.values, sparse.index}, attributes, 3);
        const HostTensor dx = run("sparse_softmax_grad", {y, sparse.values, sparse.index}, attributes, 2);
        std::vector<float> all = dense_of(y, sparse.index, sparse.cell, block, cells);
        const std::vector<float> gradient = dense_of(dx, sparse.index, sparse.cell, block, cells);
        all.insert(all.end(), gradient.begin(), gradient.end());
        if (expected.empty()) expected = all;
        EXPECT_EQ(all, expected) << keep << " block " << block[0] << "x" << block[1] << " cells " << cells;
      }
    for (int64_t row = 0; row < 64; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < 160; ++column) sum += expected[static_cast<size_t>(row * 160 + column)];
      const bool some = keep == "all" || (keep == "upper" ? true : row >= 16 * (row / 16 % 2));
      EXPECT_NEAR(sum, some ? 1 : 0, 1e-5) << keep << " row " << row;
    }
  }
}

TEST(Sparse, RefusesRowsOutsideOfTheTable) {
  const HostTensor values = random_tensor(DType::kF32, {1, 1, 2, 2, 2}, 2);
  const HostTensor index = HostTensor::of(DType::kI32, {1, 1, 2}, {0, 3});
  for (const double number : {-1.0, 4.0})
    for (const std::string kernel : {"hwy", "reference"})
      for (const std::string op : {"sparse_gather", "sparse_scatter_add"}) {
        const HostTensor numbers = HostTensor::of(DType::kI64, {2}, {0, number});
        Attributes attributes{{"cell", Dims{4, 4}}};
        if (op == "sparse_scatter_add") attributes.set("block", Dims{2, 2});
        const std::vector<HostTensor> inputs{
            numbers, op == "sparse_gather" ? values : random_tensor(DType::kF32, {2, 4}, 3), index};
        try {
          interpret_node(node_of(op, inputs, attributes), cpu_backend(), inputs, 1, kernel);
          ADD_FAILURE() << "not refused";
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("outside of the sparse table"));
        }
      }
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
        lanes[lane] = multiply_add(static_cast<float>(a.get(token * rows + row)),
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

void expect_products(const HostTensor& matrix, const HostTensor& x, const HostTensor& dy, const Dims& block,
                     const std::string& what) {
  const std::string where = what + " block " + std::to_string(block[0]) + "x" + std::to_string(block[1]);
  const Sparse sparse = sparse_of(matrix, 1, 1, block[0], block[1]);
  for (const bool transpose : {false, true}) {
    Attributes attributes{{"cell", sparse.cell}, {"dtype", DType::kF32}};
    if (transpose) attributes.set("transpose", true);
    const HostTensor& in = transpose ? dy : x;
    EXPECT_EQ(numbers(run("sparse_matmul", {in, sparse.values, sparse.index}, attributes, 2)),
              numbers(dense_product(in, matrix, transpose, 1)))
        << where << " transpose " << transpose;
  }
  const HostTensor sums = run("sparse_outer", {dy, x, sparse.index}, {{"cell", sparse.cell}, {"block", block}}, 2);
  std::vector<float> expected;
  const int64_t across = matrix.type.shape[1] / block[1];
  for (int64_t slot = 0; slot < sparse.index.elements(); ++slot)
    for (int64_t e = 0; e < block[0] * block[1]; ++e) {
      const auto number = static_cast<int64_t>(sparse.index.get(slot));
      expected.push_back(
          outer_element(dy, x, number / across * block[0] + e / block[1], number % across * block[1] + e % block[1]));
    }
  EXPECT_EQ(numbers(sums), expected) << where;
}

/// Tokens [T, features] as panels [T / 512, features, 512].
HostTensor panels_of(const HostTensor& rows) {
  constexpr int64_t kPanel = 512;
  const int64_t tokens = rows.type.shape[0], features = rows.type.shape[1];
  HostTensor panels(TensorType{rows.type.dtype, {tokens / kPanel, features, kPanel}});
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t f = 0; f < features; ++f)
      panels.set((t / kPanel * features + f) * kPanel + t % kPanel, rows.get(t * features + f));
  return panels;
}

/// Products of operands in rows and in panels, with the result in both.
TEST(Sparse, PanelsInMemoryHaveTheBitsOfRows) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const double scale : {1.0, 0x1p-64})  // with sums for which there is no instruction
      for (const Dims& block : {Dims{1, 1}, Dims{4, 4}, Dims{8, 8}, Dims{16, 16}, Dims{2, 5}, Dims{3, 5}}) {
        const int64_t rows = 6 * block[0], columns = 11 * block[1], tokens = 1024;
        HostTensor matrix = masked(dtype, rows, columns, 0.3), x = random_tensor(dtype, {tokens, columns}, 31);
        for (int64_t i = 0; i < matrix.elements(); ++i) matrix.set(i, matrix.get(i) * scale);
        for (int64_t i = 0; i < x.elements(); i += 3) x.set(i, x.get(i) * scale);
        const HostTensor dy = random_tensor(dtype, {tokens, rows}, 32);
        const Sparse sparse = sparse_of(matrix, 1, 1, block[0], block[1]);
        for (const bool transpose : {false, true})
          for (const int threads : {1, 2}) {
            const HostTensor& in = transpose ? dy : x;
            Attributes attributes{{"cell", sparse.cell}, {"transpose", transpose}};
            const HostTensor y = run("sparse_matmul", {in, sparse.values, sparse.index}, attributes, threads);
            attributes.set("y_panel", int64_t{512});
            const HostTensor y_panels = panels_of(y);
            EXPECT_EQ(run("sparse_matmul", {in, sparse.values, sparse.index}, attributes, threads).data, y_panels.data);
            attributes.set("x_panels", true);
            const std::vector<HostTensor> inputs{panels_of(in), sparse.values, sparse.index};
            EXPECT_EQ(run("sparse_matmul", inputs, attributes, threads).data, y_panels.data);
            attributes.set("y_panel", int64_t{0});
            EXPECT_EQ(run("sparse_matmul", inputs, attributes, threads).data, y.data);
          }
        const Attributes outer{{"cell", sparse.cell}, {"block", block}};
        if (!cpu_backend().blocking(node_of("sparse_outer", {dy, x, sparse.index}, outer), 0)) continue;
        const HostTensor sums = run("sparse_outer", {dy, x, sparse.index}, outer);
        for (int both = 1; both < 4; ++both) {
          const bool a = both & 1, b = both & 2;
          EXPECT_EQ(run("sparse_outer", {a ? panels_of(dy) : dy, b ? panels_of(x) : x, sparse.index},
                        {{"cell", sparse.cell}, {"block", block}, {"a_panels", a}, {"b_panels", b}}, 2)
                        .data,
                    sums.data)
              << name_of(dtype) << " block " << block[0] << " in panels " << both;
        }
      }
}

/// Large results, which are written past the caches: products of some of the tokens, which are small, give the same.
TEST(Sparse, LargeResultsHaveTheirBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Dims& block : {Dims{1, 1}, Dims{4, 4}, Dims{16, 16}, Dims{6, 2}}) {
      const int64_t rows = block[0] == 6 ? 258 : 256, columns = 32, tokens = 10240, some = 1024;
      const Sparse sparse = sparse_of(masked(dtype, rows, columns, 0.1), 1, 1, block[0], block[1]);
      const HostTensor x = random_tensor(dtype, {tokens, columns}, 33);
      const Attributes attributes{{"cell", sparse.cell}};
      const HostTensor y = run("sparse_matmul", {x, sparse.values, sparse.index}, attributes, 2);
      const HostTensor panels =
          run("sparse_matmul", {x, sparse.values, sparse.index}, {{"cell", sparse.cell}, {"y_panel", int64_t{512}}}, 2);
      EXPECT_EQ(panels.data, panels_of(y).data) << name_of(dtype) << " block " << block[0];
      for (int64_t t = 0; t < tokens; t += some) {
        const auto part_of = [&](const HostTensor& all, int64_t width) {
          HostTensor part(TensorType{dtype, {some, width}});
          const auto begin = all.data.begin() + t * width * static_cast<int64_t>(size_of(dtype));
          std::copy_n(begin, part.data.size(), part.data.begin());
          return part;
        };
        const HostTensor part = run("sparse_matmul", {part_of(x, columns), sparse.values, sparse.index}, attributes);
        ASSERT_EQ(part.data, part_of(y, rows).data) << name_of(dtype) << " block " << block[0] << " token " << t;
      }
    }
}

/// The tests above, each against sums that the test computes itself, in a process that may use less of the processor.
TEST(Sparse, HasTheSameBitsOnEveryInstructionSet) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const char* level : {"baseline", "avx2", "avx512", "avx512_bf16"}) {
    const std::string command =
        std::string("RAMET_CPU=") + level + " '" + self +
        "' --gtest_brief=1 "
        "--gtest_filter='Sparse.AProduct*:Sparse.AnOuter*:Sparse.ASoftmax*:Sparse.*HaveTheirBits:Sparse.Panels*'"
        " >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
}

/// Wrong numbers at any place, whichever thread meets them.
TEST(Sparse, FindsAWrongNumberWhereverItIs) {
  constexpr int64_t kSlots = 1000;
  for (const bool transpose : {false, true})
    for (const int64_t block : {1, 4}) {
      const HostTensor values = random_tensor(DType::kF32, {1, 1, kSlots, block, block}, 2);
      Attributes attributes{{"cell", Dims{64 * block, 64 * block}}};
      if (transpose) attributes.set("transpose", true);
      const HostTensor rows = random_tensor(DType::kF32, {2, 64 * block}, 1);
      for (const int64_t at : {int64_t{0}, int64_t{1}, kSlots / 2 - 1, kSlots / 2, kSlots / 2 + 1, kSlots - 1})
        for (const double number : {-2.0, 4096.0, static_cast<double>(at) - 1}) {
          HostTensor index(TensorType{DType::kI32, Shape{1, 1, kSlots}});
          for (int64_t i = 0; i < kSlots; ++i) index.set(i, static_cast<double>(i));
          index.set(at, number);
          // Unused slots end a cell; none may stand before a used one.
          if (number == -1) continue;
          EXPECT_THROW(run("sparse_matmul", {rows, values, index}, attributes, 2), Error)
              << block << " " << at << " " << number;
        }
      HostTensor index(TensorType{DType::kI32, Shape{1, 1, kSlots}});
      for (int64_t i = 0; i < kSlots; ++i) index.set(i, static_cast<double>(i == 700 ? -1 : i));
      EXPECT_THROW(run("sparse_matmul", {rows, values, index}, attributes, 2), Error);
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

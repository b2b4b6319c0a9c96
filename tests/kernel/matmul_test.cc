#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/matmul.h"
#include "ramet/kernel/cpu/onednn.h"
#include "ramet/kernel/cpu/prepared_matmul.h"
#include "ramet/kernel/interpret.h"

namespace ramet::tests {
namespace {

/// The kernels of products of `dtype` that this build has on this processor.
std::vector<std::string> kernels_of(DType dtype) {
  std::vector<std::string> kernels{"plain"};
  if (onednn::built() && cpu_level() >= CpuLevel::kAvx512) kernels.push_back("onednn");
  if (cpu_level() >= CpuLevel::kAmxBf16 && (dtype == DType::kBF16 || size_of(dtype) == 1)) kernels.push_back("tiles");
  return kernels;
}

HostTensor run(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes, int threads,
               const std::string& kernel) {
  return interpret_node(node_of(op, inputs, attributes), cpu_backend(), inputs, threads, kernel)[0];
}

struct Product {
  int64_t m, n, k;
  DType dtype, out;
  bool transpose_a, transpose_b;
  int64_t chunks;
  bool accumulate;

  Attributes attributes() const {
    Attributes all{{"dtype", out}};
    if (transpose_a) all.set("transpose_a", true);
    if (transpose_b) all.set("transpose_b", true);
    if (chunks > 1) all.set("chunks", chunks);
    if (accumulate) all.set("accumulate", true);
    return all;
  }
  std::vector<HostTensor> inputs() const {
    std::vector<HostTensor> all{random_tensor(dtype, transpose_a ? Shape{k, m} : Shape{m, k}, 1),
                                random_tensor(dtype, transpose_b ? Shape{n, k} : Shape{k, n}, 2)};
    if (accumulate) all.push_back(random_tensor(DType::kF32, {m, n}, 3));
    return all;
  }
  std::string text() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + std::string(name_of(dtype)) +
           "->" + std::string(name_of(out)) + (transpose_a ? " ta" : "") + (transpose_b ? " tb" : "") + " chunks " +
           std::to_string(chunks) + (accumulate ? " accumulate" : "");
  }
};

/// Shapes odd and even, one row, one column, beyond the blocks of each dimension, rows that threads take in pieces;
/// every type and form.
std::vector<Product> products() {
  std::vector<Product> all;
  const std::vector<std::array<int64_t, 3>> sizes{{1, 1, 1},     {1, 200, 96},  {3, 5, 7},
                                                  {33, 65, 130}, {64, 64, 64},  {130, 47, 258},
                                                  {270, 16, 64}, {20, 700, 34}, {1570, 34, 20}};
  for (const auto& [m, n, k] : sizes)
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
      for (int form = 0; form < 4; ++form)
        for (int variant = 0; variant < 4; ++variant) {
          if (variant == 1 && k % 2 != 0) continue;
          const DType out = variant == 2 || dtype == DType::kF32 ? DType::kF32 : dtype;
          all.push_back({m, n, k, dtype, variant == 3 ? DType::kF32 : out, form % 2 == 1, form >= 2,
                         variant == 1 ? 2 : 1, variant == 3});
        }
  return all;
}

double tolerance_of(DType out) { return out == DType::kF32 ? 2e-5 : out == DType::kF16 ? 2e-3 : 1.5e-2; }

TEST(Matmul, AgreesWithTheReferenceAndWithAnyTeam) {
  for (const Product& product : products()) {
    const auto inputs = product.inputs();
    const auto expected = run("matmul", inputs, product.attributes(), 1, "reference");
    for (const std::string& kernel : kernels_of(product.dtype)) {
      SCOPED_TRACE(kernel + " " + product.text());
      const auto found = run("matmul", inputs, product.attributes(), 1, kernel);
      ASSERT_EQ(compare(found, expected, tolerance_of(product.out)), "");
      for (int threads : {2, 3})
        ASSERT_EQ(found, run("matmul", inputs, product.attributes(), threads, kernel)) << threads;
    }
  }
}

/// 8-bit floats are bf16 numbers: the product of either gives the same bits.
TEST(Matmul, EightBitOperandsAreExactAsBf16) {
  const std::pair<DType, DType> types[] = {
      {DType::kF8E4M3, DType::kF8E4M3}, {DType::kF8E5M2, DType::kF8E4M3}, {DType::kF8E4M3, DType::kF8E5M2}};
  for (const auto& [a, b] : types)
    for (DType out : {DType::kF32, DType::kF16})
      for (int form = 0; form < 4; ++form)
        for (int64_t chunks : {1, 2}) {
          const Product product{70, 130, 258, a, out, form % 2 == 1, form >= 2, chunks, false};
          SCOPED_TRACE(product.text() + " with " + std::string(name_of(b)));
          auto inputs = product.inputs();
          // Every code of the formats, subnormals and the largest too.
          for (HostTensor* tensor : {&inputs[0], &inputs[1]}) {
            tensor->type.dtype = tensor == &inputs[0] ? a : b;
            tensor->data.resize(static_cast<size_t>(tensor->type.bytes()));
            for (int64_t i = 0; i < tensor->elements(); ++i) {
              auto code = static_cast<uint8_t>(i * 37 + i / 256);
              if (!std::isfinite(load_element(&code, tensor->type.dtype, 0))) code = 0;
              tensor->data[static_cast<size_t>(i)] = std::byte{code};
            }
          }
          auto wide = inputs;
          for (HostTensor& tensor : wide) tensor = HostTensor::of(DType::kBF16, tensor.type.shape, tensor.values());
          const auto expected = run("matmul", inputs, product.attributes(), 1, "reference");
          for (const std::string& kernel : kernels_of(a)) {
            const auto found = run("matmul", inputs, product.attributes(), 2, kernel);
            ASSERT_EQ(found, run("matmul", wide, product.attributes(), 2, kernel)) << kernel;
            double most = 1;
            for (double value : expected.values())
              if (std::isfinite(value)) most = std::max(most, std::fabs(value));
            for (int64_t i = 0; i < found.elements(); ++i) {
              if (!std::isfinite(expected.get(i))) continue;
              ASSERT_NEAR(found.get(i), expected.get(i), 1e-3 * most) << kernel;
            }
          }
        }
}

/// A block of rows, and a block of columns, of a product equal the same of the whole, bit for bit.
TEST(Matmul, RowAndColumnBlocksHaveTheSameBits) {
  const std::vector<Product> samples{{96, 192, 768, DType::kBF16, DType::kF32, false, false, 1, false},
                                     {65, 130, 129, DType::kBF16, DType::kBF16, false, false, 1, false},
                                     {96, 192, 5000, DType::kF32, DType::kF32, false, false, 1, false},
                                     {48, 160, 3072, DType::kBF16, DType::kF32, false, false, 4, false},
                                     {37, 77, 2049, DType::kF32, DType::kF32, false, false, 3, false}};
  for (const Product& product : samples)
    for (const std::string& kernel : kernels_of(product.dtype)) {
      SCOPED_TRACE(kernel + " " + product.text());
      const auto inputs = product.inputs();
      const auto whole = run("matmul", inputs, product.attributes(), 2, kernel);
      for (int64_t rows : {int64_t{1}, product.m / 2, product.m - 1}) {
        auto part = inputs;
        part[0].type.shape = {rows, product.k};
        part[0].data.resize(static_cast<size_t>(part[0].type.bytes()));
        const auto found = run("matmul", part, product.attributes(), 1, kernel);
        ASSERT_TRUE(std::equal(found.data.begin(), found.data.end(), whole.data.begin())) << rows << " rows";
      }
      for (int64_t columns : {int64_t{1}, int64_t{17}, product.n / 2, product.n - 1}) {
        auto part = inputs;
        part[1] = HostTensor(TensorType{product.dtype, {product.k, columns}});
        for (int64_t i = 0; i < product.k; ++i)
          for (int64_t j = 0; j < columns; ++j) part[1].set(i * columns + j, inputs[1].get(i * product.n + j));
        const auto found = run("matmul", part, product.attributes(), 1, kernel);
        for (int64_t i = 0; i < product.m; ++i)
          for (int64_t j = 0; j < columns; ++j)
            ASSERT_EQ(found.get(i * columns + j), whole.get(i * product.n + j)) << i << "," << j << " of " << columns;
      }
    }
}

TEST(Matmul, PackedOperandsGiveTheSameBits) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (bool transposed : {false, true})
      for (int64_t chunks : {1, 2}) {
        const Product product{50, 200, 130, dtype, dtype, false, transposed, chunks, false};
        SCOPED_TRACE(product.text());
        auto inputs = product.inputs();
        // The weight as the optimizer keeps it, in f32: blocking rounds it.
        const auto weight = random_tensor(DType::kF32, inputs[1].type.shape, 2);
        inputs[1] = HostTensor::of(dtype, weight.type.shape, weight.values());
        const auto plain = run("matmul", inputs, product.attributes(), 2, "");
        const auto layout = cpu_backend().blocking(node_of("matmul", inputs, product.attributes()), 1);
        ASSERT_TRUE(layout.has_value());
        for (int threads : {1, 3}) {
          const auto blocked = run(
              "block", {weight}, {{"format", layout->format}, {"bytes", layout->bytes}, {"dtype", dtype}}, threads, "");
          Attributes attributes = product.attributes();
          attributes.set("b_blocked", layout->format).set("b_shape", weight.type.shape.dims()).set("b_dtype", dtype);
          ASSERT_EQ(plain, run("matmul", {inputs[0], blocked}, attributes, threads, "")) << threads;
        }
      }
}

TEST(Matmul, StacksOfMatrices) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (int form = 0; form < 4; ++form) {
      const Attributes attributes{{"transpose_a", form % 2 == 1}, {"transpose_b", form >= 2}};
      const std::vector<HostTensor> inputs{
          random_tensor(dtype, form % 2 == 1 ? Shape{3, 1, 40, 20} : Shape{3, 1, 20, 40}, 1),
          random_tensor(dtype, form >= 2 ? Shape{2, 33, 40} : Shape{2, 40, 33}, 2)};
      const auto expected = run("matmul", inputs, attributes, 1, "reference");
      for (const std::string& kernel : kernels_of(dtype)) {
        const auto found = run("matmul", inputs, attributes, 1, kernel);
        EXPECT_EQ(compare(found, expected, tolerance_of(dtype)), "") << kernel << form;
        for (int threads : {2, 7}) EXPECT_EQ(found, run("matmul", inputs, attributes, threads, kernel));
      }
    }
}

TEST(Linear, AddsTheBiasBeforeRounding) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (DType bias : {DType::kF32, dtype})
      for (int64_t rows : {5, 40}) {
        const std::vector<HostTensor> inputs{random_tensor(dtype, {2, rows, 70}, 1), random_tensor(dtype, {190, 70}, 2),
                                             random_tensor(bias, {190}, 3)};
        const Attributes attributes{{"transpose_weight", true}};
        const auto expected = run("linear", inputs, attributes, 1, "reference");
        for (const std::string& kernel : kernels_of(dtype)) {
          const auto found = run("linear", inputs, attributes, 1, kernel);
          EXPECT_EQ(compare(found, expected, tolerance_of(dtype)), "") << kernel << name_of(dtype);
          for (int threads : {2, 3}) EXPECT_EQ(found, run("linear", inputs, attributes, threads, kernel));
        }
      }
}

/// Whether row `i` of 300 is one of zeros: runs of several lengths, from within groups of rows, to the end.
bool is_empty(int64_t i) { return (i >= 40 && i < 90) || (i >= 150 && i < 260) || (i >= 270 && i < 275) || i >= 290; }

/// With these rows of `width` elements 0 or -0.
HostTensor with_empty_rows(HostTensor tensor, int64_t width, const std::function<bool(int64_t)>& empty) {
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (empty(i / width)) tensor.set(i, i % 3 == 0 ? -0.0 : 0.0);
  return tensor;
}

/// Rows of zeros may be left out of a product: that changes no bit of the others, and they are what is added to them.
TEST(Matmul, RowsOfZerosChangeNothing) {
  const int64_t m = 300, n = 100, k = 70;
  for (const std::string& kernel : kernels_of(DType::kF32))
    for (const std::string form : {"product", "bias", "accumulate"}) {
      const std::string op = form == "bias" ? "linear" : "matmul";
      const Attributes attributes = form == "accumulate" ? Attributes{{"accumulate", true}} : Attributes{};
      std::vector<HostTensor> inputs{random_tensor(DType::kF32, {m, k}, 1), random_tensor(DType::kF32, {k, n}, 2)};
      if (form == "bias") inputs.push_back(random_tensor(DType::kF32, {n}, 3));
      if (form == "accumulate") inputs.push_back(random_tensor(DType::kF32, {m, n}, 3));
      const HostTensor full = run(op, inputs, attributes, 1, kernel);
      inputs[0] = with_empty_rows(inputs[0], k, is_empty);
      for (int threads : {1, 2, 3}) {
        SCOPED_TRACE(kernel + " " + form + " " + std::to_string(threads));
        const HostTensor found = run(op, inputs, attributes, threads, kernel);
        for (int64_t i = 0; i < m * n; ++i) {
          const double added = form == "product" ? 0 : inputs[2].get(form == "bias" ? i % n : i);
          ASSERT_EQ(found.get(i), is_empty(i / n) ? added : full.get(i)) << i / n;
        }
      }
      // Zero times infinity is no number, wherever it is.
      inputs[1].set(5 * n + 7, INFINITY);
      const HostTensor found = run(op, inputs, attributes, 2, kernel);
      for (int64_t i = 0; i < m; ++i) ASSERT_EQ(std::isnan(found.get(i * n + 7)), is_empty(i)) << kernel << i;
    }
}

/// Narrow products have kernels of their own, with the bits of the first columns of a wide one.
TEST(Matmul, NarrowProductsHaveTheBitsOfWideOnes) {
  const int64_t wide = 700;
  for (const std::string& kernel : kernels_of(DType::kF32))
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{150, 100, 90}, {67, 300, 200}, {300, 17, 320}})
      for (const std::string op : {"matmul", "linear"}) {
        std::vector<HostTensor> inputs{random_tensor(DType::kF32, {m, k}, 1), random_tensor(DType::kF32, {k, wide}, 2)};
        if (op == "linear") inputs.push_back(random_tensor(DType::kF32, {wide}, 3));
        const HostTensor all = run(op, inputs, {}, 1, kernel);
        HostTensor columns(TensorType{DType::kF32, {k, n}});
        for (int64_t i = 0; i < k * n; ++i) columns.set(i, inputs[1].get(i / n * wide + i % n));
        inputs[1] = columns;
        if (op == "linear") {
          HostTensor bias(TensorType{DType::kF32, {n}});
          for (int64_t i = 0; i < n; ++i) bias.set(i, inputs[2].get(i));
          inputs[2] = bias;
        }
        for (int threads : {1, 2, 3}) {
          SCOPED_TRACE(kernel + " " + op + " " + std::to_string(m) + " " + std::to_string(threads));
          const HostTensor found = run(op, inputs, {}, threads, kernel);
          for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(found.get(i), all.get(i / n * wide + i % n)) << i;
        }
      }
}

/// The same of sums over rows, as gradients of weights are: they are those of the rows that are left.
TEST(Matmul, SumsOverRowsOfZerosAreThoseOfTheOthers) {
  const int64_t rows = 300, m = 100, n = 90;
  const auto in_a = [](int64_t i) { return is_empty(i) && i < 150; };
  const auto in_b = [](int64_t i) { return is_empty(i) && i >= 150; };
  const Attributes attributes{{"transpose_a", true}};
  std::vector<HostTensor> inputs{with_empty_rows(random_tensor(DType::kF32, {rows, m}, 1), m, in_a),
                                 with_empty_rows(random_tensor(DType::kF32, {rows, n}, 2), n, in_b)};
  std::vector<HostTensor> left;
  for (const HostTensor& input : inputs) {
    const int64_t width = input.type.shape[1];
    std::vector<double> values;
    for (int64_t i = 0; i < rows * width; ++i)
      if (!is_empty(i / width)) values.push_back(input.get(i));
    left.push_back(HostTensor::of(DType::kF32, {std::ssize(values) / width, width}, values));
  }
  for (const std::string& kernel : kernels_of(DType::kF32)) {
    const HostTensor expected = run("matmul", left, attributes, 1, kernel);
    for (int threads : {1, 2, 3})
      ASSERT_EQ(run("matmul", inputs, attributes, threads, kernel), expected) << kernel << threads;
    auto infinite = inputs;
    infinite[1].set(60 * n + 7, INFINITY);
    infinite[0].set(200 * m + 9, INFINITY);
    const HostTensor found = run("matmul", infinite, attributes, 2, kernel);
    for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(std::isnan(found.get(i)), i / n == 9 || i % n == 7) << kernel << i;
  }
}

TEST(Matmul, NothingToSumIsZero) {
  const std::vector<HostTensor> inputs{HostTensor(TensorType{DType::kF32, {3, 0}}),
                                       HostTensor(TensorType{DType::kF32, {0, 4}})};
  EXPECT_EQ(run("matmul", inputs, {}, 2, ""), HostTensor(TensorType{DType::kF32, {3, 4}}));
}

TEST(Pack, FormatsReadBack) {
  const BlockedMatrix blocked{
      .compute = DType::kBF16, .k = 768, .n = 3072, .n_block = 64, .chunks = 4, .transposed = true};
  EXPECT_EQ(blocked.format(), "blocked bf16 768 3072 64 4 transposed");
  const auto read = BlockedMatrix::parse(blocked.format());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->bytes(), 768 * 3072 * 2);
  for (const std::string text :
       {"", "blocked", "blocked i32 1 1 64 1 plain", "blocked f32 0 1 64 1 plain", "blocked f32 5 1 64 2 plain",
        "blocked f32 4 1 60 2 plain", "blocked f32 4 1 64 2 plain x", "blocked f32 4 1 64 2 sideways"})
    EXPECT_FALSE(BlockedMatrix::parse(text).has_value()) << text;
}

TEST(Pack, RefusesWhatItCannotRead) {
  const std::vector<HostTensor> weight{random_tensor(DType::kF32, {8, 8}, 1)};
  try {
    run("block", weight, {{"format", "of another"}, {"bytes", 4}, {"dtype", DType::kF32}}, 1, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("skipped blocked: unknown format"));
  }
}

}  // namespace
}  // namespace ramet::tests

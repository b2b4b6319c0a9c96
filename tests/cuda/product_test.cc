#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/cuda/product_plan.h"

// Matrix products: the card's bits are those of the class `hopper` in every form that the card takes.

namespace ramet::tests {
namespace {

/// Numbers of both signs from 2^-6 to 2^6, and some zeros.
HostTensor wide_numbers(DType dtype, Shape shape, uint64_t which) {
  HostTensor out(TensorType{dtype, std::move(shape)});
  const RandomStream random(which, RandomPurpose::kTest, 0, 11);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const auto at = static_cast<uint64_t>(i);
    const double exponent = std::floor(12 * random.uniform(3 * at)) - 6;
    const double number = (2 * random.uniform(3 * at + 1) - 1) * std::exp2(exponent);
    out.set(i, random.uniform(3 * at + 2) < 0.02 ? 0 : number);
  }
  return out;
}

struct Form {
  std::string op = "matmul";
  std::vector<int64_t> stack_a{}, stack_b{};
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  DType a = DType::kBF16, b = DType::kBF16;
  std::string out = "";  ///< "": not said
  DType bias = DType::kF32;
  bool accumulate = false, in_order = false;
  int64_t chunks = 1, chunk_blocks = 1;
};

std::string text_of(const Form& form) {
  return form.op + " " + std::to_string(form.m) + "x" + std::to_string(form.n) + "x" + std::to_string(form.k) + " " +
         std::string(name_of(form.a)) + (form.transpose_a ? " ta" : "") + (form.transpose_b ? " tb" : "") + " " +
         form.out + (form.accumulate ? " accumulate" : "") + " chunks " + std::to_string(form.chunks) + "x" +
         std::to_string(form.chunk_blocks);
}

Shape matrix(std::vector<int64_t> stack, int64_t rows, int64_t columns, bool transposed) {
  if (transposed) std::swap(rows, columns);
  stack.insert(stack.end(), {rows, columns});
  return Shape(std::move(stack));
}

Attributes attributes_of(const Form& form) {
  const bool linear = form.op == "linear";
  Attributes attributes;
  if (form.transpose_a) attributes.set("transpose_a", true);
  if (form.transpose_b) attributes.set(linear ? "transpose_weight" : "transpose_b", true);
  if (form.accumulate) attributes.set("accumulate", true);
  if (form.in_order) attributes.set("in_order", true);
  if (!form.out.empty()) attributes.set("dtype", dtype_from_name(form.out));
  if (form.chunks > 1) attributes.set("chunks", form.chunks);
  if (form.chunk_blocks > 1) attributes.set("chunk_blocks", form.chunk_blocks);
  return attributes;
}

void check(const Form& form, HostTensor (*numbers)(DType, Shape, uint64_t) = wide_numbers) {
  SCOPED_TRACE(text_of(form));
  std::vector<HostTensor> inputs = {numbers(form.a, matrix(form.stack_a, form.m, form.k, form.transpose_a), 1),
                                    numbers(form.b, matrix(form.stack_b, form.k, form.n, form.transpose_b), 2)};
  if (form.op == "linear") inputs.push_back(numbers(form.bias, Shape{form.n}, 3));
  if (form.accumulate) {
    std::vector<int64_t> stack = form.stack_a.size() > form.stack_b.size() ? form.stack_a : form.stack_b;
    inputs.push_back(numbers(DType::kF32, matrix(stack, form.m, form.n, false), 4));
  }
  EXPECT_TRUE(expect_card_equals_host(node_of(form.op, inputs, attributes_of(form)), inputs).on_card);
}

/// The form as it is, and with transposed operands.
void check_transposes(Form form) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      form.transpose_a = a;
      form.transpose_b = b;
      check(form);
    }
}

TEST(CudaProduct, TakesAnyShapeAndTranspose) {
  check_transposes({.m = 1, .n = 1, .k = 1});
  check_transposes({.m = 33, .n = 17, .k = 19});
  check_transposes({.m = 40, .n = 24, .k = 72});     // rows of whole vectors
  check_transposes({.m = 136, .n = 130, .k = 131});  // several tiles, and edges of each
}

// Of true cards these are products by wgmma.
TEST(CudaProduct, WideTiles) {
  check_transposes({.m = 304, .n = 520, .k = 200});
  check({.stack_a = {3}, .stack_b = {3}, .m = 136, .n = 136, .k = 72, .out = "f32"});
  check({.m = 301, .n = 257, .k = 264, .transpose_b = true, .out = "f32"});
  check({.m = 301, .n = 257, .k = 264, .transpose_b = true});
  check({.op = "linear", .m = 256, .n = 264, .k = 192, .bias = DType::kBF16});
  check({.op = "linear", .m = 136, .n = 264, .k = 192, .a = DType::kF16, .b = DType::kF16, .bias = DType::kF16});
  check({.m = 136, .n = 264, .k = 192, .transpose_a = true, .accumulate = true});
  check({.op = "linear", .m = 136, .n = 264, .k = 192, .chunks = 3});
}

TEST(CudaProduct, WalksManyStagesOfK) { check({.m = 16, .n = 8, .k = 520, .out = "f32"}); }

TEST(CudaProduct, ManyTilesKeepTheirPlaces) { check({.m = 1160, .n = 260, .k = 8, .out = "f32"}); }

TEST(CudaProduct, EmptyExtents) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    check({.m = 0, .n = 5, .k = 3, .a = dtype, .b = dtype});
    check({.m = 5, .n = 0, .k = 3, .a = dtype, .b = dtype});
    check({.m = 5, .n = 3, .k = 0, .a = dtype, .b = dtype});
    check({.op = "linear", .m = 5, .n = 3, .k = 0, .a = dtype, .b = dtype});
    check({.stack_a = {0}, .stack_b = {0}, .m = 5, .n = 3, .k = 2, .a = dtype, .b = dtype});
  }
}

TEST(CudaProduct, StacksBroadcast) {
  check({.stack_a = {3}, .stack_b = {3}, .m = 9, .n = 10, .k = 24});
  check({.stack_a = {3}, .m = 9, .n = 10, .k = 24});  // all rows are one product
  check({.stack_b = {3}, .m = 9, .n = 10, .k = 24});
  check({.stack_a = {2, 1, 3}, .stack_b = {4, 1}, .m = 5, .n = 7, .k = 6});
  check({.stack_a = {2, 3}, .m = 5, .n = 7, .k = 6, .transpose_a = true});
  check({.stack_a = {2, 1}, .stack_b = {1, 3}, .m = 5, .n = 7, .k = 6, .a = DType::kF32, .b = DType::kF32});
}

TEST(CudaProduct, BiasAndTypesOfResults) {
  for (const std::string out : {"f32", "bf16", "f16"})
    for (const DType bias : {DType::kF32, DType::kBF16, DType::kF16})
      check({.op = "linear", .m = 21, .n = 34, .k = 32, .out = out, .bias = bias});
  check({.op = "linear", .m = 21, .n = 35, .k = 32, .transpose_b = true});
}

TEST(CudaProduct, Accumulates) {
  for (const DType dtype : {DType::kBF16, DType::kF32})
    for (const int64_t n : {34, 35})
      check({.stack_a = {2}, .stack_b = {2}, .m = 21, .n = n, .k = 32, .a = dtype, .b = dtype, .accumulate = true});
}

TEST(CudaProduct, PartsOfKAreSummedAlongTheTree) {
  for (const int64_t chunks : {2, 3, 5, 6, 7, 8})
    check({.op = "linear", .m = 9, .n = 11, .k = 24 * chunks, .chunks = chunks});
  check({.m = 9, .n = 12, .k = 5 * 3 * 4, .out = "f32", .chunks = 3, .chunk_blocks = 4});
  check({.m = 9, .n = 12, .k = 8 * 3 * 2, .transpose_b = true, .accumulate = true, .chunks = 3, .chunk_blocks = 2});
  check({.stack_a = {2},
         .stack_b = {2},
         .m = 9,
         .n = 8,
         .k = 8 * 3 * 2,
         .transpose_a = true,
         .chunks = 3,
         .chunk_blocks = 2});
  check({.m = 9, .n = 11, .k = 7 * 5, .a = DType::kF32, .b = DType::kF32, .chunks = 5});
}

TEST(CudaProduct, F16) {
  check({.m = 20, .n = 24, .k = 40, .a = DType::kF16, .b = DType::kF16});
  check({.m = 21, .n = 23, .k = 37, .a = DType::kF16, .b = DType::kF16, .out = "f32"});
}

TEST(CudaProduct, EightBitFloatsAreBf16) {
  check({.m = 20, .n = 24, .k = 40, .a = DType::kF8E4M3, .b = DType::kF8E4M3, .out = "bf16"});
  check({.m = 21, .n = 23, .k = 37, .a = DType::kF8E5M2, .b = DType::kF8E4M3, .out = "f32"});
  check({.m = 16, .n = 16, .k = 48, .a = DType::kF8E5M2, .b = DType::kF8E4M3, .out = "f32"}, random_bits);
}

TEST(CudaProduct, F32IsAChain) {
  check_transposes({.m = 33, .n = 17, .k = 19, .a = DType::kF32, .b = DType::kF32});
  check({.m = 140, .n = 150, .k = 33, .a = DType::kF32, .b = DType::kF32});
  check({.op = "linear", .m = 7, .n = 9, .k = 16, .a = DType::kF32, .b = DType::kF32, .out = "bf16"});
}

TEST(CudaProduct, SumsInOrderOfNarrowTypes) {
  check({.m = 19, .n = 21, .k = 35, .out = "f32", .in_order = true});
  check({.m = 19, .n = 21, .k = 35, .a = DType::kF16, .b = DType::kF16, .in_order = true});
}

TEST(CudaProduct, AnyBits) {
  for (const int64_t k : {3, 16, 32}) {
    check({.m = 32, .n = 32, .k = k, .out = "f32"}, random_bits);
    check({.op = "linear", .m = 32, .n = 32, .k = k}, random_bits);
    check({.m = 32, .n = 32, .k = k, .a = DType::kF16, .b = DType::kF16}, random_bits);
    check({.m = 32, .n = 32, .k = k, .a = DType::kF32, .b = DType::kF32}, random_bits);
  }
}

TEST(CudaProduct, PlansFitTheCard) {
  for (const int64_t m : {1, 300, 16384})
    for (const int64_t n : {8, 1024, 1600, 50304})
      for (const int64_t k : {1, 1024, 16384}) {
        const kernel::cuda::ProductPlan plan = kernel::cuda::plan_product(m, n, k, 1);
        SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
        EXPECT_EQ(plan.columns % 8, 0);
        EXPECT_LE(plan.columns, 256);
        EXPECT_GT(plan.stages, plan.head_start);
        EXPECT_LE(plan.shared_bytes, 232448);
        EXPECT_GT(plan.blocks, 0);
        EXPECT_EQ(plan.blocks % plan.cluster(), 0);
        EXPECT_LE(plan.blocks, 132);
      }
}

TEST(CudaProduct, OneInstructionIsPrintedForAWidth) {
  EXPECT_EQ(
      kernel::cuda::multiply_tile_text(8, false, true, DType::kF16),
      "__device__ __forceinline__ void multiply_tile(float (&d)[4], unsigned long long a, unsigned long long b) {\n"
      "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;\" : "
      "\"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"l\"(a), \"l\"(b));\n}\n");
}

TEST(CudaProduct, NothingBehindTheLastOfKIsAdded) {
  // A chain that underflows ends in -0, which one more link of zeros would turn into +0.
  const HostTensor a = HostTensor::of(DType::kF32, Shape{1, 1}, {1e-30}),
                   b = HostTensor::of(DType::kF32, Shape{1, 1}, {-1e-30});
  expect_card_equals_host(node_of("matmul", {a, b}, {}), {a, b}, {.bits = Bits::kAll});
}

}  // namespace
}  // namespace ramet::tests

#include <gtest/gtest.h>

#include "cuda/row_data.h"

// Norms and softmax on the card, bit for bit as the class `hopper` on the host.

namespace ramet::tests {
namespace {

const Attributes kEpsilon{{"epsilon", 1e-3}};

void check_norms(DType dtype, Shape shape, DType gain_type, DType bias_type, bool specials) {
  const int64_t width = shape.dim(-1);
  const HostTensor a = row_numbers(dtype, shape, 1, specials);
  const HostTensor gain = row_numbers(gain_type, {width}, 2), bias = row_numbers(bias_type, {width}, 3);
  check_on_card("layer_norm", {a, gain, bias}, kEpsilon);
  check_on_card("rms_norm", {a, gain}, kEpsilon);
}

void check_gradients(DType dtype, Shape shape, DType gain_type, const Attributes& attributes, bool specials = false) {
  const int64_t width = shape.dim(-1);
  std::vector<int64_t> dims = shape.dims();
  dims.pop_back();
  const HostTensor dy = row_numbers(dtype, shape, 1, specials), a = row_numbers(dtype, shape, 2, specials);
  const HostTensor gain = row_numbers(gain_type, {width}, 3);
  const HostTensor mean = row_numbers(DType::kF32, Shape(dims), 4), rstd = row_numbers(DType::kF32, Shape(dims), 5);
  check_on_card("layer_norm_grad", {dy, a, gain, mean, rstd}, attributes);
  check_on_card("rms_norm_grad", {dy, a, gain, rstd}, attributes);
}

TEST(CudaRows, NormsOfAnyWidth) {
  for (const DType dtype : kRowTypes)
    for (const int64_t width : {1, 2, 3, 31, 63, 64, 65, 127, 130, 512, 577, 1100}) {
      check_norms(dtype, {3, width}, DType::kF32, DType::kF32, false);
      check_norms(dtype, {2, 3, width}, dtype, DType::kF32, true);
    }
  check_norms(DType::kBF16, {70}, DType::kBF16, DType::kF16, false);
  check_norms(DType::kBF16, {0, 70}, DType::kF32, DType::kF32, false);
  check_norms(DType::kF32, {600, 6}, DType::kF32, DType::kF32, true);
}

/// Rows that stay in registers.
TEST(CudaRows, NormsOfManyRows) {
  check_norms(DType::kBF16, {66, 1024}, DType::kF32, DType::kF32, true);
  check_norms(DType::kF32, {300, 256}, DType::kF32, DType::kBF16, true);
  check_norms(DType::kF16, {660, 100}, DType::kF16, DType::kF32, true);
  check_norms(DType::kBF16, {700, 99}, DType::kBF16, DType::kBF16, true);
}

TEST(CudaRows, SoftmaxOfAnyWidth) {
  for (const DType dtype : kRowTypes)
    for (const char* op : {"softmax", "log_softmax"}) {
      const auto check = [&](Shape shape, bool specials) {
        check_on_card(op, {row_numbers(dtype, std::move(shape), 1, specials)}, {{"axis", int64_t{-1}}});
      };
      for (const int64_t width : {1, 2, 5, 33, 64, 66, 191, 600}) {
        check({4, width}, false);
        check({2, 5, width}, true);
      }
      check({0, 3}, false);
      check({70, 960}, false);
      check({240, 301}, true);
    }
}

TEST(CudaRows, GradientsOfNorms) {
  for (const DType dtype : kRowTypes) {
    for (const int64_t width : {1, 2, 37, 64, 66, 515, 1030}) {
      check_gradients(dtype, {3, width}, DType::kF32, {});
      check_gradients(dtype, {2, 35, width}, dtype, {});
    }
    for (const int64_t rows : {0, 1, 63, 64, 65, 129, 64 * 7 + 1, 64 * 19})
      check_gradients(dtype, {rows, 6}, dtype, {});
    check_gradients(dtype, {4, 40, 12}, DType::kF32, {}, true);
    check_gradients(dtype, {12}, DType::kF32, {});
    check_gradients(dtype, {3, 0, 12}, DType::kF32, {});
  }
}

TEST(CudaRows, GradientsOfNormsInChunksAndInOrder) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const int64_t width : {10, 33}) {
      for (const int64_t chunks : {2, 3, 8}) check_gradients(dtype, {3, 96, width}, dtype, {{"chunks", chunks}});
      check_gradients(dtype, {2, 77, width}, DType::kF32, {{"in_order", true}});
      check_gradients(dtype, {0, 77, width}, DType::kF32, {{"in_order", true}});
    }
}

/// Sums of columns that stay in registers.
TEST(CudaRows, GradientsOfNormsOfManyRows) {
  check_gradients(DType::kBF16, {67, 1024}, DType::kF32, {}, true);
  check_gradients(DType::kF32, {300, 256}, DType::kF32, {});
  check_gradients(DType::kF16, {660, 101}, DType::kF16, {}, true);
  check_gradients(DType::kBF16, {2, 96, 514}, DType::kBF16, {{"chunks", int64_t{4}}});
  check_gradients(DType::kBF16, {2, 150, 1600}, DType::kF32, {});  // by way of shared memory
  check_gradients(DType::kF32, {130, 512}, DType::kF32, {{"in_order", true}});
  check_gradients(DType::kBF16, {192, 514}, DType::kBF16, {{"in_order", true}});
}

}  // namespace
}  // namespace ramet::tests

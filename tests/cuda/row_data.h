#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"

// Operands for tests of the card's kernels over rows.

namespace ramet::tests {

/// Numbers in [-4, 4); with `specials` some are infinite, NaN, zeros of both signs, subnormal or large.
inline HostTensor row_numbers(DType dtype, Shape shape, uint64_t which, bool specials = false) {
  HostTensor tensor = random_tensor(dtype, std::move(shape), which);
  const double strange[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e-40, -3e-6, 6e4, -88.5, -INFINITY};
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.set(i, 4 * tensor.get(i));
    if (specials && (i * 7 + static_cast<int64_t>(which)) % 61 == 0)
      tensor.set(i, strange[static_cast<size_t>(i / 61 % 10)]);
  }
  return tensor;
}

inline HostTensor row_labels(int64_t rows, int64_t classes, uint64_t which) {
  HostTensor labels = random_tensor(DType::kI32, {rows}, which);
  const HostTensor drawn = random_tensor(DType::kF32, {rows}, which);
  for (int64_t i = 0; i < rows; ++i)
    labels.set(i, i % 5 == 4 ? -1.0 : std::floor((drawn.get(i) + 1) / 2 * static_cast<double>(classes)));
  return labels;
}

inline void check_on_card(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes) {
  expect_card_equals_host(node_of(op, inputs, attributes), inputs);
}

constexpr DType kRowTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace ramet::tests

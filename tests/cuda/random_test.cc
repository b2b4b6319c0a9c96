// Random numbers and rotations on the card: the bits of the class on the host.

#include <gtest/gtest.h>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "support/cut.h"

namespace ramet::tests {
namespace {

TEST(CudaRandom, InitialValues) {
  for (const char* kind : {"uniform", "normal", "truncated_normal"})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Attributes attributes{{"kind", std::string(kind)},
                                  {"dtype", dtype},
                                  {"shape", std::vector<int64_t>{3, 2001}},
                                  {"a", 0.1},
                                  {"b", 1.5},
                                  {"seed", int64_t{42}},
                                  {"tensor", int64_t{-123456789012345}}};
      expect_card_equals_host(node_of("random", {}, attributes), {});
    }
}

Attributes drawing(const char* kind, DType dtype, const std::vector<int64_t>& shape) {
  return {{"kind", std::string(kind)}, {"dtype", dtype},       {"shape", shape}, {"a", -3.0}, {"b", 4.0},
          {"seed", int64_t{7}},        {"tensor", int64_t{99}}};
}

TEST(CudaRandom, DrawsOfAMicroBatch) {
  const std::vector<HostTensor> counter{HostTensor::of(DType::kI64, {2}, {3, 4})};
  for (const auto& [kind, dtype] : {std::pair{"uniform", DType::kF32},
                                    {"uniform", DType::kBF16},
                                    {"normal", DType::kF32},
                                    {"normal", DType::kF16},
                                    {"integer", DType::kI32},
                                    {"integer", DType::kI64}})
    for (const auto& shape : {std::vector<int64_t>{1003}, {4, 30}, {0}})
      expect_card_equals_host(node_of("draw", counter, drawing(kind, dtype, shape)), counter);
}

TEST(CudaRandom, DrawsOfParts) {
  const std::vector<HostTensor> counter{HostTensor::of(DType::kI64, {2}, {3, 4})};
  for (const int64_t k : {0, 1, 2}) {
    const Attributes attributes = drawing("normal", DType::kF32, {6, 7, 10});
    expect_card_equals_host(node_of("draw", counter, placed(attributes, {{0, 3, 1}, {2, 3, 2}}, {k, 2 - k})), counter);
  }
}

TEST(CudaRotary, BothPairings) {
  struct Case {
    Shape a;
    int64_t pairs;
    bool of_samples;
  };
  for (const Case& one : {Case{{2, 5, 3, 64}, 32, false},
                          {{2, 5, 3, 64}, 16, true},
                          {{2, 3, 2, 24}, 12, false},
                          {{1, 4, 2, 10}, 3, true},
                          {{2, 3, 1, 80}, 40, false},
                          {{0, 3, 1, 8}, 4, false}})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
      for (const bool neighbours : {false, true})
        for (const bool back : {false, true}) {
          const Shape angles = one.of_samples ? Shape{one.a[0], one.a[1], one.pairs} : Shape{one.a[1], one.pairs};
          const std::vector<HostTensor> inputs{random_bits(dtype, one.a, 1), random_bits(DType::kF32, angles, 2),
                                               random_bits(DType::kF32, angles, 3)};
          expect_card_equals_host(node_of("rotary", inputs, {{"neighbours", neighbours}, {"back", back}}), inputs);
        }
}

}  // namespace
}  // namespace ramet::tests

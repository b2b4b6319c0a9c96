#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/hopper/hopper.h"
#include "ramet/kernel/hopper/product.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;
using Sixteen = std::array<uint16_t, kHopperStep>;

struct Step {
  const char* what;
  HopperType type;
  Sixteen a, b;
  uint32_t c, result;
};

// Operands, and what `nv_fused_dot_add` of microsoft/MMA-Sim (commit c7851383) gives for them with 25 fractional bits.
// clang-format off
const Step kRecorded[] = {
    {"ordinary numbers", HopperType::kBf16,
     {0xbf4d, 0xbfaa, 0xbe7e, 0x3ed7, 0x3f91, 0x3de1, 0xbf0d, 0xbf49, 0x3f40, 0x3fd1, 0x3e8c, 0xbf9e, 0xbf75, 0x3fcd, 0x3e50, 0xbfde},
     {0xbdab, 0xbf95, 0xbf21, 0xbefa, 0xbf37, 0x3f0e, 0xbd81, 0xbf17, 0x3ed2, 0x3f54, 0xbfd2, 0xbe83, 0xbf7b, 0xbe31, 0xbfa5, 0x3ca9},
     0xbd1b2e14, 0x404a9cbf},
    {"numbers of one sign", HopperType::kBf16,
     {0x3e9c, 0x3f86, 0x3ecb, 0x3f8c, 0x3fad, 0x3e66, 0x3f8e, 0x3f96, 0x3f37, 0x4000, 0x3e8b, 0x3f8d, 0x3d07, 0x3d33, 0x3fff, 0x3e6f},
     {0x3e83, 0x3f76, 0x3f97, 0x3f3d, 0x3f8d, 0x3eaa, 0x3f57, 0x3fb9, 0x3f11, 0x401c, 0x3f24, 0x3f58, 0x3f57, 0x3f1b, 0x3d8f, 0x3fad},
     0x40400000, 0x41838503},
    {"any bits", HopperType::kBf16,
     {0x298a, 0xb135, 0xd738, 0xa2a8, 0xeef9, 0x6063, 0x5468, 0xcc6c, 0x0a84, 0x31ab, 0x3161, 0x63f5, 0x282a, 0xcc45, 0xd8b7, 0x6166},
     {0x0782, 0xb698, 0x1b95, 0x9ccd, 0x2bcb, 0xf0e5, 0xad73, 0xfdde, 0x9def, 0xb942, 0x6040, 0xcf10, 0x1cea, 0x2722, 0x5c3a, 0xb67f},
     0x3a83126f, 0xff800000},
    {"any bits, less than the accumulator", HopperType::kBf16,
     {0x7c49, 0xd8fd, 0xf105, 0x66b6, 0x6c88, 0x8da1, 0xa53d, 0x7abf, 0x9a24, 0xf561, 0xbbe7, 0x5139, 0x6ce2, 0x66ef, 0x267f, 0x003c},
     {0xb9e9, 0xb863, 0x3aaf, 0xba08, 0xbaa5, 0xbaf1, 0xb957, 0xb9b9, 0x398b, 0xb9f3, 0xb9fb, 0xba3d, 0xba08, 0x3928, 0xb9c7, 0x38d3},
     0xc8742400, 0xf6c82e8f},
    {"cancellation", HopperType::kBf16,
     {0x3f80, 0xbf80, 0x3f80, 0xbf80, 0x3f80, 0xbf80, 0x3f80, 0xbf80, 0x3f80, 0xbf80, 0x3f80, 0xbf80, 0x3f80, 0xbf80, 0x3f80, 0xbf80},
     {0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f80},
     0x35800000, 0x3c000400},
    {"subnormal factors", HopperType::kBf16,
     {0x0015, 0x0005, 0x8011, 0x0013, 0x0004, 0x800a, 0x000a, 0x0000, 0x8007, 0x8007, 0x800b, 0x0001, 0x000c, 0x8004, 0x0005, 0x0014},
     {0xbf9b, 0x3e84, 0xbe9d, 0xbf88, 0xbf83, 0xbc7a, 0x3ede, 0xbf08, 0x3d5f, 0x3f39, 0x3e98, 0x3f5e, 0x3eec, 0x3efa, 0x3fea, 0x3f20},
     0x00001be0, 0x80153b20},
    {"zeros beside large factors", HopperType::kBf16,
     {0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x3a80},
     {0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x3d00},
     0x33800000, 0x38004000},
    {"overflow", HopperType::kBf16,
     {0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96, 0x7e96},
     {0x4100, 0x4100, 0x4100, 0x4100, 0x4100, 0x4100, 0x4100, 0x4100, 0x4080, 0x4080, 0x4080, 0x4080, 0x4080, 0x4080, 0x4080, 0x4080},
     0x3f800000, 0x7f800000},
    {"a result below zero that vanishes", HopperType::kBf16,
     {0x9c80, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000},
     {0x1780, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000},
     0x00000000, 0x00000000},
    {"ordinary numbers", HopperType::kF16,
     {0x3025, 0x39ae, 0xbb5a, 0xb567, 0x3a59, 0x390c, 0x3e32, 0x215d, 0xbdd9, 0x3fca, 0x3c5f, 0xbc3c, 0x3d81, 0x2826, 0xbf41, 0xb6ba},
     {0xb812, 0x3e5d, 0xba56, 0xb40f, 0xb46e, 0xb610, 0xbb50, 0x3303, 0x3c4f, 0x38fe, 0xbb6c, 0xbc99, 0x2f9d, 0xb9a7, 0xb90b, 0xbeb8},
     0x3ff9a9b5, 0x40727c1e},
    {"numbers of one sign", HopperType::kF16,
     {0x3b55, 0x3bcb, 0x3b44, 0x3d5f, 0x40c7, 0x3864, 0x3635, 0x3930, 0x2fc6, 0x3360, 0x2b79, 0x3f6a, 0x4052, 0x3833, 0x3b69, 0x4163},
     {0x3bd7, 0x3896, 0x28af, 0x37bb, 0x3c1e, 0x3641, 0x3afb, 0x380d, 0x33ff, 0x3f82, 0x23ae, 0x3d59, 0x3c2e, 0x3dcd, 0x3852, 0x4035},
     0x40400000, 0x41a4d60c},
    {"any bits", HopperType::kF16,
     {0x8eba, 0x2d03, 0xb211, 0x0000, 0x90da, 0x0f78, 0x0574, 0x36f3, 0xb87d, 0x6aeb, 0x6bdb, 0x9a00, 0x11b8, 0xfb24, 0x0000, 0xe3f6},
     {0xc140, 0x3e04, 0x4dcb, 0x9c8e, 0xd76e, 0xebea, 0x0000, 0x1a02, 0x0000, 0xdaa2, 0xb6d7, 0x6564, 0x22f1, 0xc81c, 0x34e0, 0x5295},
     0x3a83126f, 0xc89f6175},
    {"any bits, less than the accumulator", HopperType::kF16,
     {0xddfd, 0xa02f, 0x4c65, 0x81cb, 0x9cd8, 0x1abb, 0x4606, 0xc282, 0xa0a9, 0xd2ac, 0xbc28, 0x7ba4, 0x4c69, 0x6354, 0x3399, 0xf28e},
     {0x9875, 0x0639, 0x1306, 0x98e9, 0x94bf, 0x1453, 0x8c36, 0x9480, 0x8e1f, 0x9072, 0x11ef, 0x0f70, 0x8c97, 0x9173, 0x8388, 0x156e},
     0xc8742400, 0xc8742148},
    {"cancellation", HopperType::kF16,
     {0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00, 0x3c00, 0xbc00},
     {0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c08, 0x3c00},
     0x35800000, 0x3c000400},
    {"subnormal factors", HopperType::kF16,
     {0x000c, 0x0015, 0x8005, 0x802b, 0x8018, 0x0016, 0x0003, 0x801e, 0x8036, 0x0004, 0x800b, 0x800c, 0x800b, 0x000a, 0x000a, 0x0020},
     {0x3b6d, 0x3d54, 0x3a73, 0xb55f, 0xaaf2, 0x37e8, 0xb4f7, 0x3865, 0x3c9d, 0xba69, 0xbf15, 0x3cc6, 0x248c, 0x39ab, 0xbd54, 0x3eef},
     0x2b8cbccc, 0x3603f2f0},
    {"zeros beside large factors", HopperType::kF16,
     {0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x1400},
     {0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x2800},
     0x33800000, 0x38004000},
    {"the largest numbers", HopperType::kF16,
     {0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53},
     {0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53, 0x7b53},
     0x3f800000, 0x515693a4},
    {"a result below zero that vanishes", HopperType::kF16,
     {0x8400, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000},
     {0x0400, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000},
     0x44800000, 0x44800000},

};
// clang-format on

TEST(Hopper, StepsHaveTheRecordedBits) {
  for (const Step& step : kRecorded)
    EXPECT_EQ(
        std::bit_cast<uint32_t>(hopper_step(step.type, step.a.data(), step.b.data(), std::bit_cast<float>(step.c))),
        step.result)
        << step.what;
}

TEST(Hopper, VectorsHaveTheRecordedBits) {
  if (cpu_level() < CpuLevel::kAvx512) GTEST_SKIP() << "no AVX-512 here";
  constexpr int64_t kUnits = kHopperStep / 2;
  for (const Step& step : kRecorded) {
    std::array<uint32_t, kUnits> a{};
    std::array<uint32_t, kUnits * kPanel> b{};
    std::array<float, 16> c{};
    c.fill(std::bit_cast<float>(step.c));
    for (size_t k = 0; k < kUnits; ++k) {
      a[k] = step.a[2 * k] | static_cast<uint32_t>(step.a[2 * k + 1]) << 16;
      std::fill_n(b.begin() + static_cast<int64_t>(k) * kPanel, 16,
                  step.b[2 * k] | static_cast<uint32_t>(step.b[2 * k + 1]) << 16);
    }
    hopper_product_avx512(step.type, {.m = 1,
                                      .n = 16,
                                      .k = kUnits,
                                      .a = a.data(),
                                      .a_stride = kUnits,
                                      .b = b.data(),
                                      .panel_stride = 0,
                                      .c = c.data(),
                                      .c_stride = 16,
                                      .add = true});
    for (const float result : c) EXPECT_EQ(std::bit_cast<uint32_t>(result), step.result) << step.what;
  }
}

/// The steps without integers: each factor by its fraction and exponent, in doubles, which hold every term.
float stated_again(HopperType type, const uint16_t* a, const uint16_t* b, float c) {
  const auto value = [&](uint16_t bits) {
    if (type == HopperType::kBf16) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    const int field = bits >> 10 & 31;
    const double magnitude = std::ldexp(field ? 1024 + (bits & 1023) : bits & 1023, (field ? field : 1) - 25);
    return bits >> 15 ? -magnitude : magnitude;
  };
  const auto exponent = [&](double x, int least) { return x == 0 ? -126 : std::max(std::ilogb(x), least); };
  const int least = type == HopperType::kBf16 ? -126 : -14;
  int most = exponent(c, -126);
  for (int k = 0; k < kHopperStep; ++k)
    most = std::max(most, exponent(value(a[k]), least) + exponent(value(b[k]), least));
  double sum = std::trunc(std::ldexp(static_cast<double>(c), 25 - most));
  for (int k = 0; k < kHopperStep; ++k) sum += std::trunc(std::ldexp(value(a[k]) * value(b[k]), 25 - most));
  if (sum == 0) return 0;
  const int leading = std::ilogb(sum) + most - 25, unit = std::max(leading, -126) - 23;
  if (leading > 127) return static_cast<float>(std::copysign(HUGE_VAL, sum));
  return static_cast<float>(std::ldexp(std::trunc(std::ldexp(sum, most - 25 - unit)) + 0.0, unit));
}

/// Finite bits whose exponents lie `spread` around that of 1.
uint16_t draw_bits(HopperType type, uint32_t random, uint32_t spread) {
  const int digits = type == HopperType::kBf16 ? 7 : 10, fields = type == HopperType::kBf16 ? 255 : 31;
  const uint32_t field = static_cast<uint32_t>(fields / 2) - spread / 2 + (random >> 16) % (spread + 1);
  return static_cast<uint16_t>((random & 0x8000) | field << digits | (random & ((1u << digits) - 1)));
}

struct Draw {
  uint64_t state;
  explicit Draw(uint64_t seed) : state(seed) {}
  uint32_t operator()() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  }
};

TEST(Hopper, StepsAreTheStatedArithmetic) {
  Draw draw(3);
  for (const HopperType type : {HopperType::kBf16, HopperType::kF16})
    for (int round = 0; round < 20'000; ++round) {
      const uint32_t widest = type == HopperType::kBf16 ? 253 : 30;
      const uint32_t spread = std::min<uint32_t>(round % 40 * 7, widest);
      Sixteen a{}, b{};
      for (uint16_t& bits : a) bits = draw_bits(type, draw(), spread);
      for (uint16_t& bits : b) bits = draw_bits(type, draw(), spread);
      if (round % 7 == 0) a[draw() % 16] = 0, b[draw() % 16] = 0x8000;
      const uint32_t c_field = 127 - std::min(spread, 100u) / 2 + draw() % (std::min(spread, 100u) + 1);
      const float c = std::bit_cast<float>((draw() & 0x807fffff) | c_field << 23);
      const float found = hopper_step(type, a.data(), b.data(), c), wanted = stated_again(type, a.data(), b.data(), c);
      ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(wanted)) << "round " << round;
      std::reverse(a.begin(), a.end()), std::reverse(b.begin(), b.end());
      ASSERT_EQ(std::bit_cast<uint32_t>(hopper_step(type, a.data(), b.data(), c)), std::bit_cast<uint32_t>(found));
    }
}

TEST(Hopper, VectorsHaveTheBitsOfThePlainForm) {
  if (cpu_level() < CpuLevel::kAvx512) GTEST_SKIP() << "no AVX-512 here";
  Draw draw(5);
  for (const HopperType type : {HopperType::kBf16, HopperType::kF16})
    for (int round = 0; round < 300; ++round) {
      const int64_t m = 1 + draw() % 40, n = 16 * (1 + draw() % 8), k = 1 + draw() % 20, panel = k * kPanel;
      const uint32_t spread = round % 3 == 0 ? 6 : type == HopperType::kBf16 ? 253 : 30;
      std::vector<uint32_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(2 * panel));
      const auto pair = [&] {
        const uint32_t low = draw_bits(type, draw(), spread), high = draw_bits(type, draw(), spread);
        return low | high << 16;
      };
      for (uint32_t& unit : a) unit = pair();
      for (uint32_t& unit : b) unit = pair();
      if (round % 5 == 1)  // infinite numbers, NaN, subnormal numbers and zeros
        for (const uint32_t bits : {0x7f80u, 0xff80u, 0x7fc1u, 0x7c00u, 0xfc00u, 0x7e01u, 0x0001u, 0x8000u})
          a[draw() % a.size()] = bits, b[draw() % b.size()] = bits << 16;
      std::vector<float> c(static_cast<size_t>(m * 128)), wanted;
      for (float& value : c) value = std::bit_cast<float>((draw() & 0x807fffff) | (100 + draw() % 60) << 23);
      if (round % 5 == 2) c[draw() % c.size()] = HUGE_VALF, c[draw() % c.size()] = std::nanf("");
      wanted = c;
      TileProduct product{.m = m,
                          .n = n,
                          .k = k,
                          .a = a.data(),
                          .a_stride = k,
                          .b = b.data(),
                          .panel_stride = panel,
                          .c = c.data(),
                          .c_stride = 128,
                          .add = round % 2 == 0};
      hopper_product_avx512(type, product);
      product.c = wanted.data();
      hopper_product_plain(type, product);
      ASSERT_EQ(std::memcmp(c.data(), wanted.data(), c.size() * sizeof(float)), 0) << "round " << round;
    }
}

/// Whole products of the backend: transposed operands, chunks, odd sizes.
TEST(Hopper, ProductsAreChainsOfSteps) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const int64_t chunks : {1, 3}) {
      const int64_t m = 21, n = 37, k = 90;
      const std::vector<HostTensor> inputs{random_tensor(dtype, {k, m}, 1), random_tensor(dtype, {n, k}, 2)};
      const HostTensor found = interpret_node(
          node_of("matmul", inputs,
                  {{"dtype", DType::kF32}, {"transpose_a", true}, {"transpose_b", true}, {"chunks", chunks}}),
          hopper_backend(), inputs, 2)[0];
      const auto* a = reinterpret_cast<const uint16_t*>(inputs[0].data.data());
      const auto* b = reinterpret_cast<const uint16_t*>(inputs[1].data.data());
      const HopperType type = dtype == DType::kF16 ? HopperType::kF16 : HopperType::kBf16;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float sums[3] = {};
          for (int64_t chunk = 0; chunk < chunks; ++chunk)
            for (int64_t first = 0; first < k / chunks; first += kHopperStep) {
              Sixteen x{}, y{};
              for (int64_t p = first; p < std::min(first + kHopperStep, k / chunks); ++p) {
                const int64_t at = chunk * (k / chunks) + p;
                x[static_cast<size_t>(p - first)] = a[at * m + i];
                y[static_cast<size_t>(p - first)] = b[j * k + at];
              }
              sums[chunk] = hopper_step(type, x.data(), y.data(), sums[chunk]);
            }
          const float wanted =
              chunks == 1 ? sums[0]
                          : tree_combine<float>(
                                0, 3, [&](int64_t c) { return sums[c]; }, [](float p, float q) { return p + q; });
          ASSERT_EQ(static_cast<float>(found.get(i * n + j)), wanted) << name_of(dtype) << ' ' << i << ' ' << j;
        }
    }
}

TEST(Hopper, RefusesWhatTheClassDoesNotHold) {
  const std::vector<HostTensor> f64{random_tensor(DType::kF64, {4, 4}, 1), random_tensor(DType::kF64, {4, 4}, 2)};
  try {
    hopper_backend().choose(node_of("matmul", f64, {{"dtype", DType::kF64}}), 1);
    FAIL() << "a product of f64";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no kernel for the node in hopper"));
    EXPECT_THAT(error.what(), HasSubstr("this class has kernels of its own for floating types"));
  }
  EXPECT_TRUE(hopper_backend().entries("convolution").empty());
  EXPECT_TRUE(hopper_backend().entries("lstm").empty());
  EXPECT_FALSE(hopper_backend().entries("layer_norm").empty());
}

}  // namespace
}  // namespace ramet::tests

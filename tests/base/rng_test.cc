#include "ramet/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace ramet::tests {
namespace {

// Known answers published with Random123 (Salmon et al.), file kat_vectors, philox4x32 10.
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DrawsDifferByPurposeStepAndTensor) {
  const RandomStream a(1, RandomPurpose::kInit, 0, 0), b(1, RandomPurpose::kDropout, 0, 0),
      c(1, RandomPurpose::kInit, 1, 0), d(1, RandomPurpose::kInit, 0, 1);
  EXPECT_NE(a.bits(0), b.bits(0));
  EXPECT_NE(a.bits(0), c.bits(0));
  EXPECT_NE(a.bits(0), d.bits(0));
}

TEST(RandomStream, AllSixtyFourBitsOfATensorsIdCount) {
  const RandomStream a(1, RandomPurpose::kInit, 0, 0x0000000100000002ull),
      b(1, RandomPurpose::kInit, 0, 0x0000000200000001ull), c(1, RandomPurpose::kInit, 0, 0x0000000300000000ull),
      d(1, RandomPurpose::kInit, 0, 0x0000000000000003ull);
  const std::set<uint32_t> draws = {a.bits(0), b.bits(0), c.bits(0), d.bits(0)};
  EXPECT_EQ(draws.size(), 4u);
}

// The numbers are part of the promise that a recipe gives the same bits for ever; these were
// computed apart, by a few lines of Python with whole numbers of any length.
TEST(RandomStream, KeepsItsNumbers) {
  const RandomStream stream(42, RandomPurpose::kDropout, 7, 0x123456789abcdef0ull);
  EXPECT_EQ(stream.key(), (std::array<uint32_t, 2>{0x4c84c9c1, 0x5384d6c1}));
  EXPECT_EQ(stream.block(0), (std::array<uint32_t, 4>{0xaefd6602, 0xc52b4282, 0x776d44ba, 0xb9334a65}));
  EXPECT_EQ(stream.block(0x500000001ull), (std::array<uint32_t, 4>{0x58d5947c, 0xea0b6fb1, 0x39a1713b, 0xa1c85ab4}));
}

TEST(RandomStream, EveryFormReadsTheSameWords) {
  const RandomStream stream(9, RandomPurpose::kTest, 3, 77);
  for (uint64_t element = 0; element < 64; ++element) {
    const auto four = stream.block(element / 4), eight = stream.block(element / 8);
    EXPECT_EQ(stream.bits(element), four[element % 4]);
    const uint32_t word = eight[element % 8 / 2];
    EXPECT_EQ(stream.bits16(element), element % 2 ? word >> 16 : word & 0xffff);
    EXPECT_EQ(stream.uniform(element), static_cast<float>(four[element % 4] >> 8) / 16777216.0f);
    EXPECT_EQ(stream.normal(element), stream.normal_block(element / 4)[element % 4]);
  }
}

TEST(RandomStream, UniformAndBelowStayInRangeAndFillIt) {
  const RandomStream stream(5, RandomPurpose::kTest, 0, 1);
  std::vector<int> seen(10, 0);
  double sum = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const float uniform = stream.uniform(i);
    ASSERT_GE(uniform, 0.0f);
    ASSERT_LT(uniform, 1.0f);
    sum += uniform;
    const uint32_t draw = stream.below(i, 10);
    ASSERT_LT(draw, 10u);
    ++seen[draw];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  // Chi squared with 9 degrees of freedom: 40 has a chance below 1e-5.
  double chi = 0;
  for (const int count : seen) chi += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi, 40);
  EXPECT_EQ(stream.below(0, 1), 0u);
}

TEST(RandomStream, NormalIsBoxMullerToAnUlpOrTwo) {
  const RandomStream stream(3, RandomPurpose::kTest, 0, 2);
  for (uint64_t block = 0; block < 20000; ++block) {
    const auto words = stream.block(block);
    const auto normals = stream.normal_block(block);
    for (size_t pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2 * std::log((words[pair] + 1.0) * 0x1p-32));
      const double angle = 2 * M_PI * (words[pair + 1] * 0x1p-32);
      // The angle itself is rounded: some ulps of a full turn.
      ASSERT_NEAR(normals[pair], radius * std::cos(angle), radius * 2e-15);
      ASSERT_NEAR(normals[pair + 1], radius * std::sin(angle), radius * 2e-15);
    }
  }
}

TEST(RandomStream, NormalHasMeanZeroAndVarianceOne) {
  const RandomStream stream(3, RandomPurpose::kTest, 0, 0);
  double sum = 0, squares = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 4 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 4 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace ramet::tests

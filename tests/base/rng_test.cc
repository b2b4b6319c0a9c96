#include "ramet/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ramet {
namespace {

// Known answers published with Random123 (Salmon et al.), file kat_vectors, philox4x32 10.
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
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
}  // namespace ramet

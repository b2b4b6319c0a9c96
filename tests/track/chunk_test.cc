#include "ramet/track/chunk.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace ramet::tests {
namespace {

std::vector<MetricPoint> made_points(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<MetricPoint> points;
  int64_t step = static_cast<int64_t>(random());
  for (size_t i = 0; i < count; ++i) {
    MetricPoint point{
        .step = step, .time = 1.7e9 + 0.1 * static_cast<double>(i), .value = std::bit_cast<double>(random())};
    if (seed % 2 == 0) point.value = std::exp(-0.01 * static_cast<double>(i));
    if (i % 50 == 7) point.value = std::numeric_limits<double>::quiet_NaN();
    if (i % 50 == 9) point.value = -std::numeric_limits<double>::infinity();
    points.push_back(point);
    step += static_cast<int64_t>(random() % 1000);
  }
  return points;
}

TEST(Chunk, LosesNoBit) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto points = made_points(seed, seed * 27 % (kChunkPoints + 1));
    std::vector<MetricPoint> back;
    ASSERT_TRUE(unpack_chunk(pack_chunk(points), back));
    ASSERT_EQ(back.size(), points.size());
    for (size_t i = 0; i < points.size(); ++i) {
      ASSERT_EQ(back[i].step, points[i].step);
      ASSERT_EQ(std::bit_cast<uint64_t>(back[i].time), std::bit_cast<uint64_t>(points[i].time));
      ASSERT_EQ(std::bit_cast<uint64_t>(back[i].value), std::bit_cast<uint64_t>(points[i].value));
    }
  }
}

TEST(Chunk, DamageIsFound) {
  const std::string good = pack_chunk(made_points(4, 300));
  std::mt19937_64 random(3);
  std::vector<MetricPoint> points;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    switch (random() % 3) {
      case 0: bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8); break;
      case 1: bad.resize(random() % bad.size()); break;
      default: bad.insert(random() % bad.size(), 1, 'x');
    }
    if (unpack_chunk(bad, points)) {
      // Only where the change was none: zstd's header has bits without a meaning.
      ASSERT_EQ(points.size(), 300u);
      for (size_t p = 0; p < points.size(); ++p) ASSERT_EQ(points[p].step, made_points(4, 300)[p].step);
    }
  }
  EXPECT_FALSE(unpack_chunk("", points));
}

TEST(Chunk, SumsUp) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<MetricPoint> points = {{1, 10, inf}, {2, 11, 3}, {3, 12, -1}, {4, 13, std::nan("")}};
  const PointsSummary sum = summary_of(points);
  EXPECT_EQ(sum.points, 4);
  EXPECT_EQ(sum.not_finite, 2);
  EXPECT_EQ(sum.min, -1);
  EXPECT_EQ(sum.max, 3);
  EXPECT_EQ(sum.sum, 2);
  EXPECT_EQ(sum.first, 3);
  EXPECT_EQ(sum.last, -1);
  EXPECT_EQ(sum.first_step, 1);
  EXPECT_EQ(sum.last_time, 13);
}

}  // namespace
}  // namespace ramet::tests

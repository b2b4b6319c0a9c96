#include "ramet/device/cuda/recorded_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

// Which recorded work must be done behind which.

namespace ramet::device {
namespace {

CuGraphNode handle_of(size_t node) { return reinterpret_cast<CuGraphNode>(node + 1); }
size_t number_of(CuGraphNode handle) { return reinterpret_cast<size_t>(handle) - 1; }
ByteRange range(uint64_t begin, uint64_t end) {
  return {reinterpret_cast<const void*>(begin), static_cast<int64_t>(end - begin)};
}

bool meet(const std::vector<ByteRange>& a, const std::vector<ByteRange>& b) {
  return std::any_of(a.begin(), a.end(), [&](const ByteRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const ByteRange& y) { return x.begin < y.end && y.begin < x.end; });
  });
}
bool must_follow(const Touched& earlier, const Touched& later) {
  return earlier.everything || later.everything || meet(earlier.writes, later.reads) ||
         meet(earlier.reads, later.writes) || meet(earlier.writes, later.writes);
}

/// Notes all work, and gives the edges of each node.
std::vector<std::vector<size_t>> edges_of(const std::vector<Touched>& work) {
  RecordedOrder order;
  std::vector<std::vector<size_t>> edges;
  for (size_t i = 0; i < work.size(); ++i) {
    edges.emplace_back();
    for (CuGraphNode node : order.before(work[i])) edges.back().push_back(number_of(node));
    order.note(work[i], handle_of(i));
  }
  return edges;
}

void check(const std::vector<Touched>& work) {
  const std::vector<std::vector<size_t>> edges = edges_of(work);
  std::vector<std::set<size_t>> behind(work.size());
  for (size_t i = 0; i < work.size(); ++i) {
    for (const size_t other : edges[i]) {
      ASSERT_LT(other, i);
      EXPECT_TRUE(must_follow(work[other], work[i])) << other << " before " << i << " for nothing";
      for (const size_t third : edges[i])
        EXPECT_FALSE(behind[third].contains(other)) << i << " is behind " << other << " by " << third << " already";
      behind[i].insert(behind[other].begin(), behind[other].end());
      behind[i].insert(other);
    }
    for (size_t other = 0; other < i; ++other)
      if (must_follow(work[other], work[i])) {
        EXPECT_TRUE(behind[i].contains(other)) << other << " is not before " << i;
      }
  }
}

TEST(RecordedOrder, ReadersSideBySideAndWritersBehindThem) {
  const std::vector<std::vector<size_t>> edges = edges_of({{.writes = {range(0, 64)}},
                                                           {.reads = {range(0, 32)}, .writes = {range(100, 110)}},
                                                           {.reads = {range(32, 64)}, .writes = {range(110, 120)}},
                                                           {.reads = {range(100, 120)}, .writes = {range(0, 64)}},
                                                           {.writes = {range(500, 501)}}});
  EXPECT_EQ(edges, (std::vector<std::vector<size_t>>{{}, {0}, {0}, {2, 1}, {}}));
}

TEST(RecordedOrder, OfRandomWork) {
  std::mt19937 draw(3);
  for (int round = 0; round < 60; ++round) {
    const uint64_t places = 10 + draw() % 300;
    const auto some = [&](uint32_t most) {
      std::vector<ByteRange> ranges;
      for (uint32_t i = draw() % (most + 1); i > 0; --i) {
        const uint64_t begin = draw() % places;
        ranges.push_back(range(begin, begin + 1 + draw() % 20));
      }
      return ranges;
    };
    std::vector<Touched> work;
    for (int i = 0; i < 90; ++i) work.push_back({.reads = some(3), .writes = some(2), .everything = draw() % 40 == 0});
    check(work);
  }
}

}  // namespace
}  // namespace ramet::device

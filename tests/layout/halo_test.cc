#include "ramet/layout/halo_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "ramet/base/rng.h"
#include "ramet/ir/builder.h"
#include "ramet/layout/deal_clusters.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

/// Tables of far rows: of each cluster some rows of others, each once, ascending.
HostTensor drawn_rows(int64_t clusters, int64_t own, int64_t places, uint64_t seed) {
  const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
  HostTensor rows(TensorType{DType::kI32, Shape{clusters, places}});
  uint64_t next = 0;
  for (int64_t k = 0; k < clusters; ++k) {
    std::set<int64_t> chosen;
    for (int64_t i = 0; i < places; ++i) {
      const int64_t row = random.below(next++, static_cast<uint32_t>(clusters * own));
      if (row / own != k) chosen.insert(row);
    }
    int64_t at = k * places;
    for (const int64_t row : chosen) rows.set(at++, static_cast<double>(row));
    while (at < (k + 1) * places) rows.set(at++, -1);
  }
  return rows;
}

/// The exchange of a plan as a device's graph has it.
Graph graph_of(const HaloPlan& plan, const HostTensor& rows, int64_t own, const std::vector<int64_t>& deal,
               int64_t devices) {
  Graph graph("device");
  GraphBuilder build(graph);
  const std::vector<int64_t> cuts{0, 2, devices, 1, 1};
  const Tensor x = build.input("x", DType::kF32, Shape{std::ssize(deal) / devices, own, 3});
  const Tensor goes = build.op("halo_pack", {x}, {{"send", TensorData(plan.send)}, {"cuts", cuts}});
  const Tensor comes = build.op(
      "all_to_all", {goes}, {{"axis", int64_t{2}}, {"parts", devices}, {"split", int64_t{0}}, {"concat", int64_t{0}}});
  build.output(
      "far", build.op("halo_unpack", {x, comes},
                      {{"place", TensorData(plan.place)}, {"rows", TensorData(rows)}, {"deal", deal}, {"cuts", cuts}}));
  return graph;
}

TEST(HaloPlan, BringsEveryRowAndIsProven) {
  for (const int64_t devices : {1, 2, 4, 8})
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const HostTensor rows = drawn_rows(8, 5, 12, seed);
      std::vector<int64_t> deal(8);
      std::iota(deal.begin(), deal.end(), 0);
      for (size_t i = 0; seed > 0 && i < 8; ++i) std::swap(deal[i], deal[(i * 3 + seed) % 8]);
      const HaloPlan plan = plan_halo(rows, 5, deal, devices);
      verify_halos(graph_of(plan, rows, 5, deal, devices), "a test");
      // A row goes to a device once.
      for (int64_t message = 0; message < devices * devices; ++message) {
        std::set<double> sent;
        for (int64_t i = 0; i < plan.send.type.shape[2]; ++i)
          if (const double row = plan.send.get(message * plan.send.type.shape[2] + i); row >= 0) {
            EXPECT_TRUE(sent.insert(row).second);
          }
      }
    }
}

TEST(HaloPlan, OfAWrongTableIsRefused) {
  const std::vector<int64_t> deal{2, 0, 3, 1};
  const HostTensor rows = drawn_rows(4, 5, 6, 1);
  const HaloPlan plan = plan_halo(rows, 5, deal, 2);
  int refused = 0;
  // Every change of one number of a table that matters is found.
  for (int64_t i = 0; i < plan.send.elements(); ++i) {
    HaloPlan wrong = plan;
    if (wrong.send.get(i) < 0) continue;
    wrong.send.set(i, static_cast<double>((static_cast<int64_t>(wrong.send.get(i)) + 1) % 10));
    EXPECT_THAT(error_of([&] { verify_halos(graph_of(wrong, rows, 5, deal, 2), "a test"); }),
                HasSubstr("an exchange of rows is not valid after a test: device "));
    ++refused;
  }
  for (int64_t i = 0; i < plan.place.elements(); ++i) {
    HaloPlan wrong = plan;
    wrong.place.set(i, wrong.place.get(i) == 0 ? 1 : 0);
    EXPECT_THAT(error_of([&] { verify_halos(graph_of(wrong, rows, 5, deal, 2), "a test"); }),
                HasSubstr("should get row"));
    ++refused;
  }
  EXPECT_GT(refused, 30);
}

/// A graph that reads rows of 8 clusters by a table.
Graph reader_of(const HostTensor& rows) {
  Graph graph("micro");
  GraphBuilder build(graph);
  const Tensor x = build.input("x", DType::kF32, Shape{8, 5, 3}, std::vector<std::string>{"clusters", "", ""});
  build.output("far", build.op("halo_rows", {x}, {{"rows", TensorData(rows)}}));
  return graph;
}

TEST(DealClusters, GivesEveryClusterOnce) {
  const Graph graph = reader_of(drawn_rows(8, 5, 12, 3));
  for (const std::string deal : {"order", "near", "random:0", "random:1", "7+6+5+4+3+2+1+0"})
    for (const int g : {2, 4, 8}) {
      std::vector<int64_t> dealt = deal_clusters(graph, parse_layout("g=" + std::to_string(g) + " deal=" + deal));
      EXPECT_TRUE(deal != "order" || std::is_sorted(dealt.begin(), dealt.end()));
      EXPECT_TRUE(deal != "7+6+5+4+3+2+1+0" || dealt.front() == 7);
      std::sort(dealt.begin(), dealt.end());
      for (int64_t k = 0; k < 8; ++k) EXPECT_EQ(dealt[static_cast<size_t>(k)], k);
    }
}

TEST(DealClusters, PutsClustersThatExchangeRowsTogether) {
  // Clusters 0 and 5, 1 and 4, 2 and 7, 3 and 6 read one another.
  const int64_t other[8] = {5, 4, 7, 6, 1, 0, 3, 2};
  HostTensor rows(TensorType{DType::kI32, Shape{8, 2}});
  for (int64_t k = 0; k < 8; ++k) rows.set(2 * k, static_cast<double>(other[k] * 5 + 1)), rows.set(2 * k + 1, -1);
  EXPECT_EQ(deal_clusters(reader_of(rows), parse_layout("g=4 deal=near")),
            (std::vector<int64_t>{0, 5, 1, 4, 2, 7, 3, 6}));
}

TEST(DealClusters, RefusesOtherNumbers) {
  const Graph graph = reader_of(drawn_rows(8, 5, 12, 3));
  for (const std::string deal : {"0+1+2", "0+1+2+3+4+5+6+6", "0+1+2+3+4+5+6+8", "0+1+2+3+4+5+6+7+8"})
    EXPECT_THAT(
        error_of([&] { deal_clusters(graph, parse_layout("g=2 deal=" + deal)); }),
        HasSubstr("layout deal: not the number of every cluster once; found '" + deal + "'; expected each of 0 to 7"));
  EXPECT_THAT(error_of([&] { deal_clusters(graph, parse_layout("g=3")); }), HasSubstr("a divisor of 8 clusters"));
  for (const std::string deal : {"nearest", "random", "random:x", "0,1", ""})
    EXPECT_THAT(error_of([&] { parse_layout("g=2 deal=\"" + deal + "\""); }), HasSubstr("--layout deal")) << deal;
}

}  // namespace
}  // namespace ramet::tests

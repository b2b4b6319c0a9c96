#include "ramet/machine/network.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ramet/base/error.h"
#include "ramet/machine/machine_toml.h"

namespace ramet::tests {
namespace {

/// One gigabyte a second a link, one microsecond.
LinkLevel level(Topology topology, int group, int links = 1) {
  return {.name = "wire", .topology = topology, .group = group, .links = links, .bandwidth = 1e9, .latency = 1e-6};
}

Machine joined(std::vector<LinkLevel> links) {
  Machine machine;
  machine.name = "test";
  for (const LinkLevel& one : links) machine.devices *= one.group;
  machine.links = std::move(links);
  return machine;
}

std::vector<int> first(int count) {
  std::vector<int> devices(static_cast<size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<std::string> names(const Network& network, int from, int to) {
  std::vector<std::string> found;
  for (const int64_t link : network.route(from, to)) found.push_back(network.name(link));
  return found;
}

double total(const Traffic& traffic) {
  return std::accumulate(traffic.link_bytes.begin(), traffic.link_bytes.end(), 0.0);
}

using Names = std::vector<std::string>;

TEST(Routes, FollowTheTopology) {
  EXPECT_EQ(names(Network(joined({level(Topology::kLadder, 4)})), 3, 0), (Names{"wire 3>2", "wire 2>1", "wire 1>0"}));
  EXPECT_EQ(names(Network(joined({level(Topology::kRing, 4)})), 3, 0), (Names{"wire 3>0"}));
  EXPECT_EQ(names(Network(joined({level(Topology::kRing, 5)})), 1, 4), (Names{"wire 1>0", "wire 0>4"}));
  EXPECT_EQ(names(Network(joined({level(Topology::kTorus, 12)})), 0, 11), (Names{"wire 0>2", "wire 2>11"}))
      << "four rows of three: back along the row, back along the column";
  EXPECT_EQ(names(Network(joined({level(Topology::kFatTree, 4)})), 1, 2), (Names{"wire 1 up", "wire 2 down"}));
  EXPECT_EQ(names(Network(joined({level(Topology::kAllToAll, 4)})), 1, 2), (Names{"wire 1>2"}));
  EXPECT_EQ(names(Network(joined({level(Topology::kHostGateway, 4)})), 1, 2), (Names{"wire 0"}));
  EXPECT_TRUE(names(Network(joined({level(Topology::kRing, 4)})), 2, 2).empty());
}

TEST(Routes, TakeTheInnermostLevelThatJoins) {
  LinkLevel outer = level(Topology::kLadder, 3);
  outer.name = "rail";
  const Network network(joined({level(Topology::kAllToAll, 2), outer}));
  EXPECT_EQ(names(network, 2, 3), (Names{"wire 2>3"}));
  EXPECT_EQ(names(network, 1, 5), (Names{"rail 0>1", "rail 1>2"}));
  EXPECT_EQ(names(network, 4, 3), (Names{"rail 2>1"}));
}

TEST(Routes, OfDevicesThatAreNotThereAreRefused) {
  const Network network(joined({level(Topology::kRing, 4)}));
  try {
    network.route(0, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "machine test: no such device; found device 4; expected 0 to 3");
  }
}

TEST(Sends, TakeLatencyAndTheNarrowestLink) {
  const Network ladder(joined({level(Topology::kLadder, 4, 2)}));
  const Traffic sent = ladder.send(0, 2, 2e6);
  EXPECT_DOUBLE_EQ(sent.seconds, 2 * 1e-6 + 2e6 / 2e9) << "two links side by side";
  EXPECT_DOUBLE_EQ(total(sent), 4e6) << "over two links";
  EXPECT_DOUBLE_EQ(ladder.send(1, 1, 1e9).seconds, 0);
  // A pair has four links up, a device alone two of them; a device without links of its own has one.
  EXPECT_DOUBLE_EQ(
      Network(joined({level(Topology::kAllToAll, 2), level(Topology::kLadder, 2, 4)})).send(0, 2, 2e6).seconds,
      1e-6 + 2e6 / 2e9);
  EXPECT_DOUBLE_EQ(
      Network(joined({level(Topology::kFatTree, 8), level(Topology::kFatTree, 2, 4)})).send(0, 8, 2e6).seconds,
      2e-6 + 2e6 / 1e9);
  LinkLevel lossy = level(Topology::kRing, 2);
  lossy.efficiency = 0.5;
  EXPECT_DOUBLE_EQ(Network(joined({lossy})).send(0, 1, 1e6).seconds, 1e-6 + 2e-3);
}

TEST(Steps, ShareLinks) {
  const Network gateway(joined({level(Topology::kHostGateway, 4)})), tree(joined({level(Topology::kFatTree, 4)})),
      ladder(joined({level(Topology::kLadder, 4)}));
  const NetworkStep both{.messages = {{0, 1, 1e6}, {2, 3, 1e6}}, .times = 3};
  EXPECT_DOUBLE_EQ(gateway.run(std::span(&both, 1)).seconds, 3 * (1e-6 + 2e-3)) << "one gateway for both";
  EXPECT_DOUBLE_EQ(tree.run(std::span(&both, 1)).seconds, 3 * (2e-6 + 1e-3)) << "two ways";
  const NetworkStep crossing{.messages = {{0, 2, 1e6}, {1, 3, 1e6}, {3, 1, 1e6}}};
  const Traffic crossed = ladder.run(std::span(&crossing, 1));
  EXPECT_DOUBLE_EQ(crossed.seconds, 2e-6 + 2e-3) << "1>2 carries two messages; ways back are links of their own";
  EXPECT_DOUBLE_EQ(total(crossed), 6e6);
}

struct Case {
  const char* name;
  std::vector<LinkLevel> links;
  Exchange exchange;
  double seconds;
  const char* way;
  double moved;  ///< over all links together
};

class Collectives : public testing::TestWithParam<Case> {};

TEST_P(Collectives, TakeTheTimeOfTheirBestWay) {
  const Case& c = GetParam();
  const Machine machine = joined(c.links);
  const std::vector<std::vector<int>> all = {first(machine.devices)};
  const Traffic traffic = collective(Network(machine), c.exchange, 8e6, all);
  EXPECT_NEAR(traffic.seconds, c.seconds, 1e-12);
  EXPECT_EQ(traffic.way, c.way);
  EXPECT_NEAR(total(traffic), c.moved, 1);
}

/// 8 MB each. Bounds are those of textbooks: an all-reduce moves 2 (n-1)/n of it through every device.
INSTANTIATE_TEST_SUITE_P(
    ByHand, Collectives,
    testing::Values(
        Case{"GatherInATree", {level(Topology::kFatTree, 4)}, Exchange::kAllGather, 2e-6 + 6e-3, "direct", 2 * 24e6},
        Case{"ReduceInATree",
             {level(Topology::kFatTree, 4)},
             Exchange::kAllReduce,
             2 * (2e-6 + 6e-3),
             "direct",
             4 * 24e6},
        // Three links of every device at once.
        Case{"ScatterBetweenAll",
             {level(Topology::kAllToAll, 4)},
             Exchange::kReduceScatter,
             1e-6 + 2e-3,
             "direct",
             24e6},
        // Both ways round: one MB each way, three times, and three again.
        Case{"ReduceInARing", {level(Topology::kRing, 4)}, Exchange::kAllReduce, 6 * (1e-6 + 1e-3), "two rings", 48e6},
        // From either end of a line of two.
        Case{"ReduceOfTwo", {level(Topology::kLadder, 2)}, Exchange::kAllReduce, 2 * (1e-6 + 4e-3), "direct", 16e6},
        // Through one gateway goes all: 4 devices x 3 parts of 2 MB.
        Case{"GatherThroughAGateway",
             {level(Topology::kHostGateway, 4)},
             Exchange::kAllGather,
             1e-6 + 24e-3,
             "direct",
             24e6},
        Case{"Permute", {level(Topology::kFatTree, 4)}, Exchange::kAllToAll, 2e-6 + 6e-3, "direct", 48e6},
        // Two messages of a ring cross between the pairs, one each way: no slower than within.
        Case{"RingOverPairs",
             {level(Topology::kAllToAll, 2), level(Topology::kAllToAll, 2)},
             Exchange::kReduceScatter,
             3 * (1e-6 + 2e-3),
             "ring",
             24e6},
        // Within units of three 8/3 MB each way over four links, then 4/3 MB of each of three devices over one.
        Case{"LevelByLevel",
             {level(Topology::kAllToAll, 3, 4), level(Topology::kAllToAll, 2)},
             Exchange::kReduceScatter,
             (1e-6 + 8e-3 / 12) + (1e-6 + 4e-3),
             "direct + direct",
             32e6 + 8e6}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Collectives, OfManyGroupsShareTheLinks) {
  const Network network(joined({level(Topology::kLadder, 4)}));
  const std::vector<std::vector<int>> one = {{0, 2}}, two = {{0, 2}, {1, 3}};
  EXPECT_DOUBLE_EQ(collective(network, Exchange::kAllGather, 2e6, one).seconds, 2e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(collective(network, Exchange::kAllGather, 2e6, two).seconds, 2e-6 + 2e-3) << "1>2 is both groups'";
}

TEST(Collectives, OfOneOrNothingTakeNoTime) {
  const Network network(joined({level(Topology::kRing, 4)}));
  const std::vector<std::vector<int>> alone = {{2}};
  EXPECT_EQ(collective(network, Exchange::kAllReduce, 1e9, alone).seconds, 0);
  EXPECT_EQ(collective(network, Exchange::kAllReduce, 1e9, {}).seconds, 0);
}

TEST(Collectives, RefuseGroupsThatOverlapOrDiffer) {
  const Network network(joined({level(Topology::kRing, 4)}));
  const auto fault = [&](const std::vector<std::vector<int>>& groups) -> std::string {
    try {
      collective(network, Exchange::kAllReduce, 1, groups);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault({{0, 1}, {1, 2}}), "a device stands twice in a collective; found device 1");
  EXPECT_EQ(fault({{0, 1, 2}, {3}}), "groups of a collective differ in size; found 1; expected 3 devices in each");
}

TEST(Collectives, AreQuickOnLargeMachines) {
  LinkLevel racks = level(Topology::kFatTree, 4, 32);
  const Network pod(joined({level(Topology::kAllToAll, 2, 6), level(Topology::kRing, 32, 4), racks}));
  const std::vector<std::vector<int>> all = {first(256)};
  const Traffic whole = collective(pod, Exchange::kAllReduce, 1e9, all);
  // The ring of pairs is the narrowest: 32 pairs that each hold half; twice 31/32 of it both ways round over four
  // links.
  EXPECT_GT(whole.seconds, 2 * 1e9 * 31 / 32 / 2 / 4e9);
  EXPECT_LT(whole.seconds, 2 * 1e9 / 4e9);
  // The racks' 32 links carry a part of 1/64 of each of their devices: 1e9 in all, twice.
  const double between = 2 * 1e9 * 3 / 4;
  double carried = 0;
  for (int64_t link = 0; link < pod.links(); ++link)
    if (pod.level(link) == 2) carried = std::max(carried, whole.link_bytes[static_cast<size_t>(link)]);
  EXPECT_NEAR(carried, between, 1e6);
}

}  // namespace
}  // namespace ramet::tests

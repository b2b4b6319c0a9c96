// Packs of graphs, as a user of the library sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/graphs.h>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Two graphs, of 3 and 2 nodes; edges in no order.
v0::GraphLists two_graphs() {
  return {.node_ptr = {0, 3, 5}, .edge_ptr = {0, 3, 4}, .source = {2, 0, 1, 0}, .target = {1, 1, 0, 1}};
}

TEST(GraphPacks, NameRowsOfTheCallersArrays) {
  const v0::GraphPacks packs(two_graphs(), {.batch = "count:2", .shuffle = false});
  EXPECT_EQ(packs.packs(0), 1);
  EXPECT_EQ(packs.first(3), 3);
  EXPECT_EQ(packs.room().nodes, 5);
  const v0::GraphPack pack = packs.pack(0);
  EXPECT_THAT(pack.graphs, ElementsAre(0, 1));
  EXPECT_THAT(pack.graph_ptr, ElementsAre(0, 3, 5));
  EXPECT_THAT(pack.edges, ElementsAre(2, 1, 0, 3));  // by target, then source
  EXPECT_THAT(pack.source, ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(pack.target, ElementsAre(0, 1, 1, 4));
}

TEST(GraphPacks, LeaveOutWhatDoesNotFitOrSayIt) {
  v0::GraphPackOptions options{.batch = "stream:2:4"};
  EXPECT_THAT(error_of([&] { v0::GraphPacks(two_graphs(), options); }), HasSubstr("a graph does not fit the budget"));
  options.trim = true;
  const v0::GraphPacks packs(two_graphs(), options);
  EXPECT_EQ(packs.skipped(), 1);
  EXPECT_THAT(packs.pack(0).graphs, ElementsAre(1));
}

TEST(GraphPacks, RefuseListsThatContradictEachOther) {
  v0::GraphLists lists = two_graphs();
  lists.source.pop_back();
  EXPECT_THAT(error_of([&] { v0::GraphPacks(lists, {}); }), HasSubstr("edges have a source and a target each"));
  lists = two_graphs();
  lists.edge_ptr.pop_back();
  EXPECT_THAT(error_of([&] { v0::GraphPacks(lists, {}); }), HasSubstr("two lists of one length"));
  EXPECT_THAT(error_of([&] { v0::GraphPacks(two_graphs(), {}).pack(-1); }), HasSubstr("packs are counted from 0"));
}

}  // namespace
}  // namespace ramet::tests

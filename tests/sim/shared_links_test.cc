#include "ramet/sim/shared_links.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ramet::tests {
namespace {

/// Lets all moves end; number of the move to its end.
std::map<int, double> ends_of(SharedLinks& links) {
  std::map<int, double> ends;
  std::vector<int> ended;
  while (std::isfinite(links.next())) {
    const double now = links.next();
    links.advance(now, ended);
    for (const int move : ended) ends[move] = now;
  }
  return ends;
}

TEST(SharedLinks, AMoveAloneTakesItsLatencyAndItsSlowestLink) {
  SharedLinks links({100, 50});
  const int kind = links.add_kind(2, {{0, 100}, {1, 100}});
  EXPECT_DOUBLE_EQ(links.seconds_alone(kind), 4);
  links.start(kind, 10);
  EXPECT_DOUBLE_EQ(ends_of(links).at(0), 14);
}

TEST(SharedLinks, TwoOverOneLinkHaveHalfOfItEach) {
  SharedLinks links({100});
  const int kind = links.add_kind(0, {{0, 100}}), larger = links.add_kind(0, {{0, 300}});
  links.start(kind, 0);
  links.start(larger, 0);
  // 50 each until the first has its 100; the other then has 200 left, at 100.
  const auto ends = ends_of(links);
  EXPECT_DOUBLE_EQ(ends.at(0), 2);
  EXPECT_DOUBLE_EQ(ends.at(1), 4);
}

TEST(SharedLinks, OneThatComesLaterSlowsTheOther) {
  SharedLinks links({100});
  const int kind = links.add_kind(0, {{0, 100}});
  links.start(kind, 0);
  links.start(kind, 0.5, 2);
  // Half of the first is there at 0.5; the rest takes 1 s at half the rate. Then 150 of the second are left.
  const auto ends = ends_of(links);
  EXPECT_DOUBLE_EQ(ends.at(0), 1.5);
  EXPECT_DOUBLE_EQ(ends.at(1), 3);
}

TEST(SharedLinks, WhatANarrowLinkHoldsBackOthersMayHave) {
  // The classic of max-min fairness: a passes links 0 and 1, b link 0, c link 1; link 1 is narrow.
  SharedLinks links({100, 40});
  const int a = links.add_kind(0, {{0, 1}, {1, 1}}), b = links.add_kind(0, {{0, 1}}), c = links.add_kind(0, {{1, 1}});
  links.start(a, 0, 1000);
  links.start(b, 0, 1000);
  links.start(c, 0, 1000);
  EXPECT_DOUBLE_EQ(links.rates()[static_cast<size_t>(a)], 20);
  EXPECT_DOUBLE_EQ(links.rates()[static_cast<size_t>(b)], 80);
  EXPECT_DOUBLE_EQ(links.rates()[static_cast<size_t>(c)], 20);
}

TEST(SharedLinks, AnOwnLimitLeavesTheRestToOthers) {
  SharedLinks links({100});
  const int slow = links.add_kind(0, {{0, 1}}, 0, 0.1), fast = links.add_kind(0, {{0, 1}});
  links.start(slow, 0, 1000);
  links.start(fast, 0, 1000);
  EXPECT_DOUBLE_EQ(links.rates()[static_cast<size_t>(slow)], 10);
  EXPECT_DOUBLE_EQ(links.rates()[static_cast<size_t>(fast)], 90);
}

TEST(SharedLinks, WaitingForItsLatencyAMoveTakesNothingFromOthers) {
  SharedLinks links({100});
  const int soon = links.add_kind(0, {{0, 100}}), late = links.add_kind(5, {{0, 100}});
  links.start(late, 0);
  links.start(soon, 0);
  const auto ends = ends_of(links);
  EXPECT_DOUBLE_EQ(ends.at(0), 6);
  EXPECT_DOUBLE_EQ(ends.at(1), 1);
}

TEST(SharedLinks, AMoveOfNothingTakesItsLatencyAlone) {
  SharedLinks links({100});
  const int kind = links.add_kind(3, {});
  links.start(kind, 1);
  EXPECT_DOUBLE_EQ(ends_of(links).at(0), 4);
}

TEST(SharedLinks, MovesThatGoTogetherAreAsOneKind) {
  // Four messages of 10 bytes, two over each of two links, beside one of 10 over the first link: as themselves, and as
  // a kind with what lies on one link of a sort. The links are of two sorts, as one carries more.
  SharedLinks apart({100, 100}), folded({100, 100});
  const int first = apart.add_kind(0, {{0, 10}}), second = apart.add_kind(0, {{1, 10}});
  for (int i = 0; i < 2; ++i) {
    apart.start(first, 0);
    apart.start(second, 0);
  }
  apart.start(first, 0);
  const int pair = folded.add_kind(0, {{0, 20}}, 10), other = folded.add_kind(0, {{1, 20}}, 10),
            alone = folded.add_kind(0, {{0, 10}}, 10);
  folded.start(pair, 0);
  folded.start(other, 0);
  folded.start(alone, 0);
  const auto a = ends_of(apart), b = ends_of(folded);
  EXPECT_DOUBLE_EQ(a.at(0), 0.3);
  EXPECT_DOUBLE_EQ(b.at(0), 0.3);
  EXPECT_DOUBLE_EQ(a.at(1), 0.2);
  EXPECT_DOUBLE_EQ(b.at(1), 0.2);
  EXPECT_DOUBLE_EQ(b.at(2), 0.3);
}

}  // namespace
}  // namespace ramet::tests

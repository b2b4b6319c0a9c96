#include "ramet/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const std::vector<Metric> kBert = {
    {.name = "loss", .numerator = "loss", .how = Metric::How::kMean, .parts = {"a", "b"}},
    mean_metric("a", "a_count"),
    mean_metric("b", "b_count"),
    share_metric("right", "a_right", "a_count"),
    {.name = "e_to_a", .numerator = "a", .how = Metric::How::kExp, .held_out_only = true},
    {.name = "seen", .numerator = "a_count", .how = Metric::How::kSum}};
const NamedNumbers kFirst = {{"loss", 3}, {"a", 2}, {"a_count", 1}, {"a_right", 1}, {"b", 1}, {"b_count", 4}};
const NamedNumbers kSecond = {{"loss", 9}, {"a", 4}, {"a_count", 3}, {"a_right", 0}, {"b", 5}, {"b_count", 4}};

TEST(Metrics, AStepCountsItsMicroBatchesAlike) {
  MetricSums sums(kBert, false, false);
  sums.add(kFirst), sums.add(kSecond);
  EXPECT_THAT(sums.numbers(),
              ElementsAre(Pair("loss", 6), Pair("a", 3), Pair("b", 3), Pair("right", 0.25), Pair("seen", 4)));
}

TEST(Metrics, AnEvaluationCountsItems) {
  MetricSums sums(kBert, true, true);
  sums.add(kFirst), sums.add(kSecond);
  // a: (2 x 1 + 4 x 3) / 4; the loss is the sum of its parts, each by its own items.
  EXPECT_THAT(sums.numbers(), ElementsAre(Pair("loss", 6.5), Pair("a", 3.5), Pair("b", 3), Pair("right", 0.25),
                                          Pair("e_to_a", std::exp(3.5)), Pair("seen", 4)));
}

TEST(Metrics, WithoutItemsAMetricIsNotDefinedAndTheOthersAre) {
  MetricSums sums(kBert, true, true);
  sums.add({{"loss", 1}, {"a", 0}, {"a_count", 0}, {"a_right", 0}, {"b", 1}, {"b_count", 4}});
  EXPECT_TRUE(std::isnan(number_of(sums.numbers(), "a")));
  EXPECT_TRUE(std::isnan(number_of(sums.numbers(), "right")));
  EXPECT_TRUE(std::isnan(number_of(sums.numbers(), "e_to_a")));
  EXPECT_EQ(number_of(sums.numbers(), "b"), 1);
  // One micro-batch without items says nothing, even when its mean is no number.
  sums.add(kFirst);
  sums.add({{"loss", 1}, {"a", NAN}, {"a_count", 0}, {"a_right", 0}, {"b", 1}, {"b_count", 4}});
  EXPECT_EQ(number_of(sums.numbers(), "a"), 2);
}

TEST(Metrics, AnAverageIsOfTheMetricsThatAreDefined) {
  const std::vector<Metric> metrics = {
      share_metric("iou_0", "hits_0", "union_0"),
      share_metric("iou_1", "hits_1", "union_1"),
      share_metric("iou_2", "hits_2", "union_2"),
      {.name = "mean_iou", .numerator = "", .how = Metric::How::kAverage, .parts = {"iou_0", "iou_1", "iou_2"}}};
  MetricSums sums(metrics, true, true);
  sums.add({{"hits_0", 1}, {"union_0", 2}, {"hits_1", 0}, {"union_1", 4}, {"hits_2", 0}, {"union_2", 0}});
  sums.add({{"hits_0", 2}, {"union_0", 2}, {"hits_1", 1}, {"union_1", 0}, {"hits_2", 0}, {"union_2", 0}});
  EXPECT_EQ(number_of(sums.numbers(), "mean_iou"), (0.75 + 0.25) / 2) << "of sums over micro-batches";
  MetricSums training({metrics.back()}, false, false);
  training.add({{"loss", 1}});
  EXPECT_TRUE(training.numbers().empty());
}

TEST(Metrics, AModelThatDeclaresNoneHasItsLoss) {
  MetricSums sums({}, false, false);
  EXPECT_TRUE(sums.numbers().empty());
  sums.add({{"loss", 1}, {"other", 7}}), sums.add({{"loss", 2}});
  EXPECT_THAT(sums.numbers(), ElementsAre(Pair("loss", 1.5)));
}

TEST(Metrics, WhatIsNotGivenIsLeftOut) {
  MetricSums sums({share_metric("x", "x_right", "x_count"), mean_metric("loss", "count")}, true, true);
  sums.add({{"loss", 1}, {"count", 2}});
  EXPECT_THAT(sums.numbers(), ElementsAre(Pair("loss", 1)));
}

}  // namespace
}  // namespace ramet::tests

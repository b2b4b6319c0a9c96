#include "ramet/text/tasks/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/text/tasks/conll.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using Labels = std::vector<std::string>;

const std::vector<int32_t> kExpected = {0, 1, 1, 0, 1, 0, 0, 1, 1, 1}, kFound = {0, 1, 0, 0, 1, 1, 0, 1, 1, 0};

// By hand: 7 of 10 equal; for class 1: 4 both, 6 expected, 5 found; (4*3 - 1*2) / sqrt(5*6*4*5) = 10 / sqrt(600).
TEST(Metrics, TwoClasses) {
  EXPECT_DOUBLE_EQ(accuracy(kExpected, kFound), 0.7);
  EXPECT_DOUBLE_EQ(f1_score(kExpected, kFound), 8.0 / 11);
  EXPECT_DOUBLE_EQ(f1_score(kExpected, kFound, 0), 6.0 / 9);
  EXPECT_DOUBLE_EQ(matthews_correlation(kExpected, kFound), 10 / std::sqrt(600.0));
  EXPECT_EQ(f1_score(std::vector<int32_t>{0, 0}, std::vector<int32_t>{0, 0}), 0);
  EXPECT_EQ(matthews_correlation(kExpected, std::vector<int32_t>(10, 1)), 0);
  EXPECT_DOUBLE_EQ(matthews_correlation(kExpected, kExpected), 1);
}

// scikit-learn's matthews_corrcoef and f1_score(average="macro") give 0.6190476190476191 and 0.7777777777777777.
TEST(Metrics, MoreClasses) {
  const std::vector<int32_t> expected = {0, 1, 2, 2, 1, 0, 2, 1}, found = {0, 2, 2, 2, 1, 0, 1, 1};
  EXPECT_NEAR(matthews_correlation(expected, found), 0.6190476190476191, 1e-15);
  EXPECT_NEAR(macro_f1(expected, found, 3), 0.7777777777777777, 1e-15);
  EXPECT_NEAR(macro_f1(expected, found, 9), 0.7777777777777777, 1e-15);  // classes that do not occur do not count
}

// SciPy's pearsonr and spearmanr give 0.8733428015427976 and 0.8440722199302099.
TEST(Metrics, Correlations) {
  const std::vector<double> x = {1.0, 2.5, 2.5, 4.0, 5.0, 0.5, 3.0}, y = {0.8, 2.0, 3.5, 3.5, 4.9, 1.5, 2.0};
  EXPECT_NEAR(pearson_correlation(x, y), 0.8733428015427976, 1e-14);
  EXPECT_NEAR(spearman_correlation(x, y), 0.8440722199302099, 1e-14);
  std::vector<double> falling(x);
  for (double& value : falling) value = 7 - 3 * value;
  EXPECT_NEAR(pearson_correlation(x, falling), -1, 1e-15);
  EXPECT_TRUE(std::isnan(pearson_correlation(x, std::vector<double>(7, 2.0))));
  EXPECT_TRUE(std::isnan(spearman_correlation({}, {})));
}

TEST(Chunks, FollowTheRulesOfConlleval) {
  const auto chunks = [](const Labels& labels) { return chunks_of(labels); };
  EXPECT_THAT(chunks({"B-NP", "I-NP", "B-NP", "O", "B-VP"}),
              ElementsAre(Chunk{0, 2, "NP"}, Chunk{2, 3, "NP"}, Chunk{4, 5, "VP"}));
  // IOB1: an I begins a chunk behind O and behind another type.
  EXPECT_THAT(chunks({"I-PER", "I-PER", "I-LOC", "B-LOC", "O", "I-ORG"}),
              ElementsAre(Chunk{0, 2, "PER"}, Chunk{2, 3, "LOC"}, Chunk{3, 4, "LOC"}, Chunk{5, 6, "ORG"}));
  EXPECT_THAT(chunks({"S-A", "B-A", "I-A", "E-A", "I-A", "S-B"}),
              ElementsAre(Chunk{0, 1, "A"}, Chunk{1, 4, "A"}, Chunk{4, 5, "A"}, Chunk{5, 6, "B"}));
  EXPECT_THAT(chunks({"O", "O"}), ElementsAre());
  EXPECT_THAT(chunks({"B-a-b", "I-a-b", "B", "I"}), ElementsAre(Chunk{0, 2, "a-b"}, Chunk{2, 4, ""}));
}

// seqeval gives precision 3/7, recall 1/2 for the same labels.
TEST(Chunks, ScoresAreSeqevals) {
  const std::vector<Labels> expected = {{"B-PER", "I-PER", "O", "B-LOC", "O"},
                                        {"B-ORG", "I-ORG", "I-ORG", "O", "I-LOC"},
                                        {"I-MISC", "I-MISC", "B-MISC", "O"}};
  const std::vector<Labels> found = {{"B-PER", "I-PER", "O", "B-ORG", "O"},
                                     {"B-ORG", "I-ORG", "O", "O", "I-LOC"},
                                     {"I-MISC", "B-MISC", "B-MISC", "O"}};
  ChunkScores scores;
  for (size_t i = 0; i < expected.size(); ++i) scores.add(expected[i], found[i]);
  EXPECT_EQ(scores.all.expected, 6);
  EXPECT_EQ(scores.all.found, 7);
  EXPECT_EQ(scores.all.both, 3);
  const Metrics metrics = scores.metrics();
  EXPECT_EQ(metrics[0].first, "f1");
  EXPECT_NEAR(metrics[0].second, 46.15384615384615, 1e-12);
  EXPECT_NEAR(metrics[1].second, 300.0 / 7, 1e-12);
  EXPECT_NEAR(metrics[2].second, 50, 1e-12);
  EXPECT_NEAR(metrics[3].second, 1100.0 / 14, 1e-12);
  EXPECT_EQ(scores.types.at("LOC").both, 1);
  EXPECT_EQ(scores.types.at("ORG").found, 2);
}

TEST(Metrics, AreaUnderTheCurve) {
  // scikit-learn's roc_auc_score of these is 0.75; a tie counts half.
  EXPECT_EQ(roc_auc(std::vector<double>{0, 0, 1, 1}, std::vector<double>{0.1, 0.4, 0.35, 0.8}), 0.75);
  EXPECT_EQ(roc_auc(std::vector<double>{0, 1, 1, 0}, std::vector<double>{1, 1, 2, 0}), 0.875);
  EXPECT_EQ(roc_auc(std::vector<double>{0, 1, -1, NAN}, std::vector<double>{2, 1, 9, 9}), 0);
  EXPECT_TRUE(std::isnan(roc_auc(std::vector<double>{1, 1}, std::vector<double>{2, 1})));
  EXPECT_TRUE(std::isnan(roc_auc(std::vector<double>{0, 1}, std::vector<double>{NAN, 1})));
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/text/tasks/span_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ramet::tests {
namespace {

using testing::ElementsAre;

std::vector<std::pair<size_t, size_t>> pairs(const std::vector<SpanWindow>& windows) {
  std::vector<std::pair<size_t, size_t>> list;
  for (const SpanWindow& window : windows) list.emplace_back(window.first, window.count);
  return list;
}
using Pair = std::pair<size_t, size_t>;

TEST(SpanWindows, FollowOneAnotherByTheStride) {
  EXPECT_THAT(pairs(make_windows(10, 4, 2)), ElementsAre(Pair{0, 4}, Pair{2, 4}, Pair{4, 4}, Pair{6, 4}));
  EXPECT_THAT(pairs(make_windows(11, 4, 3)), ElementsAre(Pair{0, 4}, Pair{3, 4}, Pair{6, 4}, Pair{9, 2}));
  EXPECT_THAT(pairs(make_windows(4, 4, 2)), ElementsAre(Pair{0, 4}));
  EXPECT_THAT(pairs(make_windows(9, 4, 100)), ElementsAre(Pair{0, 4}, Pair{4, 4}, Pair{8, 1}));
  EXPECT_THAT(pairs(make_windows(0, 4, 2)), ElementsAre(Pair{0, 0}));
}

// The example of BERT's run_squad: "bought" has one token before it in window B and four in window C's three.
TEST(SpanWindows, ATokenBelongsWhereItHasMostContext) {
  const std::vector<SpanWindow> windows = {{0, 5}, {3, 5}, {6, 5}};
  EXPECT_EQ(best_window(windows, 0), 0u);
  EXPECT_EQ(best_window(windows, 3), 0u);  // one to its right in the first window, none to its left in the second
  EXPECT_EQ(best_window(windows, 4), 1u);
  EXPECT_EQ(best_window(windows, 6), 1u);
  EXPECT_EQ(best_window(windows, 7), 2u);
  EXPECT_EQ(best_window(windows, 10), 2u);
}

TEST(SpanWindows, PlacesBecomeTheTokensThatTheyTouch) {
  const std::vector<TokenSpan> tokens = {{0, 3}, {4, 7}, {7, 9}, {10, 11}};
  const auto range = [&](uint32_t begin, uint32_t end) {
    const auto found = tokens_of_place(tokens, {begin, end});
    return found ? Pair{found->first, found->last} : Pair{99, 99};
  };
  EXPECT_EQ(range(0, 3), (Pair{0, 0}));
  EXPECT_EQ(range(4, 9), (Pair{1, 2}));
  EXPECT_EQ(range(5, 8), (Pair{1, 2}));
  EXPECT_EQ(range(0, 11), (Pair{0, 3}));
  EXPECT_EQ(range(9, 10), (Pair{99, 99}));  // a blank
  EXPECT_EQ(range(11, 12), (Pair{99, 99}));
}

class Answers : public testing::Test {
 protected:
  const std::string context = "the cat sat on the mat";
  const std::vector<TokenSpan> spans = {{0, 3}, {4, 7}, {8, 11}, {12, 14}, {15, 18}, {19, 22}};
  std::vector<std::vector<float>> numbers;

  WindowLogits window(size_t first, std::vector<float> start, std::vector<float> end, float null) {
    numbers.push_back(std::move(start));
    numbers.push_back(std::move(end));
    const auto& s = numbers[numbers.size() - 2];
    const auto& e = numbers.back();
    return {{first, s.size()}, s, e, null / 2, null / 2};
  }
  void SetUp() override { numbers.reserve(100); }
};

TEST_F(Answers, TheLikeliestLegalSpanWins) {
  const std::vector<WindowLogits> windows = {window(0, {0, 5, 1, 0, 0, 9}, {0, 1, 4, 0, 3, 0}, -1)};
  const SpanAnswers answers = find_answers(context, spans, windows, {.n_best = 3, .max_answer = 4}, false);
  // 9 + 4 and 9 + 3 end before they start; 9 + 1 and so do all others but mat's own end, which is not among the best.
  ASSERT_EQ(answers.best.size(), 3u);
  EXPECT_EQ(answers.best[0].text, "cat sat");
  EXPECT_EQ(answers.best[0].score, 9);
  EXPECT_EQ(answers.best[1].text, "cat sat on the");
  EXPECT_EQ(answers.best[2].text, "cat");
  EXPECT_NEAR(answers.best[0].probability, 1 / (1 + std::exp(-1) + std::exp(-3)), 1e-12);
  const SpanAnswers shorter = find_answers(context, spans, windows, {.n_best = 3, .max_answer = 2}, false);
  EXPECT_EQ(shorter.best[1].text, "cat");
}

TEST_F(Answers, AStartCountsOnlyInItsBestWindow) {
  // All tokens of the second window have more on both sides, or as much in a longer window, in the first.
  const std::vector<WindowLogits> windows = {window(0, {0, 0, 0, 1, 0, 0}, {0, 0, 0, 1, 0, 0}, 0),
                                             window(3, {8, 2, 0}, {8, 2, 0}, 0)};
  const SpanAnswers answers = find_answers(context, spans, windows, {.n_best = 20, .max_answer = 1}, false);
  EXPECT_EQ(answers.best[0].text, "on");
  EXPECT_EQ(answers.best[0].score, 2);
}

TEST_F(Answers, NoTextStandsTwice) {
  const std::vector<WindowLogits> windows = {window(0, {3, 0, 0, 0, 4, 0}, {3, 0, 0, 0, 4, 0}, 0)};
  const SpanAnswers answers = find_answers(context, spans, windows, {.n_best = 20, .max_answer = 1}, false);
  EXPECT_EQ(answers.best[0].text, "the");
  EXPECT_EQ(answers.best[0].score, 8);
  for (size_t i = 1; i < answers.best.size(); ++i) EXPECT_NE(answers.best[i].text, "the");
}

TEST_F(Answers, NoAnswerWinsAboveTheThreshold) {
  const std::vector<WindowLogits> windows = {window(0, {0, 5, 0, 0, 0, 0}, {0, 5, 0, 0, 0, 0}, 14),
                                             window(3, {0, 0, 0}, {0, 0, 0}, 12)};
  const SpanAnswers answers = find_answers(context, spans, windows, {}, true);
  EXPECT_EQ(answers.null_score, 12);
  EXPECT_GT(answers.null_probability, answers.best[0].probability);
  EXPECT_EQ(vote(std::vector{answers}, true, 0), "");
  EXPECT_EQ(vote(std::vector{answers}, true, 2), "cat");  // 12 - 10 is not above 2
  EXPECT_EQ(vote(std::vector{answers}, false, 0), "cat");
}

TEST_F(Answers, AnEnsembleVotesByProbability) {
  const auto run = [](std::vector<std::pair<std::string, double>> list) {
    SpanAnswers answers;
    for (auto& [text, probability] : list) answers.best.push_back({.text = text, .probability = probability});
    return answers;
  };
  const std::vector<SpanAnswers> runs = {run({{"a", 0.6}, {"b", 0.4}}), run({{"c", 0.55}, {"b", 0.45}}),
                                         run({{"d", 0.8}, {"a", 0.2}})};
  EXPECT_EQ(vote(runs, false, 0), "b");
  EXPECT_EQ(vote(std::span(runs).first(1), false, 0), "a");
  EXPECT_EQ(vote({}, false, 0), "");
}

TEST_F(Answers, NumbersThatAreNoneHaveNoSay) {
  const float nan = std::nanf("");
  const std::vector<WindowLogits> windows = {window(0, {nan, 1, nan, 0, 0, 0}, {nan, 1, 0, 0, nan, nan}, nan)};
  EXPECT_EQ(find_answers(context, spans, windows, {}, true).best[0].text, "cat");
  const std::vector<WindowLogits> none = {window(0, {nan, nan, nan, nan, nan, nan}, {0, 0, 0, 0, 0, 0}, nan)};
  EXPECT_EQ(vote(std::vector{find_answers(context, spans, none, {}, true)}, true, 0), "");
}

}  // namespace
}  // namespace ramet::tests

#include "ramet/text/tasks/answer_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fault.h"
#include "text/task_samples.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double metric(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

/// Questions with these answers each; an empty list: none (SQuAD 2.0).
QuestionAnswers questions(const std::vector<std::vector<std::string>>& answers) {
  QuestionAnswers data;
  data.contexts = {""};
  for (const auto& texts : answers) {
    Question question;
    question.id = "q" + std::to_string(data.questions.size());
    question.impossible = texts.empty();
    for (const auto& text : texts) question.answers.push_back({.text = text});
    data.questions.push_back(question);
  }
  return data;
}

TEST(AnswerMetrics, NormalisesAsTheOfficialEvaluationDoes) {
  EXPECT_EQ(normalize_answer("The Denver  Broncos."), "denver broncos");
  EXPECT_EQ(normalize_answer("a an the"), "");
  EXPECT_EQ(normalize_answer("athe Theme an-d"), "athe theme and");
  EXPECT_EQ(normalize_answer("\"A-B\" (c_d) $5,000"), "ab cd 5000");
  EXPECT_EQ(normalize_answer("É\u00A0À\u2003x\ty\x1Fz"), "é à x y z");
  EXPECT_EQ(normalize_answer("the—the “a” 31–24"), "— “ ” 31–24");  // punctuation beyond ASCII stays, and parts words
  EXPECT_EQ(normalize_answer("ΟΔΟΣ"), "οδος");
  EXPECT_EQ(normalize_answer(""), "");
}

TEST(AnswerMetrics, F1CountsEveryWordOnce) {
  EXPECT_DOUBLE_EQ(answer_f1("x y y", "y y y z"), 2 * 0.5 * (2.0 / 3) / (0.5 + 2.0 / 3));
  EXPECT_DOUBLE_EQ(answer_f1("in the house", "House"), 2.0 / 3);
  EXPECT_EQ(answer_f1("x", "y"), 0);
  EXPECT_EQ(answer_f1("the", "a"), 0);
  EXPECT_EQ(answer_f1("the", "a", true), 1);
  EXPECT_EQ(answer_f1("the", "x", true), 0);
  EXPECT_TRUE(exact_match("The cat!", "cat"));
  EXPECT_FALSE(exact_match("cats", "cat"));
}

TEST(AnswerMetrics, SquadTakesTheBestAnswerAndCountsMissingOnes) {
  const QuestionAnswers data = questions({{"a cat", "the black cat"}, {"dog"}, {"bird"}, {"fish"}});
  const Metrics scores = score_squad(data, {{"q0", "black cat"}, {"q1", "big dog"}, {"q2", "cow"}});
  EXPECT_DOUBLE_EQ(metric(scores, "exact_match"), 25);
  EXPECT_DOUBLE_EQ(metric(scores, "f1"), 100 * (1 + 2.0 / 3) / 4);
  EXPECT_EQ(missing_predictions(data, {{"q0", ""}}), 3);
}

TEST(AnswerMetrics, Squad2CountsNoAnswerAsOne) {
  const QuestionAnswers data = questions({{"cat"}, {}, {}, {"the dog"}});
  const PredictedAnswers predictions = {{"q0", "cat"}, {"q1", ""}, {"q2", "cow"}, {"q3", "dog house"}};
  Metrics scores = score_squad2(data, predictions);
  EXPECT_DOUBLE_EQ(metric(scores, "exact_match"), 50);
  EXPECT_DOUBLE_EQ(metric(scores, "f1"), 100 * (1 + 1 + 0 + 2.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(metric(scores, "has_answer_exact_match"), 50);
  EXPECT_DOUBLE_EQ(metric(scores, "no_answer_f1"), 50);
  EXPECT_EQ(metric(scores, "no_answer_total"), 2);
  // q2's answer is withdrawn above 0.5; so would q3's be. The best threshold keeps q3's answer for its f1.
  const std::unordered_map<std::string, double> none = {{"q0", 0.1}, {"q1", 0.9}, {"q2", 0.7}, {"q3", 0.6}};
  scores = score_squad2(data, predictions, &none, 0.5);
  EXPECT_DOUBLE_EQ(metric(scores, "exact_match"), 75);
  EXPECT_DOUBLE_EQ(metric(scores, "best_exact_match"), 75);
  EXPECT_DOUBLE_EQ(metric(scores, "best_exact_match_threshold"), 0.1);
  EXPECT_DOUBLE_EQ(metric(scores, "best_f1"), 100 * (3 + 2.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(metric(scores, "best_f1_threshold"), 0.6);
  // A question without a prediction is left out.
  EXPECT_DOUBLE_EQ(metric(score_squad2(data, {{"q0", "cat"}}), "exact_match"), 100);
}

// NLTK's word tokenizer gives the same words for what is not Chinese.
TEST(AnswerMetrics, ChineseTextIsCutByCharactersAndOtherTextByWords) {
  EXPECT_THAT(mixed_segments("《战国无双3》（）是"), ElementsAre("战", "国", "无", "双", "3", "是"));
  EXPECT_THAT(mixed_segments(" 由KOEI Tecmo, Inc.开发。"),
              ElementsAre("由", "koei", "tecmo", ",", "inc", ".", "开", "发"));
  EXPECT_THAT(mixed_segments("it's $5,000 (can't) \"say\" cannot. wanna go... 1–2"),
              ElementsAre("it", "'s", "$", "5,000", "(", "ca", "n't", ")", "``", "say", "''", "can", "not", ".", "wan", "na",
                          "go", "...", "1", "–", "2"));
  EXPECT_THAT(mixed_segments("rock 'n' roll 'shade' u.s. of a."),
              ElementsAre("rock", "'n", "'", "roll", "'", "shade", "'", "u.s.", "of", "a", "."));
  EXPECT_THAT(mixed_segments("，。"), ElementsAre());
}

// By the rules of CMRC2018's evaluation, counted by hand.
TEST(AnswerMetrics, CmrcComparesTheLongestCommonRun) {
  const QuestionAnswers data = questions({{"光荣和ω-force", "光荣"}, {"2V2、4V4"}, {"一九九零年"}, {"北京"}});
  const Metrics scores =
      score_cmrc(data, {{"q0", "由光荣和ω-Force开发"}, {"q1", "2v24v4"}, {"q2", "一九八零年"}});
  // q0: 光 荣 和 ωforce of 由 光 荣 和 ωforce 开 发; q1: equal without punctuation; q2: two of five, twice; q3: missing.
  EXPECT_DOUBLE_EQ(metric(scores, "f1"), 100 * (2 * (4.0 / 7) / (4.0 / 7 + 1) + 1 + 0.4) / 4);
  EXPECT_DOUBLE_EQ(metric(scores, "exact_match"), 25);
  EXPECT_DOUBLE_EQ(metric(scores, "average"), (metric(scores, "f1") + 25) / 2);
}

// The published scores of five systems' published answers.
TEST(AnswerMetrics, PublishedPredictionsScoreAsPublished) {
  RAMET_NEED_DATA(squad, "squad");
  const QuestionAnswers data = read_question_answers(squad / "dev-v1.1.json");
  EXPECT_EQ(data.questions.size(), 10570u);
  EXPECT_TRUE(data.labelled);
  EXPECT_EQ(data.moved + data.absent, 0);
  struct Published {
    const char* name;
    double exact, f1;
  };
  for (const Published& system : {Published{"bert", 86.206, 92.196}, Published{"r-net+", 82.469, 88.478},
                                  Published{"slqa+", 81.949, 88.384}, Published{"match-lstm-with-ans-ptr", 67.635, 76.756},
                                  Published{"logistic-regression-baseline", 40.142, 50.982}}) {
    const Metrics scores =
        score_squad(data, read_predicted_answers(squad / "predictions-v1.1" / (std::string(system.name) + ".json")));
    EXPECT_NEAR(metric(scores, "exact_match"), system.exact, 0.0005) << system.name;
    EXPECT_NEAR(metric(scores, "f1"), system.f1, 0.0005) << system.name;
  }
}

}  // namespace
}  // namespace ramet::tests

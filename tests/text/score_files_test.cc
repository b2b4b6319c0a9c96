#include "ramet/text/tasks/score_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fault.h"
#include "text/task_samples.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

class ScoreFiles : public testing::Test {
 protected:
  TemporaryFolder folder;

  FileScores score(const std::string& kind, const std::string& data, const std::string& predictions) {
    return score_files({.kind = kind,
                        .data = written(folder, "data", data),
                        .predictions = written(folder, "said", predictions)});
  }
  std::string fault(const std::string& kind, const std::string& data, const std::string& predictions) {
    return fault_of([&] { score(kind, data, predictions); });
  }
};

const std::string kRte =
    "index\tsentence1\tsentence2\tlabel\n3\ta\tb\tentailment\n5\tc\td\tnot_entailment\n6\te\tf\tentailment\n";

TEST_F(ScoreFiles, GluesPredictionsAreMatchedByTheirIndex) {
  const FileScores scores =
      score("rte", kRte, "index\tprediction\n6\tnot_entailment\n3\tentailment\n5\tnot_entailment\n");
  EXPECT_EQ(scores.scored, 3);
  EXPECT_EQ(scores.metrics[0].first, "accuracy");
  EXPECT_DOUBLE_EQ(scores.metrics[0].second, 200.0 / 3);
  // Rows without an index are numbered from 0.
  EXPECT_DOUBLE_EQ(score("sst2", "sentence\tlabel\na\t1\nb\t0\n", "index\tprediction\n1\t0\n0\t1\n").metrics[0].second, 100);
}

TEST_F(ScoreFiles, CluesPredictionsAreJsonLines) {
  const std::string data = "{\"id\": 7, \"sentence\": \"a\", \"label\": 102}\n{\"id\": 8, \"sentence\": \"b\", \"label\": 100}\n";
  EXPECT_DOUBLE_EQ(
      score("tnews", data, "{\"id\": \"8\", \"label\": \"100\"}\n{\"id\": 7, \"label\": \"100\"}\n").metrics[0].second, 50);
  const std::string chid = R"({"id": 1, "candidates": ["a", "b"], "content": "x #idiom#", "answer": 1})";
  EXPECT_DOUBLE_EQ(score("chid", chid, "{\"id\": 1, \"answer\": 1}").metrics[0].second, 100);
}

TEST_F(ScoreFiles, FaultsOfPredictionsAreTold) {
  const std::string head = "index\tprediction\n", right = head + "3\tentailment\n5\tentailment\n";
  EXPECT_THAT(fault("rte", kRte, right), HasSubstr("said: no prediction for a row of the data; expected one for id '6', line 4 of"));
  EXPECT_THAT(fault("rte", kRte, right + "9\tentailment\n"),
              HasSubstr("said:4: a prediction for no row of the data; found '9'; expected an id of"));
  EXPECT_THAT(fault("rte", kRte, right + "5\tentailment\n"),
              HasSubstr("said:4: two predictions for one row of the data; found '5'; expected each id once"));
  EXPECT_THAT(fault("rte", kRte, right + "6\tyes\n"),
              HasSubstr("said:4: a label outside the set; found 'yes'; expected 'entailment' or 'not_entailment'"));
  EXPECT_THAT(fault("rte", kRte, "3\tentailment\n"), HasSubstr("said:1: no column 'index', 'id' or 'idx'"));
  EXPECT_THAT(fault("stsb", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t1\n", head + "0\tone\n"),
              HasSubstr("said:2: a score that is no number; found 'one'"));
  EXPECT_THAT(fault("rtte", kRte, right), HasSubstr("no such kind of task; found 'rtte'; expected perhaps 'rte', or another of"));
}

TEST_F(ScoreFiles, AnswersOfOtherQuestionsAreAFault) {
  const std::string data = R"({"data": [{"paragraphs": [{"context": "a cat", "qas": [)"
                           R"({"id": "q", "question": "?", "answers": [{"text": "cat", "answer_start": 2}]}]}]}]})";
  EXPECT_DOUBLE_EQ(score("squad", data, R"({"q": "the cat", "z": "more"})").metrics[1].second, 100);
  EXPECT_THAT(fault("squad", data, R"({"x": "cat"})"),
              HasSubstr("said: no prediction is of a question in the data; found 1 predictions of others; expected ids as 'q'"));
  EXPECT_THAT(fault("squad", data, R"({"q": ["cat"]})"), HasSubstr("said:1 q: not a text; found an array of 1"));
  EXPECT_THAT(fault("squad", data, R"(["q"])"), HasSubstr("said:1: no predictions; found an array of 1"));
}

TEST_F(ScoreFiles, ChunksInOneFileOrTwo) {
  const std::string both = "a B-X B-X\nb I-X O\n\nc B-Y B-Y\n";
  const FileScores one = score_files({.kind = "conll", .data = written(folder, "data", both), .predictions = {}});
  EXPECT_DOUBLE_EQ(one.metrics[0].second, 50);
  ASSERT_EQ(one.parts.size(), 2u);
  EXPECT_EQ(one.parts[1].first, "Y");
  EXPECT_DOUBLE_EQ(one.parts[1].second[0].second, 100);
  const FileScores two = score("conll", "a DT B-X\nb NN I-X\n\nc NN B-Y\n", "a B-X\nb O\n\nc B-Y\n");
  EXPECT_EQ(two.metrics, one.metrics);
  EXPECT_THAT(fault("conll", "a B-X\nb I-X\n", "a B-X\nc I-X\n"), HasSubstr("said:2: another word than in the data; found 'c'; expected 'b'"));
  EXPECT_THAT(fault("conll", "a B-X\nb I-X\n", "a B-X\n"), HasSubstr("found the sentence's end; expected 'b'"));
  EXPECT_THAT(fault("conll", "a B-X\n", "a B-X\n\nb O\n"), HasSubstr("another number of sentences than in the data; found 2; expected 1"));
}

}  // namespace
}  // namespace ramet::tests

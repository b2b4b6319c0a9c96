// Readers of published formats: what they take, and what they say of faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/text/tasks/conll.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/tasks/question_answers.h"
#include "ramet/text/tasks/text_kinds.h"
#include "support/fault.h"
#include "text/task_samples.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class TaskFiles : public testing::Test {
 protected:
  TemporaryFolder folder;
  TextExamples examples(const std::string& kind, const std::string& text, bool needs_labels = true) {
    return read_text_examples(*find_text_kind(kind), written(folder, "f.tsv", text), {}, needs_labels);
  }
  std::string fault(const std::string& kind, const std::string& text, bool needs_labels = true) {
    const std::string told = fault_of([&] { examples(kind, text, needs_labels); });
    return told.substr(std::min(told.size(), told.find("f.tsv") == told.npos ? 0 : told.find("f.tsv")));
  }
  std::string squad_fault(const std::string& text) {
    const std::string told = fault_of([&] { read_question_answers(written(folder, "f.json", text)); });
    return told.substr(std::min(told.size(), told.find("f.json") == told.npos ? 0 : told.find("f.json")));
  }
};

TEST_F(TaskFiles, GlueIsReadWithoutQuotes) {
  const TextExamples mrpc = examples(
      "mrpc", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t1\t2\t\" I do\t\"so\"\r\n0\t3\t4\tb\tc\r\n\r\n");
  ASSERT_EQ(mrpc.examples.size(), 2u);
  EXPECT_EQ(mrpc.examples[0].text, "\" I do");
  EXPECT_EQ(mrpc.examples[0].pair, "\"so\"");
  EXPECT_EQ(mrpc.examples[0].label, 1);
  EXPECT_EQ(mrpc.examples[1].id, "1");
  EXPECT_EQ(mrpc.examples[1].line, 3);
  const TextExamples test = examples("mrpc", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n7\t1\t2\ta\tb\n", false);
  EXPECT_FALSE(test.labelled);
  EXPECT_EQ(test.examples[0].id, "7");
  EXPECT_EQ(test.examples[0].label, -1);
}

TEST_F(TaskFiles, ColaHasAHeadInItsTestSetOnly) {
  EXPECT_EQ(examples("cola", "gj04\t0\t*\tThey drank it.\n").examples[0].text, "They drank it.");
  EXPECT_EQ(examples("cola", "gj04\t0\t*\tThey drank it.\n").examples[0].label, 0);
  const TextExamples test = examples("cola", "index\tsentence\n5\tBill whistled.\n", false);
  EXPECT_EQ(test.examples[0].text, "Bill whistled.");
  EXPECT_EQ(test.examples[0].id, "5");
}

TEST_F(TaskFiles, ScoresAreNumbers) {
  const std::string head = "index\tgenre\tsentence1\tsentence2\tscore\n";
  EXPECT_EQ(examples("stsb", head + "0\tx\ta\tb\t3.250\n").examples[0].value, 3.25);
  EXPECT_EQ(fault("stsb", head + "0\tx\ta\tb\t3,2\n"), "f.tsv:2: a score that is no number; found '3,2'; expected a number");
  EXPECT_THAT(fault("stsb", head + "0\tx\ta\tb\tnan\n"), HasSubstr("found 'nan'"));
}

TEST_F(TaskFiles, FaultsOfTablesAreToldWithTheirLine) {
  const std::string head = "sentence\tlabel\n";
  EXPECT_EQ(fault("sst2", head + "good\t1\nfine\n"),
            "f.tsv:3: a row with 1 column; found 'fine'; expected 2 columns separated by tabs: 'sentence' and 'label'");
  EXPECT_EQ(fault("sst2", head + "good\t2\n"), "f.tsv:2: a label outside the set; found '2'; expected '0' or '1'");
  EXPECT_EQ(fault("sst2", "text\tlabel\ngood\t1\n"),
            "f.tsv:1: no column 'sentence'; found columns 'text' and 'label'; expected a column of that name. Check that the "
            "file is the one that its task publishes, or name its columns");
  EXPECT_EQ(fault("sst2", ""), "f.tsv: an empty file; expected rows of columns separated by tabs");
  EXPECT_EQ(fault("sst2", head), "f.tsv: no examples; expected at least one row");
  EXPECT_THAT(fault("sst2", head + "go\xFFod\t1\n"), StartsWith("f.tsv:2"));
  EXPECT_THAT(fault("mnli", "sentence1\tsentence2\tgold_label\na\tb\tmaybe\n"),
              HasSubstr("found 'maybe'; expected 'entailment', 'neutral' or 'contradiction'"));
}

TEST_F(TaskFiles, RowsOfQqpThatAreCutAreLeftOut) {
  const TextExamples qqp = examples(
      "qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\t1\n4\t5\t6\ta cut\n7\t8\t9\tc\td\t0\n");
  EXPECT_EQ(qqp.examples.size(), 2u);
  EXPECT_EQ(qqp.skipped, 1);
  EXPECT_EQ(qqp.examples[1].id, "7");
}

TEST_F(TaskFiles, ClueIsJsonLines) {
  EXPECT_EQ(examples("tnews", "{\"label\": \"108\", \"sentence\": \"上课\"}\r\n").examples[0].label, 7);
  EXPECT_EQ(examples("tnews", "{\"label\": 108, \"sentence\": \"上课\"}\n").examples[0].label, 7);
  const TextExamples ocnli = examples("ocnli",
                                      "{\"sentence1\": \"a\", \"sentence2\": \"b\", \"label\": \"-\"}\n"
                                      "{\"sentence1\": \"c\", \"sentence2\": \"d\", \"label\": \"neutral\", \"id\": 9}\n");
  ASSERT_EQ(ocnli.examples.size(), 1u);
  EXPECT_EQ(ocnli.skipped, 1);
  EXPECT_EQ(ocnli.examples[0].id, "9");
  EXPECT_EQ(examples("csl", R"({"abst": "文", "keyword": ["一", "二"], "label": "1"})").examples[0].text, "一 二");
}

TEST_F(TaskFiles, CluewscMarksBothMentions) {
  const auto text = [&](const std::string& target, const std::string& words = "树叶飘了，他走了。") {
    return examples("cluewsc", "{\"target\": " + target + ", \"label\": \"true\", \"text\": \"" + words + "\"}")
        .examples[0]
        .text;
  };
  EXPECT_EQ(text(R"({"span1_text": "树叶", "span1_index": 0, "span2_text": "他", "span2_index": 5})"),
            "_树叶_飘了，[他]走了。");
  // The pronoun may come first; a place that is off is put right.
  EXPECT_EQ(text(R"({"span1_text": "走", "span1_index": 6, "span2_text": "他", "span2_index": 3})"),
            "树叶飘了，[他]_走_了。");
  EXPECT_THAT(fault("cluewsc", R"({"target": {"span1_text": "树", "span1_index": 99, "span2_text": "他", "span2_index": 5},)"
                               R"( "label": "true", "text": "树叶飘了，他走了。"})"),
              HasSubstr("f.tsv:1: span1_index is no place in the text; found '99'"));
}

TEST_F(TaskFiles, ChidHasAGapAndChoices) {
  const TextExamples chid = examples(
      "chid", R"({"id": 3, "candidates": ["一心", "二意"], "content": "他#idiom#地走", "answer": 1})");
  EXPECT_EQ(chid.examples[0].text, "他");
  EXPECT_EQ(chid.examples[0].pair, "地走");
  EXPECT_EQ(chid.examples[0].label, 1);
  EXPECT_THAT(fault("chid", R"({"candidates": ["一心", "二意"], "content": "他#idiom#地走", "answer": 2})"),
              HasSubstr("an answer that is none of the choices; found '2'; expected 0 to 1, or '一心' or '二意'"));
  EXPECT_THAT(fault("chid", R"({"candidates": ["一心", "二意"], "content": "他走", "answer": 1})"), HasSubstr("no gap"));
}

TEST_F(TaskFiles, FaultsOfJsonLinesAreToldWithTheirLine) {
  const std::string good = "{\"label\": \"100\", \"sentence\": \"a\"}\n";
  EXPECT_THAT(fault("tnews", good + "\n{\"label\": 100,\n"),
              HasSubstr("f.tsv:3, column 14: not JSON: syntax error while parsing object key"));
  EXPECT_THAT(fault("tnews", good + "{\"label\": \"100\", \"text\": \"a\"}\n"),
              HasSubstr("f.tsv:2: no 'sentence'; found an object with 'label', 'text'; expected a member of that name"));
  EXPECT_THAT(fault("tnews", good + "{\"label\": {}, \"sentence\": \"a\"}\n"),
              HasSubstr("f.tsv:2 label: not one value; found an object without members"));
  EXPECT_THAT(fault("tnews", good + "{\"label\": \"105\", \"sentence\": \"a\"}\n"),
              HasSubstr("f.tsv:2: a label outside the set; found '105'; expected '100', '101', '102'"));
  EXPECT_THAT(fault("tnews", good + "[1]\n"), HasSubstr("f.tsv:2"));
}

const std::string kSquad = R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [
  {"context": "Ärger im Haus. Das Haus brennt.", "qas": [
    {"id": "1", "question": "Was brennt?", "answers": [{"text": "Haus", "answer_start": 19}, {"text": "Das Haus", "answer_start": 15}]},
    {"id": "2", "question": "Wo?", "answers": [{"text": "im Haus", "answer_start": 6}]}]}]}]})";

TEST_F(TaskFiles, SquadCountsCharactersNotBytes) {
  const QuestionAnswers data = read_question_answers(written(folder, "f.json", kSquad));
  ASSERT_EQ(data.questions.size(), 2u);
  EXPECT_TRUE(data.labelled);
  EXPECT_EQ(data.moved, 0);
  EXPECT_EQ(data.questions[0].answers[0].place, (TokenSpan{20, 24}));  // the second "Haus", behind a two-byte Ä
  EXPECT_EQ(data.questions[1].answers[0].place, (TokenSpan{7, 14}));
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST_F(TaskFiles, AnAnswerThatIsOffIsPutWhereItStands) {
  const QuestionAnswers data = read_question_answers(
      written(folder, "f.json", changed(kSquad, "\"Haus\", \"answer_start\": 19", "\"Haus\", \"answer_start\": 17")));
  EXPECT_EQ(data.moved, 1);
  EXPECT_EQ(data.questions[0].answers[0].place, (TokenSpan{20, 24}));
}

TEST_F(TaskFiles, FaultsOfSquadAreToldWithLineAndPlace) {
  EXPECT_EQ(squad_fault(changed(kSquad, "\"id\": \"2\", ", "")),
            "f.json:4 data[0].paragraphs[0].qas[1]: no 'id'; found an object with 'answers', 'question'; expected a member "
            "'id'");
  EXPECT_EQ(squad_fault(changed(kSquad, "\"im Haus\"", "\"im Hof\"")),
            "f.json:4 data[0].paragraphs[0].qas[1].answers[0].text: an answer that does not stand in its context; found 'im "
            "Hof'; expected words of the context");
  EXPECT_EQ(squad_fault(changed(kSquad, "\"answer_start\": 6", "\"answer_start\": 60")),
            "f.json:4 data[0].paragraphs[0].qas[1].answers[0].answer_start: an answer that begins outside its context; found "
            "60; expected 0 to 31, in characters");
  EXPECT_THAT(squad_fault(changed(kSquad, "\"answer_start\": 6", "\"answer_start\": \"6\"")),
              HasSubstr("answer_start: not a whole number; found '6'"));
  EXPECT_THAT(squad_fault(changed(kSquad, "\"id\": \"2\"", "\"id\": \"1\"")), HasSubstr("qas[1].id: an id given twice"));
  EXPECT_THAT(squad_fault(changed(kSquad, "[{\"title\"", "{\"title\"")), HasSubstr("f.json:4, column"));
  EXPECT_THAT(squad_fault(kSquad.substr(0, 200)), HasSubstr("not JSON: syntax error while parsing"));
  EXPECT_THAT(squad_fault("[]"), HasSubstr("f.json:1: no questions"));
  EXPECT_THAT(squad_fault("{\"data\": 3}"), HasSubstr("f.json:1 data: not a list; found 3; expected an array"));
  EXPECT_THAT(squad_fault("{\"data\": [], \"data\": [[\n3]]}"), HasSubstr("f.json:1 data[0]: not an object"));
  EXPECT_THAT(squad_fault(""), HasSubstr("found an empty file"));
}

TEST_F(TaskFiles, Squad2SaysWhatHasNoAnswer) {
  const std::string text = changed(kSquad, "\"answers\": [{\"text\": \"im Haus\", \"answer_start\": 6}]",
                                   "\"answers\": [], \"is_impossible\": true");
  const QuestionAnswers data = read_question_answers(written(folder, "f.json", text));
  EXPECT_TRUE(data.questions[1].impossible);
  EXPECT_TRUE(data.labelled);
  EXPECT_FALSE(read_question_answers(written(folder, "f.json", changed(text, ", \"is_impossible\": true", ""))).labelled);
  EXPECT_THAT(squad_fault(changed(kSquad, "\"question\": \"Wo?\"", "\"question\": \"Wo?\", \"is_impossible\": true")),
              HasSubstr("answers of a question that has none"));
}

TEST_F(TaskFiles, CmrcKeepsAnswersThatStandNowhere) {
  const std::string text = R"([{"context_id": "1", "context_text": "光荣开发", "qas":
    [{"query_id": "q", "query_text": "谁？", "answers": ["光荣", "任天堂"]}]}])";
  const QuestionAnswers data = read_question_answers(written(folder, "f.json", text), AbsentAnswer::kKeep);
  EXPECT_EQ(data.absent, 1);
  EXPECT_TRUE(data.questions[0].answers[0].placed);
  EXPECT_FALSE(data.questions[0].answers[1].placed);
  EXPECT_THAT(squad_fault(text), HasSubstr("f.json:2 [0].qas[0].answers[1]: an answer that does not stand"));
}

TEST_F(TaskFiles, DeepJsonIsNoDanger) {
  const std::string deep(200'000, '[');
  EXPECT_THAT(squad_fault(deep), HasSubstr("not JSON"));
  EXPECT_THAT(squad_fault("{\"data\": [" + deep + std::string(200'000, ']') + "]}"), HasSubstr("data[0]: not an object"));
}

TEST_F(TaskFiles, ConllIsColumns) {
  const std::string text = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\r\n\n\nPeter\tNNP\tB-NP\tB-PER\n";
  const ConllFile file = read_conll(written(folder, "f.txt", text), 0, 3);
  ASSERT_EQ(file.sentences.size(), 2u);
  EXPECT_THAT(file.sentences[0].words, ElementsAre("EU", "rejects"));
  EXPECT_THAT(file.sentences[0].labels, ElementsAre("B-ORG", "O"));
  EXPECT_THAT(file.sentences[1].labels, ElementsAre("B-PER"));
  EXPECT_EQ(file.sentences[1].line, 7);
  EXPECT_THAT(read_conll(folder / "f.txt", 0, -2).sentences[1].labels, ElementsAre("B-NP"));
  const auto told = [&](const std::string& contents, int column = -1) {
    const std::string fault = fault_of([&] { read_conll(written(folder, "f.txt", contents), 0, column); });
    return fault.substr(std::min(fault.size(), fault.find("f.txt")));
  };
  EXPECT_EQ(told("a B\nb\n"), "f.txt:2: a line with 1 column; found 'b'; expected 2, as on the first line");
  EXPECT_EQ(told("a B\n", 5),
            "f.txt:1: no column 5; found 2 columns; expected a word, and behind it its labels, separated by blanks");
  EXPECT_EQ(told("\n\n"), "f.txt: no words; expected a word on each line, with its labels");
}

TEST_F(TaskFiles, WordListsAreJsonLines) {
  const std::string text = "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\", \"B-X\"]}\n";
  EXPECT_THAT(read_word_lists(written(folder, "f.json", text), "tokens", "tags", true).sentences[0].labels,
              ElementsAre("O", "B-X"));
  EXPECT_THAT(fault_of([&] {
                read_word_lists(written(folder, "f.json", text + "{\"tokens\": [\"a\"], \"tags\": []}\n"), "tokens", "tags", true);
              }),
              HasSubstr("f.json:2: as many labels as words are needed; found 0 labels; expected 1"));
}

}  // namespace
}  // namespace ramet::tests

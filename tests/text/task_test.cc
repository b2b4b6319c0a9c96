#include "ramet/text/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ramet/base/file.h"
#include "ramet/text/tasks/row_builder.h"
#include "support/fault.h"
#include "text/task_samples.h"

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::SizeIs;

// Ids of tests/samples/tasks/vocab.txt.
enum Token : int32_t {
  kCls = 2, kSep = 3, kThe = 5, kCat, kSat, kOn, kA, kMat, kDog, kRan, kDot, kComma, kAsk, kWho, kWhere, kS, kLy, kQuick,
  kBlack, kWhite, kEd, kPieceEd, kJump
};

std::string text_of(const std::filesystem::path& path) { return read_file(path); }

/// Outputs of one run, `width` numbers a feature.
TaskOutputs outputs(int64_t width, std::vector<float> values) { return {width, std::move(values)}; }

class Tasks : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::shared_ptr<const Tokenizer> tokenizer = sample_tokenizer();

  TaskOptions options(const std::string& kind, int64_t max_length = 32) {
    return task_options(kind, *tokenizer, max_length);
  }
  std::string fault(const TaskOptions& given) {
    return fault_of([&] { open_task(given, tokenizer); });
  }
};

// Hugging Face's `tokenizers` keep as many of each ("longest_first"); the numbers are its own.
TEST(Rows, TheLongerTextIsCutFirst) {
  const auto kept = [](size_t a, size_t b, size_t room) {
    const PairLengths lengths = cut_longest_first(a, b, room);
    return std::pair(lengths.a, lengths.b);
  };
  EXPECT_EQ(kept(3, 4, 7), std::pair(size_t{3}, size_t{4}));
  EXPECT_EQ(kept(10, 3, 7), std::pair(size_t{4}, size_t{3}));
  EXPECT_EQ(kept(3, 10, 7), std::pair(size_t{3}, size_t{4}));
  EXPECT_EQ(kept(10, 9, 7), std::pair(size_t{4}, size_t{3}));
  EXPECT_EQ(kept(9, 10, 7), std::pair(size_t{3}, size_t{4}));
  EXPECT_EQ(kept(9, 9, 7), std::pair(size_t{3}, size_t{4}));
  EXPECT_EQ(kept(0, 10, 7), std::pair(size_t{0}, size_t{7}));
}

TEST_F(Tasks, PairsAreFramed) {
  TaskOptions given = options("rte");
  given.dev = written(folder, "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\tThe cat sat.\ta dog\tentailment\n");
  const auto task = open_task(given, tokenizer);
  EXPECT_EQ(task->head(), TaskHead::kClassification);
  EXPECT_THAT(task->labels(), ElementsAre("entailment", "not_entailment"));
  EXPECT_EQ(task->train(), nullptr);
  const TaskFeature feature = task->dev()->feature(0);
  ASSERT_EQ(feature.rows.size(), 1u);
  EXPECT_THAT(feature.rows[0].input_ids, ElementsAre(kCls, kThe, kCat, kSat, kDot, kSep, kA, kDog, kSep));
  EXPECT_THAT(feature.rows[0].token_type_ids, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_EQ(feature.label, 0);

  given.frame.two_separators = true;
  given.frame.types = false;
  given.max_length = 8;
  const TaskFeature roberta = open_task(given, tokenizer)->dev()->feature(0);
  EXPECT_THAT(roberta.rows[0].input_ids, ElementsAre(kCls, kThe, kCat, kSep, kSep, kA, kDog, kSep));
  EXPECT_THAT(roberta.rows[0].token_type_ids, Each(0));
}

TEST_F(Tasks, ClassesAreScoredAndAnswered) {
  TaskOptions given = options("mrpc");
  const std::string head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  given.dev = written(folder, "dev.tsv", head + "1\t1\t1\ta\tb\n0\t1\t1\ta\tb\n1\t1\t1\ta\tb\n1\t1\t1\ta\tb\n");
  const auto dev = open_task(given, tokenizer)->dev();
  const TaskOutputs first = outputs(2, {0, 1, 0, 2, 3, 1, 0, 1}), second = outputs(2, {0, 1, 5, 0, 0, 5, 0, 1});
  auto scores = dev->score(std::vector{first});  // says 1 1 0 1 of 1 0 1 1
  EXPECT_EQ(scores[0].first, "accuracy");
  EXPECT_DOUBLE_EQ(scores[0].second, 50);
  EXPECT_EQ(scores[1].first, "f1");
  EXPECT_DOUBLE_EQ(scores[1].second, 200.0 / 3);
  scores = dev->score(std::vector{first, second});  // the mean of logits says 1 0 1 1
  EXPECT_DOUBLE_EQ(scores[0].second, 100);
  dev->write_predictions(std::vector{first}, folder / "out.tsv");
  EXPECT_EQ(text_of(folder / "out.tsv"), "index\tprediction\n0\t1\n1\t1\n2\t0\n3\t1\n");
}

TEST_F(Tasks, NumbersAreScored) {
  TaskOptions given = options("stsb");
  given.dev = written(folder, "dev.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t1\n1\ta\tb\t2\n2\ta\tb\t3\n");
  const auto task = open_task(given, tokenizer);
  EXPECT_EQ(task->head(), TaskHead::kRegression);
  EXPECT_EQ(task->metric(), "pearson");
  EXPECT_EQ(task->dev()->feature(1).value, 2);
  EXPECT_EQ(task->dev()->feature(1).label, -1);
  const auto scores = task->dev()->score(std::vector{outputs(1, {0, 1, 4})});
  EXPECT_NEAR(scores[0].second, 100 * 4 / std::sqrt(2 * (26.0 / 3)), 1e-4);
  EXPECT_DOUBLE_EQ(scores[1].second, 100);
}

TEST_F(Tasks, TestFilesHaveNoScore) {
  TaskOptions given = options("sst2");
  given.test = written(folder, "test.tsv", "index\tsentence\n5\ta cat\n");
  const auto test = open_task(given, tokenizer)->test();
  EXPECT_FALSE(test->labelled());
  EXPECT_EQ(test->feature(0).label, -1);
  const std::vector<TaskOutputs> runs = {outputs(2, {0, 1})};
  EXPECT_THAT(fault_of([&] { test->score(runs); }), HasSubstr("test.tsv: a file without labels cannot be scored"));
  test->write_predictions(runs, folder / "out.tsv");
  EXPECT_EQ(text_of(folder / "out.tsv"), "index\tprediction\n5\t1\n");
}

TEST_F(Tasks, AnybodysOwnFiles) {
  TaskOptions given = options("classification");
  given.text = "review", given.label = "stars";
  given.train = written(folder, "train.jsonl",
                        "{\"review\": \"the cat\", \"stars\": 10}\n{\"review\": \"a dog\", \"stars\": 2}\n");
  given.dev = written(folder, "dev.tsv", "stars\treview\n2\tthe dog\n");
  const auto task = open_task(given, tokenizer);
  EXPECT_THAT(task->labels(), ElementsAre("2", "10"));  // numbers by their size
  EXPECT_EQ(task->train()->feature(0).label, 1);
  EXPECT_THAT(task->dev()->feature(0).rows[0].input_ids, ElementsAre(kCls, kThe, kDog, kSep));
  given.text = "1", given.label = "0";  // columns by number: no head
  given.train.clear();
  given.labels = {"2", "9"};
  given.dev = written(folder, "dev.tsv", "2\tthe dog\n9\ta cat\n");
  EXPECT_EQ(open_task(given, tokenizer)->dev()->feature(1).label, 1);

  TaskOptions choice = options("choice");
  choice.text = "q", choice.pair = "a, b", choice.label = "right";
  choice.dev = written(folder, "choice.tsv", "q\ta\tb\tright\nwho\tcat\tdog\t1\nwhere\tmat\tdog\tmat\n");
  const auto choices = open_task(choice, tokenizer);
  EXPECT_EQ(choices->head(), TaskHead::kChoice);
  EXPECT_EQ(choices->choices(), 2);
  EXPECT_EQ(choices->dev()->feature(1).label, 0);
  EXPECT_THAT(choices->dev()->feature(0).rows[1].input_ids, ElementsAre(kCls, kWho, kSep, kDog, kSep));
  EXPECT_DOUBLE_EQ(choices->dev()->score(std::vector{outputs(2, {0, 1, 0, 1})})[0].second, 50);
}

TEST_F(Tasks, ChidFillsItsGapFromBothSides) {
  TaskOptions given = options("chid", 6);
  given.dev = written(folder, "dev.json", R"({"id": 1, "candidates": ["cat", "black dog"], "content": "the quick #idiom# sat on a mat", "answer": 0})");
  const auto dev = open_task(given, tokenizer)->dev();
  const TaskFeature feature = dev->feature(0);
  EXPECT_EQ(feature.label, 0);
  EXPECT_THAT(feature.rows[0].input_ids, ElementsAre(kCls, kQuick, kCat, kSat, kOn, kSep));
  EXPECT_THAT(feature.rows[1].input_ids, ElementsAre(kCls, kQuick, kBlack, kDog, kSat, kSep));
  dev->write_predictions(std::vector{outputs(2, {0, 1})}, folder / "out.json");
  EXPECT_EQ(text_of(folder / "out.json"), "{\"id\":1,\"answer\":1}\n");
}

const char* const kQuestions = R"({"data": [{"paragraphs": [{"context": "The cat sat on a mat. The quick dog ran.", "qas": [
  {"id": "x", "question": "who sat?", "answers": [{"text": "cat", "answer_start": 4}]},
  {"id": "y", "question": "who ran?", "answers": [{"text": "quick dog", "answer_start": 26}]}]}]}]})";

TEST_F(Tasks, LongContextsComeInWindows) {
  TaskOptions given = options("squad", 12);
  given.max_query = 4, given.stride = 3;
  given.train = written(folder, "train.json", kQuestions);
  const auto task = open_task(given, tokenizer);
  EXPECT_EQ(task->head(), TaskHead::kSpan);
  const auto train = task->train();
  // 12 tokens, windows of 12 - 3 - 3: at 0, 3 and 6.
  EXPECT_EQ(train->examples(), 2);
  ASSERT_EQ(train->features(), 6);
  const TaskFeature first = train->feature(0);
  EXPECT_THAT(first.rows[0].input_ids,
              ElementsAre(kCls, kWho, kSat, kAsk, kSep, kThe, kCat, kSat, kOn, kA, kMat, kSep));
  EXPECT_THAT(first.rows[0].token_type_ids, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(std::pair(first.start, first.end), std::pair(6, 6));
  EXPECT_EQ(std::pair(train->feature(1).start, train->feature(1).end), std::pair(0, 0));  // not in this window
  EXPECT_EQ(std::pair(train->feature(5).start, train->feature(5).end), std::pair(7, 8));
  EXPECT_THAT(train->feature(5).rows[0].input_ids,
              ElementsAre(kCls, kWho, kRan, kAsk, kSep, kDot, kThe, kQuick, kDog, kRan, kDot, kSep));
}

TEST_F(Tasks, AnswersAreFoundAndScored) {
  TaskOptions given = options("squad", 12);
  given.max_query = 4, given.stride = 3;
  given.dev = written(folder, "dev.json", kQuestions);
  const auto dev = open_task(given, tokenizer)->dev();
  std::vector<float> values(6 * 24);
  const auto say = [&](int64_t feature, int start, int end, float logit) {
    values[static_cast<size_t>(feature * 24 + start)] = logit;
    values[static_cast<size_t>(feature * 24 + 12 + end)] = logit;
  };
  say(0, 6, 6, 5);    // "cat"
  say(5, 7, 9, 5);    // "quick dog ran"
  say(5, 11, 11, 9);  // the row's last [SEP], which is no answer
  const std::vector<TaskOutputs> runs = {outputs(24, values)};
  const auto scores = dev->score(runs);
  EXPECT_EQ(scores[0].first, "f1");
  EXPECT_DOUBLE_EQ(scores[0].second, 100 * (1 + 0.8) / 2);
  EXPECT_DOUBLE_EQ(scores[1].second, 50);
  dev->write_predictions(runs, folder / "out.json");
  EXPECT_EQ(text_of(folder / "out.json"), "{\n \"x\": \"cat\",\n \"y\": \"quick dog ran\"\n}\n");
}

TEST_F(Tasks, QuestionsWithoutAnAnswer) {
  TaskOptions given = options("squad2");
  const std::string text = R"({"data": [{"paragraphs": [{"context": "The cat sat.", "qas": [
    {"id": "x", "question": "who?", "is_impossible": false, "answers": [{"text": "cat", "answer_start": 4}]},
    {"id": "y", "question": "where?", "is_impossible": true, "answers": []}]}]}]})";
  given.max_query = 8;
  given.dev = written(folder, "dev.json", text);
  const auto dev = open_task(given, tokenizer)->dev();
  EXPECT_EQ(std::pair(dev->feature(1).start, dev->feature(1).end), std::pair(0, 0));
  std::vector<float> values(2 * 64);
  values[0 * 64 + 5] = values[0 * 64 + 32 + 5] = 3;  // "cat"
  values[1 * 64 + 5] = values[1 * 64 + 32 + 5] = 2;
  values[1 * 64 + 0] = values[1 * 64 + 32] = 3;  // [CLS] says more
  EXPECT_DOUBLE_EQ(dev->score(std::vector{outputs(64, values)})[1].second, 100);
  given.null_threshold = 2.5;
  EXPECT_DOUBLE_EQ(open_task(given, tokenizer)->dev()->score(std::vector{outputs(64, values)})[1].second, 50);
  given.kind = "squad";
  given.train = given.dev;
  EXPECT_THAT(fault(given), HasSubstr("questions that have no answer; expected an answer for every question. Use task kind squad2"));
}

TEST_F(Tasks, WordsAreLabelledAtTheirFirstPiece) {
  TaskOptions given = options("conll", 8);
  given.train = written(folder, "train.txt", "the DT B-NP\nblacked JJ I-NP\ncat NN I-NP\nsat VB B-VP\n. . O\n\nhe PRP B-NP\n");
  const auto task = open_task(given, tokenizer);
  EXPECT_EQ(task->head(), TaskHead::kTokens);
  EXPECT_THAT(task->labels(), ElementsAre("B-NP", "B-VP", "I-NP", "O"));
  const auto train = task->train();
  ASSERT_EQ(train->features(), 2);
  const TaskFeature feature = train->feature(0);
  EXPECT_THAT(feature.rows[0].input_ids, ElementsAre(kCls, kThe, kBlack, kPieceEd, kCat, kSat, kDot, kSep));
  EXPECT_THAT(feature.token_labels, ElementsAre(-1, 0, 2, -1, 2, 1, 3, -1));
  // All right but "." and "he".
  std::vector<float> values(2 * 8 * 4);
  const auto say = [&](size_t row, size_t token, size_t label) { values[row * 32 + token * 4 + label] = 1; };
  say(0, 1, 0), say(0, 2, 2), say(0, 3, 3), say(0, 4, 2), say(0, 5, 1), say(0, 6, 1), say(1, 1, 3);
  const std::vector<TaskOutputs> runs = {outputs(32, values)};
  const auto scores = train->score(runs);
  EXPECT_EQ(scores[0].first, "f1");
  EXPECT_DOUBLE_EQ(scores[0].second, 200.0 * 2 / (3 + 3));  // "." is a VP too much, "he" an NP too few
  train->write_predictions(runs, folder / "out.txt");
  EXPECT_EQ(text_of(folder / "out.txt"),
            "the B-NP B-NP\nblacked I-NP I-NP\ncat I-NP I-NP\nsat B-VP B-VP\n. O B-VP\n\nhe B-NP O\n\n");

  given.max_length = 5;  // a sentence that does not fit goes on in the next row, at a word
  const auto pieces = open_task(given, tokenizer)->train();
  ASSERT_EQ(pieces->features(), 3);
  EXPECT_EQ(pieces->examples(), 2);
  EXPECT_THAT(pieces->feature(1).rows[0].input_ids, ElementsAre(kCls, kCat, kSat, kDot, kSep));
}

TEST_F(Tasks, FaultsOfOptionsAreNamed) {
  EXPECT_THAT(fault(options("mprc")), HasSubstr("task.kind: no such kind of task; found 'mprc'; expected perhaps 'mrpc', or another of cola, sst2"));
  EXPECT_THAT(fault(options("rte")), HasSubstr("task.data: no files of task 'rte'; found neither a folder nor files"));
  TaskOptions given = options("rte");
  given.data = folder.path();
  EXPECT_THAT(fault(given), HasSubstr("expected train.tsv"));
  given.dev = "none.tsv";
  EXPECT_THAT(fault(given), HasSubstr("task.dev: there is no such file; found 'none.tsv'"));
  given = options("squad", 20);
  given.dev = written(folder, "dev.json", kQuestions);
  EXPECT_THAT(fault(given), HasSubstr("task.max_query: questions leave no room for the context; found 64 tokens of 20; expected less than 17"));
  given = options("rte", 4);
  given.dev = written(folder, "dev.tsv", "sentence1\tsentence2\tlabel\na\tb\tentailment\n");
  EXPECT_THAT(fault(given), HasSubstr("task.max_length: rows are too short for the task; found 4; expected 5 tokens or more"));
  EXPECT_THAT(fault(options("classification")), HasSubstr("task.text: the column of the text is not named"));
}

TEST_F(Tasks, TheHashTellsFilesAndOptionsApart) {
  TaskOptions given = options("sst2");
  given.dev = written(folder, "dev.tsv", "sentence\tlabel\na\t1\n");
  const std::string hash = open_task(given, tokenizer)->hash();
  EXPECT_EQ(open_task(given, tokenizer)->hash(), hash);
  given.max_length = 33;
  EXPECT_NE(open_task(given, tokenizer)->hash(), hash);
  given.max_length = 32;
  given.dev = written(folder, "dev.tsv", "sentence\tlabel\na\t0\n");
  EXPECT_NE(open_task(given, tokenizer)->hash(), hash);
}

/// Every feature of a split has rows that a model can read.
void expect_whole(const TaskSplit& split, const TaskOptions& options, int64_t labels, int64_t step) {
  for (int64_t i = 0; i < split.features(); i += step) {
    const TaskFeature feature = split.feature(i);
    for (const TaskRow& row : feature.rows) {
      ASSERT_LE(row.input_ids.size(), static_cast<size_t>(options.max_length));
      ASSERT_EQ(row.input_ids.size(), row.token_type_ids.size());
      ASSERT_EQ(row.input_ids.front(), options.frame.classify);
      ASSERT_EQ(row.input_ids.back(), options.frame.separator);
    }
    ASSERT_TRUE(feature.label >= -1 && feature.label < std::max<int64_t>(labels, 1));
  }
}

struct Published {
  const char* kind;
  int64_t train, dev, test;
  bool test_labelled;
  int64_t labels;
};

TEST(PublishedTasks, GlueIsReadWhole) {
  RAMET_NEED_DATA(glue, "glue");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-uncased.txt");
  const std::shared_ptr<const Tokenizer> tokenizer = WordPieceTokenizer::load(vocab);
  for (const Published& expected :
       {Published{"cola", 8551, 1043, 1063, false, 2}, Published{"mrpc", 3667, 408, 1725, true, 2},
        Published{"stsb", 5749, 1500, 1379, false, 0}, Published{"qnli", 0, 5463, 5463, false, 2},
        Published{"rte", 2490, 277, 3000, false, 2}, Published{"wnli", 635, 71, 146, false, 2},
        Published{"sst2", 67349, 872, 1821, false, 2}}) {
    TaskOptions options = task_options(expected.kind, *tokenizer, 128);
    options.data = glue;
    options.limit_train = 2000;
    const auto task = open_task(options, tokenizer);
    EXPECT_EQ(task->train() ? task->train()->examples() : 0, std::min<int64_t>(2000, expected.train)) << expected.kind;
    EXPECT_EQ(task->dev()->examples(), expected.dev) << expected.kind;
    EXPECT_EQ(task->test()->examples(), expected.test) << expected.kind;
    EXPECT_TRUE(task->dev()->labelled());
    EXPECT_EQ(task->test()->labelled(), expected.test_labelled) << expected.kind;
    EXPECT_EQ(static_cast<int64_t>(task->labels().size()), expected.labels) << expected.kind;
    expect_whole(*task->dev(), options, expected.labels, 7);
  }
}

TEST(PublishedTasks, FewClueIsReadWhole) {
  RAMET_NEED_DATA(fewclue, "fewclue");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-chinese.txt");
  const std::shared_ptr<const Tokenizer> tokenizer = WordPieceTokenizer::load(vocab);
  for (const Published& expected :
       {Published{"tnews", 240, 240, 2010, true, 15}, Published{"iflytek", 928, 690, 1749, true, 119},
        Published{"ocnli", 32, 32, 2520, true, 3}, Published{"cluewsc", 32, 32, 976, true, 2},
        Published{"csl", 32, 32, 2838, true, 2}, Published{"eprstmt", 32, 32, 610, true, 2},
        Published{"csldcp", 536, 536, 1784, true, 67}, Published{"bustm", 32, 32, 1772, true, 2},
        Published{"chid", 42, 42, 2002, true, 0}}) {
    TaskOptions options = task_options(expected.kind, *tokenizer, 128);
    options.data = fewclue;
    const auto task = open_task(options, tokenizer);
    EXPECT_EQ(task->train()->examples(), expected.train) << expected.kind;
    EXPECT_EQ(task->dev()->examples(), expected.dev) << expected.kind;
    EXPECT_EQ(task->test()->examples(), expected.test) << expected.kind;
    EXPECT_EQ(task->test()->labelled(), expected.test_labelled) << expected.kind;
    EXPECT_EQ(static_cast<int64_t>(task->labels().size()), expected.labels) << expected.kind;
    EXPECT_EQ(task->choices(), std::string(expected.kind) == "chid" ? 7 : 1);
    expect_whole(*task->test(), options, task->choices() > 1 ? 7 : expected.labels, 11);
  }
}

/// Gives the logits of an oracle: each window's own answer.
double oracle_f1(const TaskSplit& split, int64_t length) {
  TaskOutputs run{2 * length, std::vector<float>(static_cast<size_t>(split.features() * 2 * length))};
  for (int64_t f = 0; f < split.features(); ++f) {
    const TaskFeature feature = split.feature(f);
    if (feature.start < 0) continue;
    const float logit = feature.start > 0 ? 9.0f : 1.0f;
    run.values[static_cast<size_t>(f * 2 * length + feature.start)] = logit;
    run.values[static_cast<size_t>(f * 2 * length + length + feature.end)] = logit;
  }
  return split.score(std::vector{run})[0].second;
}

TEST(PublishedTasks, SquadsWindowsHoldItsAnswers) {
  RAMET_NEED_DATA(squad, "squad/dev-v1.1.json");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-uncased.txt");
  const std::shared_ptr<const Tokenizer> tokenizer = WordPieceTokenizer::load(vocab);
  TaskOptions options = task_options("squad", *tokenizer, 384);
  options.dev = squad;
  options.max_answer = 100;
  EXPECT_EQ(open_task(options, tokenizer)->dev()->features(), 10833);  // as BERT's run_squad makes
  options.limit_dev = 2000;
  const auto dev = open_task(options, tokenizer)->dev();
  expect_whole(*dev, options, 0, 13);
  EXPECT_GT(oracle_f1(*dev, 384), 99.8);
}

TEST(PublishedTasks, ChineseAnswersAreFoundToo) {
  RAMET_NEED_DATA(folder, "chinese-qa");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-chinese.txt");
  const std::shared_ptr<const Tokenizer> tokenizer = WordPieceTokenizer::load(vocab);
  struct File {
    const char *kind, *name;
    int64_t questions;
  };
  for (const File& file : {File{"cmrc2018", "cmrc2018_dev.json", 3219}, File{"drcd", "DRCD_dev.json", 3524}}) {
    TaskOptions options = task_options(file.kind, *tokenizer, 384);
    options.dev = folder / file.name;
    EXPECT_EQ(open_task(options, tokenizer)->dev()->examples(), file.questions);
    options.limit_dev = 500;
    options.max_answer = 100;
    EXPECT_GT(oracle_f1(*open_task(options, tokenizer)->dev(), 384), 99) << file.kind;
  }
}

TEST(PublishedTasks, ConllIsReadWhole) {
  RAMET_NEED_DATA(conll, "conll2000");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-uncased.txt");
  const std::shared_ptr<const Tokenizer> tokenizer = WordPieceTokenizer::load(vocab);
  TaskOptions options = task_options("conll2000", *tokenizer, 64);
  options.data = conll;
  const auto task = open_task(options, tokenizer);
  EXPECT_EQ(task->train()->examples(), 8936);
  EXPECT_EQ(task->dev()->examples(), 2012);
  EXPECT_EQ(task->labels().size(), 23u);
  expect_whole(*task->dev(), options, 0, 5);
}

}  // namespace
}  // namespace ramet::tests

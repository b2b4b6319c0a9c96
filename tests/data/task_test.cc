#include "ramet/data/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/task_samples.h"
#include "support/fault.h"

namespace ramet {
namespace {

using test::fault_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const Tokenizer> bert(const std::filesystem::path& vocab) { return WordPieceTokenizer::load(vocab); }

TEST(PublishedTasks, AllFilesAtHandAreRead) {
  RAMET_NEED_DATA(glue, "glue");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-uncased.txt");
  const auto tokenizer = bert(vocab);
  struct Expected {
    const char* kind;
    int64_t train, dev, test;
    bool test_labelled;
  };
  for (const Expected& expected :
       {Expected{"cola", 8551, 1043, 1063, false}, Expected{"sst2", 67349, 872, 1821, false},
        Expected{"mrpc", 4076, 408, 1725, true}, Expected{"stsb", 5749, 1500, 1379, false},
        Expected{"qnli", 0, 5463, 5463, false}, Expected{"rte", 2490, 277, 3000, false},
        Expected{"wnli", 635, 71, 146, false}}) {
    TaskOptions options = test::task_options(expected.kind, *tokenizer, 128);
    options.data = glue;
    const auto task = open_task(options, tokenizer);
    ASSERT_EQ(task->train() ? task->train()->examples() : 0, expected.train) << expected.kind;
    ASSERT_EQ(task->dev()->examples(), expected.dev) << expected.kind;
    ASSERT_EQ(task->test()->examples(), expected.test) << expected.kind;
    EXPECT_TRUE(task->dev()->labelled());
    EXPECT_EQ(task->test()->labelled(), expected.test_labelled) << expected.kind;
  }
}

TEST(PublishedTasks, SquadIsRead) {
  RAMET_NEED_DATA(data, "squad");
  RAMET_NEED_DATA(vocab, "vocab/bert-base-uncased.txt");
  const auto tokenizer = bert(vocab);
  TaskOptions options = test::task_options("squad", *tokenizer, 384);
  options.data = data;
  const auto task = open_task(options, tokenizer);
  EXPECT_EQ(task->dev()->examples(), 10570);
  EXPECT_EQ(task->dev()->features(), 10833);
}

}  // namespace
}  // namespace ramet

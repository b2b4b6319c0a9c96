#include "ramet/text/task_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Feature i: rows of i % 3 + 1 tokens, with a label of each kind.
class Numbered final : public TaskSplit {
 public:
  explicit Numbered(int64_t count, int64_t rows = 1) : count_(count), rows_(rows) {}
  int64_t examples() const override { return count_; }
  int64_t features() const override { return count_; }
  TaskFeature feature(int64_t index) const override {
    TaskFeature feature;
    const auto length = static_cast<size_t>(index % 3 + 1), id = static_cast<size_t>(index);
    for (int64_t row = 0; row < rows_; ++row)
      feature.rows.push_back({std::vector<int32_t>(length, static_cast<int32_t>(10 * row + index)),
                              std::vector<int32_t>(length, static_cast<int32_t>(row))});
    feature.label = static_cast<int32_t>(id), feature.value = 0.5f * static_cast<float>(id);
    feature.start = 0, feature.end = static_cast<int32_t>(length) - 1;
    feature.token_labels.assign(length, static_cast<int32_t>(id));
    return feature;
  }
  bool labelled() const override { return true; }
  std::vector<std::pair<std::string, double>> score(std::span<const TaskOutputs>) const override { return {}; }
  void write_predictions(std::span<const TaskOutputs>, const std::filesystem::path&) const override {}

 private:
  int64_t count_, rows_;
};

template <typename T>
std::vector<T> values(const Batch& batch, std::string_view name) {
  const NamedTensor& tensor = batch.at(name);
  const auto* begin = reinterpret_cast<const T*>(tensor.bytes.data());
  return {begin, begin + tensor.type.elements()};
}

TEST(TaskBatches, PadsRowsAndLabels) {
  TaskBatchOptions options{.head = TaskHead::kClassification, .max_length = 4, .padding = 99, .shuffle = false};
  const auto split = std::make_shared<Numbered>(3);
  Batch batch = make_task_batches(split, options)->make(0, 2);
  EXPECT_THAT(values<int32_t>(batch, "input_ids"), ElementsAre(0, 99, 99, 99, 1, 1, 99, 99));
  EXPECT_THAT(values<int32_t>(batch, "attention_mask"), ElementsAre(1, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_THAT(values<int32_t>(batch, "labels"), ElementsAre(0, 1));
  options.head = TaskHead::kRegression;
  EXPECT_THAT(values<float>(make_task_batches(split, options)->make(0, 3), "labels"), ElementsAre(0, 0.5f, 1));
  options.head = TaskHead::kTokens;
  batch = make_task_batches(split, options)->make(1, 1);
  EXPECT_THAT(values<int32_t>(batch, "labels"), ElementsAre(1, 1, -1, -1));
  options.head = TaskHead::kSpan;
  batch = make_task_batches(split, options)->make(1, 2);
  EXPECT_THAT(values<int32_t>(batch, "start_positions"), ElementsAre(0, 0));
  EXPECT_THAT(values<int32_t>(batch, "end_positions"), ElementsAre(1, 2));
}

TEST(TaskBatches, ChoicesOfASampleStandTogether) {
  const TaskBatchOptions options{.head = TaskHead::kChoice, .choices = 2, .max_length = 2, .shuffle = false};
  const auto source = make_task_batches(std::make_shared<Numbered>(2, 2), options);
  const Batch batch = source->make(0, 2);
  EXPECT_EQ(batch.at("input_ids").type.shape, (Shape{4, 2}));
  EXPECT_THAT(values<int32_t>(batch, "input_ids"), ElementsAre(0, 0, 10, 0, 1, 1, 11, 11));
  EXPECT_THAT(values<int32_t>(batch, "token_type_ids"), ElementsAre(0, 0, 1, 0, 0, 0, 1, 1));
  EXPECT_THAT(values<int32_t>(batch, "labels"), ElementsAre(0, 1));
}

TEST(TaskBatches, EveryEpochHasAllSamplesInAnOrderOfItsOwn) {
  const TaskBatchOptions options{.max_length = 4, .seed = 5};
  const auto source = make_task_batches(std::make_shared<Numbered>(50), options);
  EXPECT_EQ(source->epoch_samples(0), 50);
  EXPECT_EQ(source->epoch_of(49), 0);
  EXPECT_EQ(source->epoch_of(50), 1);
  const auto first = values<int32_t>(source->make(0, 50), "labels"), second = values<int32_t>(source->make(50, 50), "labels");
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(std::set<int32_t>(second.begin(), second.end()).size(), 50u);
  // A sample does not depend on what batch it is asked for in.
  EXPECT_EQ(values<int32_t>(source->make(47, 6), "labels"),
            (std::vector<int32_t>{first[47], first[48], first[49], second[0], second[1], second[2]}));
}

TEST(TaskBatches, PredictionRepeatsTheLastFeature) {
  const Batch batch = make_prediction_rows(std::make_shared<Numbered>(3), {.max_length = 3})->make(2, 2);
  EXPECT_THAT(values<int32_t>(batch, "input_ids"), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_EQ(batch.tensors.size(), 3u);  // no labels
}

TEST(TaskBatches, TellsOfNoExamplesAndUnknownHeads) {
  try {
    make_task_batches(std::make_shared<Numbered>(0), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds no example"));
  }
  for (const TaskHead head : {TaskHead::kClassification, TaskHead::kRegression, TaskHead::kSpan, TaskHead::kTokens,
                              TaskHead::kChoice})
    EXPECT_EQ(task_head_from_name(name_of(head)), head);
  try {
    task_head_from_name("spans");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "task.head: unknown kind of head; found 'spans'; expected classification, regression, span, "
                               "tokens or choice");
  }
}

}  // namespace
}  // namespace ramet::tests

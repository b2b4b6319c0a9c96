#include "ramet/text/task_batches.h"

#include <algorithm>
#include <array>

#include "ramet/base/error.h"
#include "ramet/data/permutation.h"
#include "ramet/text/batch_parts.h"

namespace ramet::text {
namespace {

constexpr std::array<std::string_view, 5> kHeads = {"classification", "regression", "span", "tokens", "choice"};

Signature rows_signature(const TaskBatchOptions& options, int64_t count) {
  const TensorType rows{DType::kI32, {count * options.choices, options.max_length}};
  return {{"input_ids", rows}, {"token_type_ids", rows}, {"attention_mask", rows}};
}

Signature task_signature(const TaskBatchOptions& options, int64_t count) {
  Signature signature = rows_signature(options, count);
  switch (options.head) {
    case TaskHead::kRegression: signature.push_back({"labels", {DType::kF32, {count}}}); break;
    case TaskHead::kTokens: signature.push_back({"labels", {DType::kI32, {count, options.max_length}}}); break;
    case TaskHead::kSpan:
      signature.push_back({"start_positions", {DType::kI32, {count}}});
      signature.push_back({"end_positions", {DType::kI32, {count}}});
      break;
    case TaskHead::kClassification:
    case TaskHead::kChoice: signature.push_back({"labels", {DType::kI32, {count}}}); break;
  }
  if (options.teacher_classes > 0)
    signature.push_back({"teacher_logits", {DType::kF32, {count, options.teacher_classes}}});
  return signature;
}

/// Writes the rows of sample `sample`, padded.
void write_rows(const Rows& batch, int64_t sample, const TaskFeature& feature, const TaskBatchOptions& options) {
  const auto length = static_cast<size_t>(options.max_length);
  if (std::ssize(feature.rows) != options.choices)
    internal_error("task batches", "a feature of " + std::to_string(feature.rows.size()) + " rows");
  for (int64_t choice = 0; choice < options.choices; ++choice) {
    const TaskRow& row = feature.rows[static_cast<size_t>(choice)];
    if (row.input_ids.size() > length || row.token_type_ids.size() != row.input_ids.size())
      internal_error("task batches", "a row of " + std::to_string(row.input_ids.size()) + " tokens");
    const int64_t at = sample * options.choices + choice;
    int32_t* const ids = batch.of(0, at);
    std::copy(row.input_ids.begin(), row.input_ids.end(), ids);
    std::fill(ids + row.input_ids.size(), ids + length, options.padding);
    std::copy(row.token_type_ids.begin(), row.token_type_ids.end(), batch.of(1, at));
    std::fill_n(batch.of(2, at), row.input_ids.size(), 1);
  }
}

void write_labels(const Rows& batch, int64_t sample, const TaskFeature& feature, const TaskBatchOptions& options) {
  int32_t* const labels = batch.of(3, sample);
  switch (options.head) {
    case TaskHead::kRegression: *reinterpret_cast<float*>(labels) = feature.value; return;
    case TaskHead::kSpan:
      *labels = feature.start;
      *batch.of(4, sample) = feature.end;
      return;
    case TaskHead::kTokens:
      std::fill(labels, labels + options.max_length, -1);
      std::copy_n(feature.token_labels.begin(), std::min<int64_t>(std::ssize(feature.token_labels), options.max_length),
                  labels);
      return;
    case TaskHead::kClassification:
    case TaskHead::kChoice: *labels = feature.label; return;
  }
}

class TaskBatches final : public SequenceSource {
 public:
  TaskBatches(std::shared_ptr<const TaskSplit> split, const TaskBatchOptions& options)
      : split_(std::move(split)), options_(options) {
    if (split_->features() == 0) throw Error({.what = "the task's file holds no example"});
  }

  Signature signature(int64_t count) const override { return task_signature(options_, count); }
  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = feature_of(first_sample + i);
      const TaskFeature feature = split_->feature(number);
      write_rows(batch, i, feature, options_);
      write_labels(batch, i, feature, options_);
      if (options_.teacher_classes > 0)
        std::ranges::copy(options_.teacher(number),
                          reinterpret_cast<float*>(batch.of(batch.signature().size() - 1, i)));
    }
  }
  int32_t sample_length(int64_t index) const override {
    return static_cast<int32_t>(split_->feature(feature_of(index)).rows.front().input_ids.size());
  }
  Hash identity() const override {
    return source_identity(
        "task", options_.contents,
        {static_cast<double>(options_.head), static_cast<double>(options_.choices),
         static_cast<double>(options_.max_length), static_cast<double>(options_.padding), options_.shuffle ? 1.0 : 0.0,
         static_cast<double>(options_.seed >> 32), static_cast<double>(options_.seed & 0xFFFFFFFFu)});
  }
  int64_t epoch_of(int64_t index) const override { return index / split_->features(); }
  int64_t epoch_samples(int64_t) const override { return split_->features(); }
  int64_t host_bytes() const override {
    return split_->features() * options_.teacher_classes * static_cast<int64_t>(sizeof(float));
  }

 private:
  int64_t feature_of(int64_t sample) const {
    const int64_t place = sample % split_->features();
    if (!options_.shuffle) return place;
    return Permutation(split_->features(), options_.seed, static_cast<uint64_t>(epoch_of(sample)),
                       kShuffleSamples)(place);
  }

  std::shared_ptr<const TaskSplit> split_;
  const TaskBatchOptions options_;
};

}  // namespace

std::string_view name_of(TaskHead head) { return kHeads[static_cast<size_t>(head)]; }

TaskHead task_head_from_name(std::string_view name) {
  const auto found = std::find(kHeads.begin(), kHeads.end(), name);
  if (found == kHeads.end())
    throw Error({.what = "unknown kind of head",
                 .where = "task.head",
                 .found = "'" + std::string(name) + "'",
                 .expected = "classification, regression, span, tokens or choice"});
  return static_cast<TaskHead>(found - kHeads.begin());
}

int64_t answer_width(TaskHead head, int64_t labels, int64_t length, int64_t choices) {
  switch (head) {
    case TaskHead::kClassification: return labels;
    case TaskHead::kRegression: return 1;
    case TaskHead::kSpan: return 2 * length;
    case TaskHead::kTokens: return length * labels;
    case TaskHead::kChoice: return choices;
  }
  return 0;
}

std::unique_ptr<SequenceSource> make_task_batches(std::shared_ptr<const TaskSplit> split,
                                                  const TaskBatchOptions& options) {
  return std::make_unique<TaskBatches>(std::move(split), options);
}

namespace {

class PredictionRows final : public Source {
 public:
  PredictionRows(std::shared_ptr<const TaskSplit> split, const TaskBatchOptions& options)
      : split_(std::move(split)), options_(options) {}
  Signature signature(int64_t count) const override { return rows_signature(options_, count); }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first, count, places);
    for (int64_t i = 0; i < count; ++i)
      write_rows(batch, i, split_->feature(std::min(first + i, split_->features() - 1)), options_);
  }
  Hash identity() const override { return source_identity("prediction", options_.contents, {}); }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return split_->features(); }

 private:
  std::shared_ptr<const TaskSplit> split_;
  const TaskBatchOptions options_;
};

}  // namespace

std::unique_ptr<Source> make_prediction_rows(std::shared_ptr<const TaskSplit> split, const TaskBatchOptions& options) {
  return std::make_unique<PredictionRows>(std::move(split), options);
}

}  // namespace ramet::text

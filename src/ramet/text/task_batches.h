#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ramet/text/batches.h"
#include "ramet/text/task.h"

namespace ramet::text {

struct TaskBatchOptions {
  TaskHead head = TaskHead::kClassification;
  int64_t choices = 1;       ///< rows of a sample
  int64_t max_length = 128;  ///< every row is padded to it
  int32_t padding = 0;       ///< id of the padding token
  bool shuffle = true;       ///< the order of each epoch is drawn from the seed
  uint64_t seed = 0;
  std::string contents{};  ///< hash of the split's data and of the teacher, for the source's identity
  /// The answer of a teacher for a feature by its number, `teacher_classes` logits; may be called from many threads.
  std::function<std::span<const float>(int64_t feature)> teacher{};
  int64_t teacher_classes = 0;  ///< 0: there is none
};

/// Features of a split as an endless sequence of samples: epoch after epoch, each in an order of its own; a batch may
/// hold the end of one and the beginning of the next. Tensors: input_ids, token_type_ids, attention_mask (1: token)
/// i32[B*choices,S]; labels i32[B] (kClassification, kChoice), f32[B] (kRegression), i32[B,S] (kTokens);
/// start_positions, end_positions i32[B] (kSpan); with a teacher teacher_logits f32[B,classes] (kClassification).
/// Throws Error for an empty split.
std::unique_ptr<SequenceSource> make_task_batches(std::shared_ptr<const TaskSplit> split,
                                                  const TaskBatchOptions& options);

/// Features of a split in their order, for prediction: without labels. Samples behind the last feature repeat it.
std::unique_ptr<Source> make_prediction_rows(std::shared_ptr<const TaskSplit> split, const TaskBatchOptions& options);

}  // namespace ramet::text

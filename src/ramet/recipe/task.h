#pragma once

#include <cstdint>

#include "ramet/recipe/prepare.h"
#include "ramet/text/task_batches.h"

namespace ramet::recipe {

/// Forward only of a complete task recipe: "logits" (see model/presets.h), of texts one by one or of the recipe's
/// packed rows.
Graph build_task_predictor(const Recipe& complete, int64_t samples, bool packed = false);
/// Samples of a batch of predictions: as many as make matrix products fast, at most `most`.
int64_t prediction_samples(const Recipe& complete, int64_t most = 64);

/// The tokenizer of a task recipe: task.tokenizer, or that of the model to begin from. Throws Error where there is
/// none.
std::shared_ptr<const Tokenizer> open_task_tokenizer(const Recipe& recipe);
/// What the recipe says of its task's files.
TaskOptions task_options(const Recipe& recipe, const Tokenizer& tokenizer);
/// Texts with commas between, each without blanks around it.
std::vector<std::string> parts_of(const std::string& text);

/// How features of a complete task recipe become batches. For training they are shuffled.
TaskBatchOptions task_batch_options(const Recipe& complete, const Tokenizer& tokenizer, bool training);

/// The split of a task by its name, "train", "dev" or "test". Throws Error where the task has no such file.
std::shared_ptr<const TaskSplit> task_split(const TaskSet& task, const std::string& name);

}  // namespace ramet::recipe

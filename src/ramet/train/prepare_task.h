#pragma once

#include <cstdint>

#include "ramet/text/task_batches.h"
#include "ramet/train/prepare.h"

namespace ramet::train {

/// Fills what a recipe leaves out of its sizes from config.json beside the weights to begin from, where there is one.
/// Throws Error for sizes that the recipe and it give differently.
void take_published_sizes(Recipe& recipe);

/// Opens a task recipe's tokenizer and data, and completes the recipe: head and labels, steps of its epochs, warm-up,
/// and an evaluation each epoch where the recipe says nothing else. Throws Error naming the recipe's line.
void prepare_task(const Recipe& recipe, Preparation& result);

/// How features of a complete task recipe become batches. For training they are shuffled.
TaskBatchOptions task_batch_options(const Recipe& complete, const Tokenizer& tokenizer, bool training);

/// The split of a task by its name, "train", "dev" or "test". Throws Error where the task has no such file.
std::shared_ptr<const TaskSplit> task_split(const TaskSet& task, const std::string& name);

}  // namespace ramet::train

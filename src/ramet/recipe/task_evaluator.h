#pragma once

#include <memory>

#include "ramet/recipe/recipe.h"
#include "ramet/text/task.h"
#include "ramet/text/tokenizer.h"
#include "ramet/train/workload.h"

namespace ramet::recipe {

/// Answers the examples of a task's file to evaluate on with the weights as they are, and gives the task's metrics, the
/// one that decides first, and the loss. Without a labelled file there is nothing to evaluate.
std::unique_ptr<Evaluator> make_task_evaluator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer,
                                               std::shared_ptr<const TaskSet> task);

}  // namespace ramet::recipe

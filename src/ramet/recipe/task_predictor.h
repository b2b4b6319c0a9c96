#pragma once

#include <functional>
#include <memory>
#include <span>

#include "ramet/recipe/prepare.h"
#include "ramet/runtime/cluster.h"
#include "ramet/text/task_batches.h"
#include "ramet/train/feeder.h"
#include "ramet/train/predictor.h"

namespace ramet::recipe {

/// Values of one feature's answer.
int64_t answer_width_of(const Recipe& complete, const TaskBatchOptions& options);

/// Answers for all features of a split, by the program "predict" of a cluster, which takes `samples` at once; on the
/// leading rank. `progress` hears how many have been begun so far.
TaskOutputs task_answers(Cluster& cluster, const Recipe& complete, const TaskBatchOptions& options,
                         std::shared_ptr<const TaskSplit> split, int64_t samples, const RequestProgress& progress = {});

/// The model of a task recipe with one program, "predict", that answers so many rows at once.
Model build_task_answers(const Recipe& complete, int64_t samples);

/// The model of a task recipe, forward only. Its answers have the same bits whatever layout trained it, and on any
/// layout of its own.
class TaskPredictor {
 public:
  TaskPredictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout,
                const Where& where);

  Predictor& predictor() { return predictor_; }  ///< for its weights
  TaskOutputs predict(std::shared_ptr<const TaskSplit> split, const RequestProgress& progress = {});

 private:
  const Recipe recipe_;
  const TaskBatchOptions batches_;
  int64_t samples_;  ///< of a batch
  Predictor predictor_;
};

/// The mean loss of answers, as in training, over labelled features; NaN when none is labelled.
double task_loss(TaskHead head, int64_t labels, const TaskSplit& split, const TaskOutputs& outputs);

/// The metrics of a labelled split, the one that decides first, and last "loss" (of the first run).
NamedNumbers task_numbers(const Recipe& complete, const TaskSplit& split, std::span<const TaskOutputs> runs);

}  // namespace ramet::recipe

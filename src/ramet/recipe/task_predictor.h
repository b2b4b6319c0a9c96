#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ramet/text/task_batches.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/checkpoint.h"
#include "ramet/recipe/prepare.h"

namespace ramet::runtime {
class Engine;
}  // namespace ramet::runtime

namespace ramet::recipe {

/// A step whose only program is "predict", on request: `graph` in the recipe's precision and with its chunks, on those of
/// `weights` that the graph reads.
StepGraph make_prediction_step(const Recipe& complete, const std::vector<StateTensor>& weights, const Graph& graph);

/// Values of one feature's answer.
int64_t answer_width_of(const Recipe& complete, const TaskBatchOptions& options);

/// The model of a task recipe, forward only, on one device of this process: what it answers has the same bits whatever
/// layout trained it.
class TaskPredictor {
 public:
  /// `threads` 0: all available processors.
  TaskPredictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, int threads);
  ~TaskPredictor();

  /// Sets one weight, f32; after the last, `ready`.
  void write(const StateTensor& weight, std::span<const std::byte> bytes);
  void ready();
  void load(const Checkpoint& checkpoint);

  /// Answers for all features of a split. `progress` hears how many there are so far.
  TaskOutputs predict(const TaskSplit& split, const std::function<void(int64_t done, int64_t total)>& progress = {});

  const std::vector<StateTensor>& weights() const { return weights_; }
  int64_t planned_bytes() const;

 private:
  const Recipe recipe_;
  const TaskBatchOptions batches_;
  int64_t samples_;  ///< of a batch
  std::vector<StateTensor> weights_;
  std::unique_ptr<Engine> engine_;
};

/// The mean loss of answers, as training has it, over what is labelled; NaN when nothing is.
double task_loss(TaskHead head, int64_t labels, const TaskSplit& split, const TaskOutputs& outputs);

/// The metrics of a labelled split, the one that decides first, and last "loss" (of the first run).
NamedNumbers task_numbers(const Recipe& complete, const TaskSplit& split, std::span<const TaskOutputs> runs);

}  // namespace ramet::recipe

#include "ramet/recipe/task_evaluator.h"

#include "ramet/base/error.h"
#include "ramet/recipe/task.h"
#include "ramet/recipe/task_predictor.h"
#include "ramet/text/task_batches.h"

namespace ramet::recipe {
namespace {

class TaskEvaluator final : public Evaluator {
 public:
  TaskEvaluator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const TaskSet> task)
      : recipe_(complete), tokenizer_(std::move(tokenizer)), task_(std::move(task)) {}

  bool finds_best() const override { return true; }

  /// The program "predict" answers for all features where the model trains; the leading rank gets the answers.
  std::string program() const override { return "predict"; }

  Numbers evaluate(Cluster& cluster) override {
    if (!task_->dev() || !task_->dev()->labelled()) return {};
    const TaskSplit& split = *task_->dev();
    const std::vector<TaskOutputs> outputs = {
        task_answers(cluster, recipe_, task_batch_options(recipe_, *tokenizer_, false), task_->dev(),
                     prediction_samples(recipe_, recipe_.train.micro_batch))};
    if (!cluster.leads()) return {};
    return task_numbers(recipe_, split, outputs);
  }

 private:
  const Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const TaskSet> task_;
};

}  // namespace

std::unique_ptr<Evaluator> make_task_evaluator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer,
                                               std::shared_ptr<const TaskSet> task) {
  return std::make_unique<TaskEvaluator>(complete, std::move(tokenizer), std::move(task));
}

}  // namespace ramet::recipe

#include "ramet/recipe/task_evaluator.h"

#include "ramet/base/error.h"
#include "ramet/recipe/task.h"
#include "ramet/recipe/task_predictor.h"
#include "ramet/text/task_batches.h"
#include "ramet/train/training.h"

namespace ramet::recipe {
namespace {

class TaskEvaluator final : public Evaluator {
 public:
  TaskEvaluator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const TaskSet> task)
      : recipe_(complete), tokenizer_(std::move(tokenizer)), task_(std::move(task)) {}

  bool finds_best() const override { return true; }

  /// The program "predict" answers for all features where the model trains; the leading rank gets the answers.
  Numbers evaluate(Training& training) override {
    if (!task_->dev() || !task_->dev()->labelled()) return {};
    const TaskSplit& split = *task_->dev();
    const std::vector<TaskOutputs> outputs = {answers(training, split)};
    if (!training.cluster().leads()) return {};
    return task_numbers(recipe_, split, outputs);
  }

 private:
  TaskOutputs answers(Training& training, const TaskSplit& split) const {
    const TaskBatchOptions options = task_batch_options(recipe_, *tokenizer_, false);
    const int64_t features = split.features(), samples = prediction_samples(recipe_, recipe_.train.micro_batch);
    const int64_t batches = (features + samples - 1) / samples;
    TaskOutputs outputs;
    outputs.width = answer_width_of(recipe_, options);
    if (batches == 0) return outputs;
    Feeder feeder(make_prediction_rows(task_->dev(), options), training.cluster(),
                  {.micro_batch = samples, .program = "predict", .count = batches});
    feeder.begin(0);
    for (const ResultTensors& answer : training.cluster().run("predict", batches, feeder.feed()))
      for (int64_t i = 0; i < samples * outputs.width && !answer.empty(); ++i)
        if (std::ssize(outputs.values) < features * outputs.width)
          outputs.values.push_back(static_cast<float>(answer.front().get(i)));
    return outputs;
  }

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

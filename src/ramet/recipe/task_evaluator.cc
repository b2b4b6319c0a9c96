#include "ramet/recipe/task_evaluator.h"

#include "ramet/base/error.h"
#include "ramet/recipe/task_predictor.h"
#include "ramet/train/training.h"

namespace ramet {
namespace {

class TaskEvaluator final : public Evaluator {
 public:
  TaskEvaluator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const TaskSet> task)
      : recipe_(complete), tokenizer_(std::move(tokenizer)), task_(std::move(task)) {}

  void open(Training& training) override {
    if (!labelled() || !training.cluster().leads()) return;
    predictor_ = std::make_unique<TaskPredictor>(recipe_, tokenizer_, training.threads());
  }
  int64_t planned_bytes() const override { return predictor_ ? predictor_->planned_bytes() : 0; }
  bool finds_best() const override { return true; }

  Numbers evaluate(Training& training) override {
    if (!labelled()) return {};
    const TaskSplit& split = *task_->dev();
    std::vector<std::byte> bytes;
    for (const StateTensor& weight : training.model().weights) {
      bytes.resize(static_cast<size_t>(weight.type.bytes()));
      training.read_weight(weight.name, bytes);
      if (predictor_) predictor_->write(weight, bytes);
    }
    if (!predictor_) return {};
    try {
      predictor_->ready();
      const std::vector<TaskOutputs> outputs = {predictor_->predict(split)};
      return task_numbers(recipe_, split, outputs);
    } catch (const Error& error) {
      if (training.cluster().ranks() > 1) training.cluster().stop(error.what());
      throw;
    }
  }

 private:
  bool labelled() const { return task_->dev() && task_->dev()->labelled(); }

  const Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const TaskSet> task_;
  std::unique_ptr<TaskPredictor> predictor_;  ///< on the leading rank
};

}  // namespace

std::unique_ptr<Evaluator> make_task_evaluator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer,
                                               std::shared_ptr<const TaskSet> task) {
  return std::make_unique<TaskEvaluator>(complete, std::move(tokenizer), std::move(task));
}

}  // namespace ramet

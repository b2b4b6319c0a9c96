#include "ramet/train/task_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/kernel.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/engine.h"
#include "ramet/text/loader.h"
#include "ramet/train/prepare_task.h"
#include "ramet/train/scaling.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/precision.h"

namespace ramet::train {
namespace {

constexpr int64_t kBatchTokens = 4096;  // enough for matrix products to be at their best, and little memory

int64_t samples_of_batch(const Recipe& recipe) {
  const int64_t tokens = recipe.data.sequence_length * recipe.task.choices.value_or(1);
  return std::clamp<int64_t>(kBatchTokens / tokens, 1, 64);
}

/// Batches of a split's features in order, as a source for a loader, which makes them beside the computation.
class PredictionBatches final : public BatchSource {
 public:
  PredictionBatches(const TaskSplit& split, const TaskBatchOptions& options) : split_(split), options_(options) {}
  std::vector<std::pair<std::string, TensorType>> signature(int64_t) const override { return {}; }
  Batch make(int64_t first, int64_t count) const override {
    return make_prediction_batch(split_, options_, first, count);
  }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return split_.features(); }

 private:
  const TaskSplit& split_;
  const TaskBatchOptions options_;
};

/// -log softmax(logits)[label]
double cross_entropy_of(std::span<const float> logits, int32_t label) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return top + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(label)]);
}

}  // namespace

StepGraph make_prediction_step(const Recipe& recipe, const std::vector<StateTensor>& weights, const Graph& graph) {
  StepGraph step;
  std::map<std::string, bool> read;
  for (const auto& input : graph.inputs()) read[graph.value(input.value).name] = true;
  for (const auto& weight : weights)
    if (read.count(weight.name)) step.states.push_back(weight);
  const Graph scaled = scaled_graph(recipe, graph, weights).graph;
  step.evaluate =
      set_chunks(lower_precision(scaled, precision_from_name(recipe.train.precision)), recipe.train.chunks, weights);
  step.evaluate.set_name("evaluate");
  return step;
}

TaskPredictor::TaskPredictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, int threads)
    : recipe_(complete),
      batches_(task_batch_options(complete, *tokenizer, false)),
      samples_(samples_of_batch(complete)),
      weights_(build_model(complete).weights) {
  CompileOptions options;
  options.threads = threads > 0 ? threads : available_processors();
  engine_ = std::make_unique<Engine>(
      compile(make_prediction_step(recipe_, weights_, build_task_predictor(recipe_, samples_)), cpu_backend(), options),
      cpu_backend());
}

TaskPredictor::~TaskPredictor() = default;

void TaskPredictor::write(const StateTensor& weight, std::span<const std::byte> bytes) {
  engine_->write_state(weight.name, weight.type, bytes.data());
}

void TaskPredictor::ready() { engine_->run_derive(); }

void TaskPredictor::load(const Checkpoint& checkpoint) {
  checkpoint.load(weights_, [&](const StateTensor& state, std::span<const std::byte> bytes) { write(state, bytes); });
  ready();
}

int64_t TaskPredictor::planned_bytes() const { return engine_->executable().planned_bytes(); }

TaskOutputs TaskPredictor::predict(const TaskSplit& split,
                                   const std::function<void(int64_t done, int64_t total)>& progress) {
  const int64_t features = split.features(), batches = (features + samples_ - 1) / samples_;
  TaskOutputs outputs;
  outputs.width = answer_width(batches_.head, recipe_.task.classes.value_or(1), recipe_.data.sequence_length,
                               batches_.choices);
  outputs.values.resize(static_cast<size_t>(features * outputs.width));
  if (features == 0) return outputs;
  Loader loader(std::make_shared<PredictionBatches>(split, batches_), 0, samples_, 2, batches);
  for (int64_t done = 0; done < features; done += samples_) {
    const Batch batch = loader.next();
    const auto results = engine_->evaluate([&](int64_t, int64_t, FeedSink& sink) {
      for (const auto& tensor : batch.tensors)
        if (engine_->executable().has_feed(tensor.name, true)) sink.set(tensor.name, tensor.type, tensor.bytes.data());
    });
    const TensorView& logits = results.front();
    const int64_t first = done * outputs.width;
    const int64_t count = std::min(samples_, features - done) * outputs.width;
    for (int64_t i = 0; i < count; ++i)
      outputs.values[static_cast<size_t>(first + i)] = static_cast<float>(logits.get(i));
    if (progress) progress(std::min(done + samples_, features), features);
  }
  return outputs;
}

double task_loss(TaskHead head, int64_t labels, const TaskSplit& split, const TaskOutputs& outputs) {
  double sum = 0, count = 0;
  const auto add = [&](std::span<const float> logits, int32_t label) {
    if (label < 0 || label >= std::ssize(logits)) return;
    sum += cross_entropy_of(logits, label);
    ++count;
  };
  for (int64_t i = 0; i < split.features(); ++i) {
    const TaskFeature feature = split.feature(i);
    const std::span<const float> answer = outputs.of(i);
    const size_t half = answer.size() / 2;
    switch (head) {
      case TaskHead::kClassification:
      case TaskHead::kChoice: add(answer, feature.label); break;
      case TaskHead::kRegression:
        if (std::isfinite(feature.value))
          sum += std::pow(static_cast<double>(answer[0]) - static_cast<double>(feature.value), 2), ++count;
        break;
      case TaskHead::kSpan: add(answer.first(half), feature.start), add(answer.last(half), feature.end); break;
      case TaskHead::kTokens:
        for (size_t t = 0; t < feature.token_labels.size(); ++t)
          add(answer.subspan(t * static_cast<size_t>(labels), static_cast<size_t>(labels)), feature.token_labels[t]);
        break;
    }
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

NamedNumbers task_numbers(const Recipe& complete, const TaskSplit& split, std::span<const TaskOutputs> runs) {
  NamedNumbers numbers = split.score(runs);
  const double loss = task_loss(task_head_from_name(complete.task.head), complete.task.classes.value_or(1), split,
                                runs.front());
  if (std::isfinite(loss)) numbers.emplace_back("loss", loss);
  return numbers;
}

}  // namespace ramet::train

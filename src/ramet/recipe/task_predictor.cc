#include "ramet/recipe/task_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/data/ring.h"
#include "ramet/kernel/devices.h"
#include "ramet/kernel/kernel.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/engine.h"
#include "ramet/recipe/task.h"
#include "ramet/train/scaling.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/precision.h"

namespace ramet::recipe {
namespace {


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
  const Graph scaled = scaled_graph(recipe.train, graph, weights).graph;
  Graph lowered =
      set_chunks(lower_precision(scaled, precision_from_name(recipe.train.precision)), recipe.train.chunks, weights);
  lowered.set_name("predict");
  step.programs.push_back({"predict", std::move(lowered), When::on_request()});
  return step;
}

int64_t answer_width_of(const Recipe& complete, const TaskBatchOptions& options) {
  return answer_width(options.head, complete.task.classes.value_or(1), complete.data.sequence_length, options.choices);
}

TaskPredictor::TaskPredictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, int threads)
    : recipe_(complete),
      batches_(task_batch_options(complete, *tokenizer, false)),
      samples_(prediction_samples(complete)),
      weights_(build_model(complete).weights) {
  CompileOptions options;
  options.threads = threads > 0 ? threads : available_processors();
  engine_ = std::make_unique<Engine>(
      compile(make_prediction_step(recipe_, weights_, build_task_predictor(recipe_, samples_)), find_device().backend(), options),
      find_device().backend());
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
  outputs.width = answer_width_of(recipe_, batches_);
  outputs.values.resize(static_cast<size_t>(features * outputs.width));
  if (features == 0) return outputs;
  const std::shared_ptr<const Source> rows =
      make_prediction_rows({std::shared_ptr<const TaskSplit>(), &split}, batches_);  // the caller keeps the split
  const Signature signature = rows->signature(samples_);
  BatchRing ring(rows, {{0}}, {.batch = samples_, .batches = batches});
  for (int64_t done = 0; done < features; done += samples_) {
    ring.begin(done / samples_);
    const auto results = engine_->run("predict", [&](int64_t, int64_t, FeedSink& sink) {
      ring.read(0, 0, [&](std::span<std::byte* const> tensors) {
        for (size_t i = 0; i < signature.size(); ++i)
          if (const auto& [name, type] = signature[i]; sink.takes(name))
            sink.set(name, type, tensors[i]);
      });
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

}  // namespace ramet::recipe

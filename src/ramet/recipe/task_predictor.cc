#include "ramet/recipe/task_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/recipe/sparse.h"
#include "ramet/recipe/task.h"

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

int64_t answer_width_of(const Recipe& complete, const TaskBatchOptions& options) {
  return answer_width(options.head, complete.task.classes.value_or(1), complete.data.sequence_length, options.choices);
}

TaskOutputs task_answers(Cluster& cluster, const Recipe& complete, const TaskBatchOptions& options,
                         std::shared_ptr<const TaskSplit> split, int64_t samples, const RequestProgress& progress) {
  const int64_t features = split->features(), batches = (features + samples - 1) / samples;
  TaskOutputs outputs;
  outputs.width = answer_width_of(complete, options);
  if (batches == 0) return outputs;
  Feeder feeder(make_prediction_rows(std::move(split), options), cluster,
                {.micro_batch = samples, .program = "predict", .count = batches});
  feeder.begin(0);
  const ClusterFeed feed = feed_with_progress(feeder.feed(), samples, features, progress);
  outputs.values.reserve(static_cast<size_t>(features * outputs.width));
  for (const ResultTensors& answer : cluster.run("predict", batches, feed))
    for (int64_t i = 0; i < samples * outputs.width && !answer.empty(); ++i)
      if (std::ssize(outputs.values) < features * outputs.width)
        outputs.values.push_back(static_cast<float>(answer.front().get(i)));
  return outputs;
}

Model build_task_answers(const Recipe& complete, int64_t samples) {
  Model model = build_model(complete);
  model.programs = {{"predict", with_sparse_weights(model, build_task_predictor(complete, samples))}};
  return model;
}

TaskPredictor::TaskPredictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout,
                             const Where& where)
    : recipe_(complete),
      batches_(task_batch_options(complete, *tokenizer, false)),
      samples_(prediction_samples(complete)),
      predictor_(build_task_answers(complete, samples_), complete.train, layout, where, {"predict"}) {}

TaskOutputs TaskPredictor::predict(std::shared_ptr<const TaskSplit> split, const RequestProgress& progress) {
  return task_answers(predictor_.cluster(), recipe_, batches_, std::move(split), samples_, progress);
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
  const double loss =
      task_loss(task_head_from_name(complete.task.head), complete.task.classes.value_or(1), split, runs.front());
  if (std::isfinite(loss)) numbers.emplace_back("loss", loss);
  return numbers;
}

}  // namespace ramet::recipe

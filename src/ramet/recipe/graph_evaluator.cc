#include "ramet/recipe/graph_evaluator.h"

#include <cmath>
#include <limits>

#include "ramet/text/tasks/metrics.h"
#include "ramet/train/feeds.h"

namespace ramet::recipe {
namespace {

/// Scores and answers of the columns of one problem, over all batches.
class Ranked {
 public:
  explicit Ranked(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string name() const { return prefix_ + "roc_auc"; }

  void add(const ResultTensors& results) {
    for (const ResultTensor& result : results) {
      if (result.name != prefix_ + "ranked") continue;
      const int64_t rows = result.type.shape[0], columns = result.type.shape[1] / 2;
      scores_.resize(static_cast<size_t>(columns)), answers_.resize(static_cast<size_t>(columns));
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t k = 0; k < columns; ++k) {
          scores_[static_cast<size_t>(k)].push_back(result.get(row * 2 * columns + k));
          answers_[static_cast<size_t>(k)].push_back(result.get(row * 2 * columns + columns + k));
        }
    }
  }

  double area() const {
    double sum = 0, count = 0;
    for (size_t column = 0; column < scores_.size(); ++column)
      if (const double area = text::roc_auc(answers_[column], scores_[column]); !std::isnan(area)) sum += area, ++count;
    return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  std::string prefix_;
  std::vector<std::vector<double>> scores_, answers_;
};

class GraphEvaluator final : public Evaluator {
 public:
  GraphEvaluator(std::vector<std::string> prefixes, const Workload& workload, TrainOptions options)
      : prefixes_(std::move(prefixes)), options_(std::move(options)) {
    workload_.held_out = workload.held_out;
    workload_.model.metrics = workload.model.metrics;
    workload_.prefetch = workload.prefetch;
  }

  std::string program() const override { return "evaluate"; }

  Numbers evaluate(Cluster& cluster) override {
    const int64_t batches = evaluation_batches(workload_, options_);
    if (batches == 0) return {};
    Feeder feeder(workload_.held_out, cluster, evaluation_feed(workload_, options_));
    feeder.begin(0);
    MetricSums sums(workload_.model.metrics, true, true);
    std::vector<Ranked> ranked;
    for (const std::string& prefix : prefixes_) ranked.emplace_back(prefix);
    for (const ResultTensors& results : cluster.run(program(), batches, feeder.feed())) {
      sums.add(numbers_of(results));
      for (Ranked& each : ranked) each.add(results);
    }
    if (!cluster.leads()) return {};
    Numbers numbers = sums.numbers();
    for (const Ranked& each : ranked) numbers.emplace_back(each.name(), each.area());
    return numbers;
  }

 private:
  const std::vector<std::string> prefixes_;  ///< of names of outputs
  const TrainOptions options_;
  Workload workload_;  ///< what an evaluation reads of it
};

}  // namespace

std::unique_ptr<Evaluator> make_graph_evaluator(const GraphNetConfig& config, const GraphTask& task,
                                                const Workload& workload, const TrainOptions& options) {
  std::vector<std::string> prefixes;
  if (task.tasks.empty() && task.targets() > 0 && config.loss == "binary") prefixes.emplace_back();
  for (const GraphTarget& target : task.tasks)
    if (target.loss == "binary") prefixes.push_back(target.name + "_");
  if (prefixes.empty() || !workload.held_out) return nullptr;
  return std::make_unique<GraphEvaluator>(std::move(prefixes), workload, options);
}

}  // namespace ramet::recipe

#include "ramet/train/evaluate.h"

#include "ramet/base/error.h"
#include "ramet/base/version.h"
#include "ramet/train/all_ranks.h"
#include "ramet/train/feeder.h"
#include "ramet/train/feeds.h"

namespace ramet::train {

Numbers evaluate_held_out(Cluster& cluster, const Workload& workload, const TrainOptions& options) {
  const int64_t batches = or_end_all(cluster, [&] { return evaluation_batches(workload, options); });
  if (batches == 0) return {};
  const auto feeder = or_end_all(cluster, [&] {
    return std::make_unique<Feeder>(workload.held_out, cluster, evaluation_feed(workload, options));
  });
  feeder->begin(0);
  MetricSums sums(workload.model.metrics, true, true);
  for (const ResultTensors& results : cluster.run("evaluate", batches, feeder->feed(), {}, {.everywhere = true}))
    sums.add(numbers_of(results));
  return sums.numbers();
}

Numbers evaluate(Cluster& cluster, const Workload& workload, const TrainOptions& options) {
  if (!workload.evaluator) return evaluate_held_out(cluster, workload, options);
  return or_end_all(cluster, [&] { return workload.evaluator->evaluate(cluster); });
}

std::string evaluation_program(const Workload& workload) {
  return workload.evaluator ? workload.evaluator->program() : "evaluate";
}

std::string check_origin(const Checkpoint& checkpoint, const Workload& workload, const std::string& identity,
                         const std::string& kernel_class) {
  const CheckpointInfo& info = checkpoint.info();
  const auto refuse = [&](const std::string& what, const std::string& found, const std::string& expected,
                          const std::string& remedy) {
    throw Error(
        {.what = what, .where = checkpoint.path().string(), .found = found, .expected = expected, .remedy = remedy});
  };
  const std::string& recipe = workload.recipe_identity;
  if (!recipe.empty() && !info.recipe_hash.empty() && info.recipe_hash != recipe)
    refuse("the checkpoint was made with another recipe", "recipe " + info.recipe_hash, recipe,
           "To begin a new run from its weights, set model.init_from to it");
  // Checkpoints of before models had an identity do not say.
  if (!info.model_identity.empty() && info.model_identity != identity)
    refuse(
        "the checkpoint was made of another model", "model '" + info.model_name + "' " + info.model_identity,
        "model '" + workload.model.name + "' " + identity,
        "Go on with the model that the run began with; to begin a new run from its weights, set model.init_from to it");
  if (info.data_hash != workload.data_identity)
    refuse("the checkpoint was made with other data", "data " + info.data_hash, workload.data_identity,
           "Give the data of that run: data.corpus or data.train");
  std::string warnings;
  if (info.kernel_class != kernel_class)
    warnings += "the checkpoint was made with kernels of class " + info.kernel_class + ", this is " + kernel_class +
                ": the run goes on, but its bits are not those of an unbroken run\n";
  if (info.version != version())
    warnings += "the checkpoint was made by Ramet " + info.version + ", this is " + version() + "\n";
  return warnings;
}

}  // namespace ramet::train

#pragma once

#include <string>

#include "ramet/runtime/cluster.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/metrics.h"
#include "ramet/train/train_options.h"
#include "ramet/train/workload.h"

namespace ramet::train {

/// The model's metrics over the held-out batches that the options ask for, by the program "evaluate" of a cluster;
/// means by the items they count. Empty when nothing is held out.
Numbers evaluate_held_out(Cluster& cluster, const Workload& workload, const TrainOptions& options);

/// The metrics of the workload's evaluator or, without one, of `evaluate_held_out`.
Numbers evaluate(Cluster& cluster, const Workload& workload, const TrainOptions& options);
/// The program that `evaluate` runs.
std::string evaluation_program(const Workload& workload);

/// Throws Error when a checkpoint is of another recipe, another model or other data than the workload, whose model has
/// this identity. Returns warnings (another kernel class or version), one a line.
std::string check_origin(const Checkpoint& checkpoint, const Workload& workload, const std::string& identity,
                         const std::string& kernel_class);

}  // namespace ramet::train

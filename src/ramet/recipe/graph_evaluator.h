#pragma once

#include <memory>

#include "ramet/model/graph_net.h"
#include "ramet/train/train_options.h"
#include "ramet/train/workload.h"

namespace ramet::recipe {

/// The metrics of the workload's model on its held-out graphs and, for each problem of yes or no, "roc_auc" (of a task
/// by name "NAME_roc_auc"): the mean over its columns that have both answers. Null where the task has no such problem,
/// nothing is held out, or the network is one of GraphFamilyInfo::shares_nodes = false.
std::unique_ptr<Evaluator> make_graph_evaluator(const GraphNetConfig& config, const GraphTask& task,
                                                const Workload& workload, const TrainOptions& options);

}  // namespace ramet::recipe

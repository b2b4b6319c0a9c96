#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "ramet/runtime/cluster.h"
#include "ramet/train/compile.h"

namespace ramet::train {

/// A cluster that runs compiled stages where `where` says. `time_limit`: the longest wait of a device for another,
/// unless `where` has one.
std::unique_ptr<Cluster> open_cluster(std::vector<Executable> stages, const TrainOptions& options, const Layout& layout,
                                      const Where& where, std::chrono::milliseconds time_limit);

/// Threads of all devices of this process.
int local_threads(const Cluster& cluster);

}  // namespace ramet::train

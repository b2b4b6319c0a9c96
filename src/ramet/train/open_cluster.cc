#include "ramet/train/open_cluster.h"

#include "ramet/kernel/devices.h"

namespace ramet::train {

std::unique_ptr<Cluster> open_cluster(std::vector<Executable> stages, const TrainOptions& options, const Layout& layout,
                                      const Where& where, std::chrono::milliseconds time_limit) {
  ClusterOptions cluster;
  cluster.mpi = where.mpi;
  cluster.streaming = layout.streaming;
  cluster.device = where.device;
  cluster.profile = where.profile;
  cluster.bits = options.bits == "fast" ? ExactBits::kFast : ExactBits::kExact;
  cluster.time_limit = where.time_limit.count() > 0 ? where.time_limit : time_limit;
  return std::make_unique<Cluster>(std::move(stages), find_device(where.device).backend(), cluster);
}

int local_threads(const Cluster& cluster) {
  int threads = 0;
  for (const int device : cluster.local_devices())
    threads += cluster.stages()[static_cast<size_t>(cluster.mesh().position(device).stage)].threads;
  return threads;
}

}  // namespace ramet::train

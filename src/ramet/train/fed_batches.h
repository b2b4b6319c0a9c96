#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ramet/data/loader.h"
#include "ramet/runtime/cluster.h"

namespace ramet {

/// Puts those tensors of a batch that are taken.
void put_batch(const Batch& batch, FeedSink& sink);

/// The batches of a loader for a request of a program (Cluster::run): devices ask for them from several threads, one a
/// little ahead of another. A batch is taken from the loader when the first asks for it, and dropped when the last has.
class FedBatches {
 public:
  /// The loader must outlive it, and give as many batches as are asked for.
  FedBatches(Loader& loader, const Cluster& cluster, std::string program, int64_t count);
  ClusterFeed feed();

 private:
  struct Kept {
    std::shared_ptr<const Batch> batch;
    int64_t reads = 0;  ///< still to come
  };
  std::shared_ptr<const Batch> take(int64_t micro);

  Loader& loader_;
  const Cluster& cluster_;
  const std::string program_;
  const int64_t count_;
  std::mutex mutex_;
  int64_t next_ = 0;
  std::map<int64_t, Kept> kept_;
};

}  // namespace ramet

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ramet/data/ring.h"
#include "ramet/runtime/cluster.h"

namespace ramet::train {

/// How a source feeds the devices of a process.
struct FeederOptions {
  int64_t micro_batch = 1;  ///< samples
  int64_t prefetch = 2;     ///< micro-batches made ahead of the one that a device reads; above 3 is 3
  std::string program{};    ///< on request, that is fed; "": training steps
  int64_t count = 0;        ///< micro-batches of a request
  int threads = 0;          ///< that make batches; 0: by the processors
  std::function<int64_t(std::span<std::byte* const> tensors)> count_units{};  ///< as RingOptions::count
};

/// Feeds the devices of a cluster's process from a source: each micro-batch is made ahead of its use, by several
/// threads, in a ring that holds at most four micro-batches a device. A device's program says in which order it reads;
/// its data inputs are bound to the source's tensors once. What programs of every n-th step read is made when they ask.
class Feeder {
 public:
  /// Throws Error naming a data input that the source does not give, or gives in another type.
  Feeder(std::shared_ptr<const Source> source, const Cluster& cluster, const FeederOptions& options);
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  /// Before a call of the cluster that feeds: the samples of step `round`; of a request, 0. The same round may be fed
  /// again.
  void begin(int64_t round);
  /// For the cluster; holds as long as the feeder.
  const ClusterFeed& feed() const { return feed_; }

  double waited_seconds() const { return ring_.waited_seconds(); }
  /// Sum of the counts of the round; nothing where this process has not read all of its micro-batches.
  std::optional<int64_t> counted() const { return ring_.counted(); }
  const BatchRing& ring() const { return ring_; }

  /// Host bytes that the feeder of a process with these devices will take.
  static int64_t planned_bytes(const Source& source, std::span<const Executable> stages, std::span<const int> devices,
                               const FeederOptions& options);

 private:
  struct Bound {
    size_t reader = 0;
    std::vector<std::vector<size_t>> tensors;  ///< by segment and data input: which tensor of the source
    std::vector<bool> apart;                   ///< by segment: of a program that runs in some steps only
  };
  void give(int64_t micro, FeedSink& sink);
  void give_apart(int64_t micro, const std::vector<size_t>& tensors, FeedSink& sink);

  std::shared_ptr<const Source> source_;
  int64_t micro_batch_ = 1, micro_batches_ = 1, round_ = 0;
  std::vector<Bound> devices_;  ///< by number in the mesh
  BatchRing ring_;
  ClusterFeed feed_;
};

/// Told how many samples of a request have been read, of how many; by several threads, one at a time.
using RequestProgress = std::function<void(int64_t begun, int64_t total)>;

/// `feed`, and after each micro-batch of `batch` samples a call of `progress` where there is one. `begun` never falls;
/// `total`: samples of the request, which the last micro-batch may go beyond.
ClusterFeed feed_with_progress(ClusterFeed feed, int64_t batch, int64_t total, RequestProgress progress);

}  // namespace ramet::train

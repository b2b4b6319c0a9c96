#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ramet/train/feeder.h"
#include "ramet/train/train_options.h"
#include "ramet/train/workload.h"

namespace ramet::train {

/// How a workload's data feeds training, and its evaluation.
FeederOptions training_feed(const Workload& workload, const TrainOptions& options);
FeederOptions evaluation_feed(const Workload& workload, const TrainOptions& options);
/// Micro-batches of an evaluation: every held-out sample at most once, as far as whole batches go. 0: none is made.
int64_t evaluation_batches(const Workload& workload, const TrainOptions& options);

/// A micro-batch of real samples, for rehearsals; empty where the data gives each sample only once.
struct RealBatch {
  Batch batch;
  std::vector<TensorView> views;  ///< of its tensors
};
RealBatch real_batch(const Source* source, int64_t samples);

/// Host memory that a process takes beside its devices' arenas, in bytes.
struct HostBytes {
  int64_t batches = 0;  ///< micro-batches made ahead, of training and of an evaluation
  int64_t tables = 0;   ///< of the sources: which samples share a row, the order of documents, data read whole
  int64_t results = 0;  ///< of all micro-batches
  int64_t total() const { return batches + tables + results; }
};

/// Host memory of a process that runs these devices of a layout. `stages`: the workload's compiled programs.
HostBytes host_memory(const Workload& workload, const TrainOptions& options, std::span<const Executable> stages,
                      std::span<const int> devices);

}  // namespace ramet::train

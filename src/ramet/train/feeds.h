#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ramet/train/feeder.h"
#include "ramet/train/prepare.h"

namespace ramet {

/// How a prepared recipe's data feeds training, and its evaluation.
FeederOptions training_feed(const Preparation& preparation);
FeederOptions evaluation_feed(const Preparation& preparation);
/// Micro-batches of an evaluation: every held-out sample at most once, as far as whole batches go. 0: none is made.
int64_t evaluation_batches(const Preparation& preparation);

/// A micro-batch of real samples, for rehearsals; empty where the data gives each sample only once.
struct RealBatch {
  Batch batch;
  std::vector<TensorView> views;  ///< of its tensors
};
RealBatch real_batch(const Source* source, int64_t samples);

/// Host memory that a process takes beside its devices' arenas, in bytes.
struct HostMemory {
  int64_t batches = 0;     ///< micro-batches made ahead, of training and of an evaluation
  int64_t tables = 0;      ///< of the sources: which samples share a row, the order of documents, data read whole
  int64_t results = 0;     ///< of all micro-batches
  int64_t total() const { return batches + tables + results; }
};

/// Host memory of a process that runs these devices of a prepared recipe's layout. `stages`: its compiled programs.
HostMemory host_memory(const Preparation& preparation, std::span<const Executable> stages, std::span<const int> devices);

}  // namespace ramet

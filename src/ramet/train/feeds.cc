#include "ramet/train/feeds.h"

#include <algorithm>

#include "ramet/train/inputs.h"

namespace ramet::train {
namespace {

/// Counts the units of a micro-batch that are no padding: elements of the mask that are not 0. Empty when the workload
/// names no mask, or the data does not give it.
std::function<int64_t(std::span<std::byte* const>)> unit_counter(const Units& units, const Signature& signature) {
  if (units.mask.empty()) return {};
  const auto mask =
      std::find_if(signature.begin(), signature.end(), [&](const auto& tensor) { return tensor.first == units.mask; });
  if (mask == signature.end()) return {};
  return [index = static_cast<size_t>(mask - signature.begin()), type = mask->second](
             std::span<std::byte* const> tensors) -> int64_t { return count_nonzero(type, tensors[index]); };
}

}  // namespace

FeederOptions training_feed(const Workload& workload, const TrainOptions& options) {
  return {.micro_batch = options.micro_batch,
          .prefetch = workload.prefetch,
          .count_units = unit_counter(workload.units, workload.train->signature(options.micro_batch))};
}

int64_t evaluation_batches(const Workload& workload, const TrainOptions& options) {
  if (!workload.held_out) return 0;
  const int64_t batches = options.evaluation.batches, samples = workload.held_out->epoch_samples(0);
  return samples == 0 ? batches : std::min(batches, std::max<int64_t>(1, samples / options.micro_batch));
}

FeederOptions evaluation_feed(const Workload& workload, const TrainOptions& options) {
  return {.micro_batch = options.micro_batch,
          .prefetch = workload.prefetch,
          .program = "evaluate",
          .count = evaluation_batches(workload, options)};
}

RealBatch real_batch(const Source* source, int64_t samples) {
  RealBatch real;
  if (!source || !source->repeatable() || source->by_step()) return real;
  real.batch = source->make(0, samples);
  for (const NamedTensor& tensor : real.batch.tensors)
    real.views.push_back({tensor.name, &tensor.type, tensor.bytes.data()});
  return real;
}

HostBytes host_memory(const Workload& workload, const TrainOptions& options, std::span<const Executable> stages,
                      std::span<const int> devices) {
  HostBytes memory;
  for (const int device : devices)
    memory.results += stages[static_cast<size_t>(stages[0].mesh.position(device).stage)].result_bytes();
  if (workload.train) {
    memory.batches += Feeder::planned_bytes(*workload.train, stages, devices, training_feed(workload, options));
    memory.tables += workload.train->host_bytes();
  }
  if (evaluation_batches(workload, options) > 0) {
    memory.batches += Feeder::planned_bytes(*workload.held_out, stages, devices, evaluation_feed(workload, options));
    memory.tables += workload.held_out->host_bytes();
  }
  return memory;
}

}  // namespace ramet::train

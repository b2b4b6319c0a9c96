#include "ramet/train/feeds.h"

#include <algorithm>

namespace ramet {
namespace {

/// Counts the tokens of a micro-batch that are no padding; empty when the data does not say.
std::function<int64_t(std::span<std::byte* const>)> token_counter(const Signature& signature) {
  const auto mask = std::find_if(signature.begin(), signature.end(), [](const auto& tensor) {
    return (tensor.first == "attention_mask" || tensor.first == "segment_ids") && tensor.second.dtype == DType::kI32;
  });
  if (mask == signature.end()) return {};
  return [tensor = static_cast<size_t>(mask - signature.begin()),
          elements = mask->second.elements()](std::span<std::byte* const> tensors) -> int64_t {
    const auto* numbers = reinterpret_cast<const int32_t*>(tensors[tensor]);
    return elements - std::count(numbers, numbers + elements, 0);
  };
}

}  // namespace

FeederOptions training_feed(const Preparation& preparation) {
  const Recipe& recipe = preparation.recipe;
  return {.micro_batch = recipe.train.micro_batch,
          .prefetch = recipe.data.prefetch,
          .count = token_counter(preparation.train->signature(recipe.train.micro_batch))};
}

int64_t evaluation_batches(const Preparation& preparation) {
  const Recipe& recipe = preparation.recipe;
  if (!preparation.held_out) return 0;
  const int64_t batches = recipe.train.evaluation.batches;
  return preparation.held_out_samples == 0
             ? batches
             : std::min(batches, std::max<int64_t>(1, preparation.held_out_samples / recipe.train.micro_batch));
}

FeederOptions evaluation_feed(const Preparation& preparation) {
  return {.micro_batch = preparation.recipe.train.micro_batch,
          .prefetch = preparation.recipe.data.prefetch,
          .evaluation = true,
          .batches = evaluation_batches(preparation)};
}

RealBatch real_batch(const Source* source, int64_t samples) {
  RealBatch real;
  if (!source || !source->repeatable()) return real;
  real.batch = source->make(0, samples);
  for (const NamedTensor& tensor : real.batch.tensors)
    real.views.push_back({tensor.name, &tensor.type, tensor.bytes.data()});
  return real;
}

HostMemory host_memory(const Preparation& preparation, std::span<const Executable> stages,
                       std::span<const int> devices) {
  HostMemory memory;
  for (const int device : devices)
    memory.results += result_bytes(stages[static_cast<size_t>(stages[0].mesh.position(device).stage)]);
  if (preparation.train) {
    memory.batches += Feeder::planned_bytes(*preparation.train, stages, devices, training_feed(preparation));
    memory.tables += preparation.train->host_bytes();
  }
  if (evaluation_batches(preparation) > 0) {
    memory.batches += Feeder::planned_bytes(*preparation.held_out, stages, devices, evaluation_feed(preparation));
    memory.tables += preparation.held_out->host_bytes();
  }
  return memory;
}

}  // namespace ramet

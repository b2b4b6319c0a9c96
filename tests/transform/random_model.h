#pragma once

#include <map>
#include <string>

#include "ramet/base/hash.h"
#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/ir/graph.h"
#include "ramet/model/presets.h"

namespace ramet::tests {

/// Data, scalars and states for every input of a graph, drawn by name, so that equal graphs are fed equally.
inline std::map<std::string, HostTensor> feeds_for(const Graph& graph, double scale = 0.05) {
  std::map<std::string, HostTensor> feeds;
  for (const auto& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    HostTensor tensor(value.type);
    const RandomStream stream(11, RandomPurpose::kTest, 0, hash64(value.name));
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const auto element = static_cast<uint64_t>(i);
      if (is_floating(value.type.dtype))
        tensor.set(i, scale * stream.normal(element));
      else if (value.name == "attention_mask")
        tensor.set(i, i % 7 != 6);
      else
        tensor.set(i, stream.below(element, 2));
    }
    feeds.emplace(value.name, std::move(tensor));
  }
  return feeds;
}

/// A BERT of two heads and few words.
inline Model small_bert(int layers, int64_t hidden, int64_t intermediate, int64_t sequence,
                        bool next_sentence = true) {
  BertConfig config;
  config.layers = layers;
  config.hidden = hidden;
  config.heads = 2;
  config.intermediate = intermediate;
  config.vocabulary = 24;
  config.positions = 16;
  BatchShape batch;
  batch.micro_batch = 2;
  batch.sequence = sequence;
  batch.predictions = 2;
  batch.seed = 5;
  batch.next_sentence = next_sentence;
  return build_bert(config, batch);
}

/// One small enough for the reference kernels.
inline Model tiny_bert() { return small_bert(3, 8, 16, 6); }

inline Model tiny_gpt2() {
  Gpt2Config config;
  config.layers = 2;
  config.hidden = 8;
  config.heads = 2;
  config.vocabulary = 24;
  config.positions = 16;
  BatchShape batch;
  batch.micro_batch = 2;
  batch.sequence = 5;
  batch.seed = 5;
  return build_gpt2(config, batch);
}

}  // namespace ramet::tests

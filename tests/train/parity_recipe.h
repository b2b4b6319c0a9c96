#pragma once

#include <string>

namespace ramet::tests {

/// The run whose losses are compared with PyTorch's (bench/parity, tests/train/parity_test.cc): the mini model with a
/// small vocabulary, f32, no dropout, AdamW with clipping, a warm-up and a linear decay.
inline std::string parity_recipe(const std::string& model) {
  return R"(
name = "parity"
[model]
kind = ")" +
         model + R"("
preset = "mini"
vocabulary_size = 1000
max_positions = 64
dropout = 0.0
attention_dropout = 0.0
[data]
kind = "synthetic"
sequence_length = 32
[train]
steps = 100
micro_batch = 8
seed = 1
precision = "f32"
clip_norm = 1.0
[train.optimizer]
kind = "adamw"
beta1 = 0.9
beta2 = 0.999
epsilon = 1e-6
weight_decay = 0.01
[train.schedule]
kind = "linear"
learning_rate = 1e-3
warmup_steps = 10
)";
}

}  // namespace ramet::tests

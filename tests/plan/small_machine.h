#pragma once

#include <string>
#include <vector>

#include "ramet/machine/machine_toml.h"
#include "ramet/train/plan_recipe.h"

namespace ramet::test {

/// A BERT of four layers that compiles in a moment; `more` are further settings.
inline Recipe tiny_recipe(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.kind=bert",        "model.preset=tiny",       "model.layers=4",
                                       "model.hidden=32",        "model.heads=4",           "model.vocabulary_size=96",
                                       "model.max_positions=32", "data.sequence_length=32", "train.micro_batch=4",
                                       "train.accumulation=8",   "train.lanes=2",           "train.chunks=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_recipe("name = \"tiny\"\n[data]\nkind = \"synthetic\"\n", "test", ".", settings);
}

/// Four devices of cores with `memory` bytes each on a switch, and memory to stream to.
inline Machine small_machine(const std::string& memory, int devices = 4) {
  return parse_machine(R"(name = "four"
devices = )" + std::to_string(devices) +
                           R"(
watts = 100
[device]
name = "small"
model = "cores"
units = 4
clock = 1e9
vector_bits = 256
overhead = 1e-6
[device.operations_per_cycle]
f32 = 16
bf16 = 32
[memory.device]
bytes = ")" + memory + R"("
read = 20e9
write = 20e9
[memory.streaming]
bytes = "1 GiB"
read = 2e9
write = 2e9
)" +
                           (devices == 1 ? "" : R"([[links]]
name = "switch"
topology = "fat-tree"
links = 1
group = )" + std::to_string(devices) + R"(
bandwidth = 5e9
latency = 2e-6
)"),
                       "four.toml");
}

}  // namespace ramet::test

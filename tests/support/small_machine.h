#pragma once

#include <string>

namespace ramet::tests {

/// A machine file: devices of cores with `memory` bytes each on a switch, and, where asked, memory to stream to.
inline std::string small_machine_text(const std::string& name, int devices, const std::string& memory, bool streams) {
  std::string text = "name = \"" + name + "\"\ndevices = " + std::to_string(devices) + R"(
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
bytes = ")" + memory +
                     "\"\nread = 20e9\nwrite = 20e9\n";
  if (streams) text += "[memory.streaming]\nbytes = \"1 GiB\"\nread = 2e9\nwrite = 2e9\n";
  if (devices > 1)
    text += R"([[links]]
name = "switch"
topology = "fat-tree"
links = 1
bandwidth = 5e9
latency = 2e-6
group = )" + std::to_string(devices) +
            "\n";
  return text;
}

}  // namespace ramet::tests

#pragma once

#include <memory>
#include <vector>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// NVIDIA's management library, opened when the program runs: where it or a GPU is missing, there is nothing to read.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  /// Adds gpuN_percent, gpuN_memory_bytes, gpuN_watts and gpuN_celsius of each GPU.
  void read(std::vector<LoggedNumber>& sample);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::track

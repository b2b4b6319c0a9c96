#pragma once

#include <span>
#include <vector>

#include "ramet/sim/step_time.h"

namespace ramet {

/// Where the time of one stage's devices is expected to go.
struct StageTime {
  StepTime work;         ///< what they do; its `seconds` are without waits
  double waiting = 0;    ///< seconds in which they wait for other stages
  double streaming = 0;  ///< seconds in which they wait for streaming memory
};

/// Time of one training step of all devices of a layout.
struct ClusterTime {
  double seconds = 0;
  double bubble = 0;  ///< share of stages x seconds in which stages wait for each other
  std::vector<StageTime> stages;
};

/// Runs the training programs of all stages against each other, step by step, on a machine in which every device has
/// its own processors and shares memory with the others: messages, collectives and streaming memory move at the
/// machine's bandwidth. Devices copy what streams from host memory themselves; files move while they compute. `stages`
/// must match (program/match.h).
ClusterTime predict_step(std::span<const Executable> stages, const Machine& machine, bool streams_to_files = false);

}  // namespace ramet

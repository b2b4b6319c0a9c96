#pragma once

#include <optional>
#include <string>

#include "ramet/machine/machine.h"
#include "ramet/train/training_loop.h"

namespace ramet::train {

// The files about a run's programs in its folder, as JSON (docs/runs.md). Each object begins with "version".
inline constexpr int kRunFilesVersion = 1;

/// plan.json: for each stage the devices that run it and their memory by class, planned and at the peak.
std::string plan_json(const Training& training);
/// liveness.json: for each stage every buffer with its class, address, bytes and the instants between which it is live,
/// and what happens at each segment's instants.
std::string liveness_json(const Training& training);
/// program.json: for each stage its segments, and the steps of each of its programs in order.
std::string program_json(const Training& training);
/// times.json: seconds of a step, as measured so far; of a profiled run, seconds, calls and work of every kernel in
/// every segment of every device of this process, and beside each what `machine` is expected to take where it is given.
std::string times_json(const Training& training, int64_t steps, double step_seconds,
                       const std::optional<Machine>& machine);

}  // namespace ramet::train

#pragma once

#include <optional>
#include <span>
#include <string>

#include "ramet/machine/machine.h"
#include "ramet/train/training_loop.h"

namespace ramet::train {

// The files about a run's programs in its folder, as JSON (docs/runs.md). Each object begins with "version".
inline constexpr int kRunFilesVersion = 1;

/// A compiled workload on its layout: what the files are about.
struct RunPrograms {
  std::span<const Executable> stages;
  const Layout& layout;
  double compile_seconds = 0;

  Mesh mesh() const { return layout.mesh(); }
  /// Memory that all devices take, with streaming memory in RAM.
  int64_t planned_bytes() const;
};
RunPrograms programs_of(const Training& training);

/// plan.json: for each stage the devices that run it and their memory by class, planned and at the peak.
std::string plan_json(const RunPrograms& programs);
/// liveness.json: for each stage every buffer with its class, address, bytes and the instants between which it is live,
/// and what happens at each segment's instants.
std::string liveness_json(const RunPrograms& programs);
/// program.json: for each stage its segments, and the steps of each of its programs in order.
std::string program_json(const RunPrograms& programs);
/// times.json: seconds of a step, as measured so far; of a profiled run, seconds, calls and work of every kernel in
/// every segment of every device of this process, and beside each what `machine` is expected to take where it is given.
std::string times_json(const Training& training, int64_t steps, double step_seconds,
                       const std::optional<Machine>& machine);
/// times.json of a plan: what `machine` is expected to take for a step and for each kernel in it; nothing is measured.
std::string predicted_times_json(const RunPrograms& programs, double step_seconds, const Machine& machine);

}  // namespace ramet::train

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ramet/report/memory.h"
#include "ramet/sim/simulate.h"

namespace ramet::report {

/// What one device of a layout holds and moves in a step. All devices of a stage are alike.
struct DeviceReport {
  int stage = 0;
  int64_t planned_bytes = 0;                         ///< the arena
  int64_t streaming_bytes = 0;                       ///< of streaming memory
  std::array<int64_t, kBufferClassCount> at_peak{};  ///< of device memory, when most bytes are live
  std::string peak;                                  ///< the work at that time
  int64_t between = 0;  ///< of the arena: bytes that the placement leaves free at that time
  std::array<int64_t, kBufferClassCount> streaming{};  ///< of streaming memory
  int64_t supersteps = 0;                              ///< of a training step
  /// Bytes of the weights that the device holds, by the logical axis that tensor shards cut ("heads", "mlp and embed");
  /// "not cut": all of them.
  std::map<std::string, int64_t> weights;

  /// Traffic of a training step.
  struct Traffic {
    int64_t count = 0, bytes = 0;  ///< bytes that this device sends; for "receive" and "load", bytes that it gets
  };
  std::map<std::string, Traffic> traffic;  ///< "all_reduce t1:2", "send", "receive", "load", "store"
};

struct DevicesReport {
  std::string layout;                ///< canonical text
  std::string activations;           ///< the choice for each layer that makes the step fit; empty: none was needed
  std::string given_up;              ///< what the stages gave up of speed to fit; empty: nothing
  double bubble = 0;                 ///< predicted, of the pipeline's schedule, were its stages alike
  std::optional<Simulation> time;    ///< predicted, of the compiled programs on a machine
  std::vector<DeviceReport> stages;  ///< one device of each
  std::vector<int> stage_of;         ///< of each device

  double bubble_of_step() const { return time ? time->bubble : bubble; }
};

/// `stages`: the executables of a layout, one a stage.
DevicesReport devices_report(std::span<const Executable> stages, const std::string& layout, double bubble);
/// As tables: memory, then traffic, a column a stage.
std::string text_of(const DevicesReport& report);
/// As one JSON array: for each device {device, stage, planned_bytes, streaming_bytes, parts {CLASS: bytes},
/// streaming_parts, peak, supersteps, traffic {KIND: {count, bytes}}}; `parts` add up to planned_bytes.
std::string json_of(const DevicesReport& report);
/// The arenas of all stages over the step, one below the other.
std::string memory_svg(std::span<const Executable> stages);

}  // namespace ramet::report

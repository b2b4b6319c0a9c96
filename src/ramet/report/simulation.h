#pragma once

#include <span>
#include <string>

#include "ramet/program/executable.h"
#include "ramet/sim/simulate.h"

namespace ramet::report {

/// As tables: where the time of each stage's devices goes, with the memory of one of them, and what each level of links
/// and each memory carries.
std::string text_of(const Simulation& simulation, std::span<const Executable> stages);
/// As one JSON object: step_seconds, bubble, share_of_peak, devices, simulated, events, stages [{stage, devices,
/// compute, exchange, streaming, wait, planned_bytes, streaming_bytes}], links [{name, links, bandwidth, bytes,
/// busiest, use, busiest_use}], the last two as shares of the step.
std::string json_of(const Simulation& simulation, std::span<const Executable> stages);

/// A picture of every device's work over the step, one line for all devices that do the same, then the traffic of links
/// and memories. Spans too short to be seen are joined into one of the kind that takes most of the time there; hovering
/// shows the layer, the run and the times. Needs timelines.
std::string timeline_svg(const Simulation& simulation, const std::string& title);

}  // namespace ramet::report

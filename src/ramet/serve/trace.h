#pragma once

#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::serve {

/// The last measured step of a run as a Perfetto trace, made of the texts of its program.json and times.json
/// (docs/runs.md): a process for each device with the runs of its segments, the instructions in them, its waits, and
/// marks where messages start. Runs and waits have the times that were measured in that step. The instructions of a run
/// share its time as their means over all profiled steps do. Throws Error when the files are damaged, or hold no
/// measured times.
std::string step_trace(std::string_view program, std::string_view times);

}  // namespace ramet::serve

#pragma once

#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::serve {

/// A measured step of a run as a Perfetto trace, made of the texts of its program.json and times.json (docs/runs.md): a
/// process for each device with the runs of its segments and the instructions in them. An instruction takes the mean of
/// its measured times over the profiled steps. A superstep begins when all devices have ended the one before; messages
/// and waits have no times of their own in these files, so they stand as marks. Throws Error when the files are
/// damaged, or hold no times of kernels.
std::string step_trace(std::string_view program, std::string_view times);

}  // namespace ramet::serve

#pragma once

#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"

namespace ramet::sim {

/// Seconds of the programs that follow every n-th training step, such as changes of sparse patterns, as a mean over all
/// steps; the step itself (sim/step_time.h) is not in it.
double mean_seconds_after_steps(const Executable& executable, const Machine& machine);

}  // namespace ramet::sim

#pragma once

#include <span>

#include "ramet/program/choose.h"
#include "ramet/program/executable.h"
#include "ramet/program/schedule.h"
#include "ramet/program/stage.h"

namespace ramet {

/// Turns scheduled graphs into instructions over buffers: fills `buffers` (all but offsets), `states`, `segments`, `tasks` and
/// `instants`, and the instants of `plan`'s regions. Bytes are shared wherever that is sound:
///  - a view is its operand
///  - an output is written over an operand that dies there, where the kernel allows it
///  - the next value of a state is written into the state, once nothing reads the old value; where the kernel may not, it is
///    copied there behind its node; where the old value is read later, at the end of the segment
///  - feeds are buffers like any others, and die with their last use
/// `schedules` has one a piece.
Executable assign_buffers(const Stage& stage, RegionPlan& plan, std::span<const Schedule> schedules, const KernelChoices& kernels);

}  // namespace ramet

#pragma once

#include <span>

#include "ramet/program/choose.h"
#include "ramet/program/executable.h"
#include "ramet/program/schedule.h"
#include "ramet/program/stage.h"
#include "ramet/program/stays.h"

namespace ramet::program {

/// Turns scheduled graphs into instructions over buffers: fills `buffers` and `streaming` (all but offsets), `states`,
/// `segments`, `tasks` and `instants`, the instants of `plan`'s regions and the buffers of `stays`. Bytes are shared
/// wherever that is sound:
///  - a view is its operand
///  - an output is written over an operand that dies there, where the kernel allows it
///  - the next value of a state is written into the state, once nothing reads the old value; where the kernel may not,
///  it is
///    copied there behind its node; where the old value is read later, at the end of the segment
///  - a boundary is written where it waits for its readers
///  - feeds are buffers like any others, and die with their last use
/// `schedules` has one a piece.
Executable assign_buffers(const Stage& stage, RegionPlan& plan, StayPlan& stays, std::span<const Schedule> schedules,
                          const KernelChoices& kernels);

}  // namespace ramet::program

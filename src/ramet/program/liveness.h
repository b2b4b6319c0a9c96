#pragma once

#include <span>

#include "ramet/program/choose.h"
#include "ramet/program/executable.h"
#include "ramet/program/order.h"
#include "ramet/program/stage.h"
#include "ramet/program/stays.h"

namespace ramet::program {

/// Turns ordered graphs into instructions over buffers: fills `buffers` and `streaming` (all but offsets), `states`,
/// `segments`, `calls` and `instants`, the instants of `timeline`'s regions and the buffers of `stays`. Values share
/// bytes wherever that is sound:
///  - A view shares the bytes of its operand.
///  - An output is written over an operand that dies there, where the kernel allows it.
///  - The next value of a state is written into the state once no node reads the old value. Where the kernel may not
///    write there, the value is copied behind its node; where the old value is read later, at the end of the segment.
///  - A boundary is written where it waits for its readers.
///  - Feeds are buffers like any others, and die with their last use.
/// `orders` has one entry a piece.
Executable assign_buffers(const Stage& stage, Timeline& timeline, Stays& stays, std::span<const NodeOrder> orders,
                          const KernelChoices& kernels);

}  // namespace ramet::program

#pragma once

#include "ramet/program/executable.h"
#include "ramet/program/stays.h"

namespace ramet::program {

/// Fills `transfers` and `programs`: the runs of all regions, and around them what zeroes and
/// combines accumulators, what brings states and boundaries to device memory and takes them away, and the waits, each
/// as late as it may be. Supersteps count the runs of this device alone (see number_supersteps).
void make_programs(Executable& executable, const Stage& stage, const Timeline& timeline, const Stays& stays);

}  // namespace ramet::program

#pragma once

#include "ramet/program/executable.h"
#include "ramet/program/stage.h"

namespace ramet {

/// Fills `train`, `prepare` and `evaluate`: the runs of all regions, and around them what zeroes and combines accumulators.
void make_programs(Executable& executable, const RegionPlan& plan);

}  // namespace ramet

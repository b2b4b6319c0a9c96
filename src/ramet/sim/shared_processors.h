#pragma once

#include "ramet/sim/simulate.h"

namespace ramet {

/// As simulate, on a machine whose devices share its processors (Machine::processors): it has as many devices as the
/// layout, and where their threads are more than the processors, a step takes at least what the processors need for
/// the work of all devices together. Waits and bubbles of some devices are then time for others, so that the longer of
/// both is what a step takes, but for what switching costs.
Simulation simulate_sharing(std::span<const Executable> stages, Machine machine, const SimulationOptions& options = {});

}  // namespace ramet

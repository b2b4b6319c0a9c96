#pragma once

#include "ramet/sim/simulate.h"

namespace ramet::sim {

/// As simulate, on a machine whose devices share its processors (Machine::processors): it has as many devices as the
/// layout.
Simulation simulate_sharing(std::span<const Executable> stages, Machine machine, const SimulationOptions& options = {});

}  // namespace ramet::sim

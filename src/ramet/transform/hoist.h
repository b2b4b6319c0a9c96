#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Moves what is computed from weights alone (casts to the compute type, scalings) out of `micro`, and out of programs
/// that read data and change no state, into `derive`, where it is done once an update instead of once a micro-batch;
/// its results become states of kind kDerived named "derived.N.WEIGHT". Views and cheap nodes without weights stay.
/// Equal computations in both graphs share one state.
StepGraph hoist(StepGraph step);

/// The other way: each reader of a derived state makes what it reads from the weights itself, just before, so that none
/// of them outlives its use. The same nodes on the same numbers: no bit changes. Costs their computation once a reader.
StepGraph unhoist(StepGraph step);

}  // namespace ramet::transform

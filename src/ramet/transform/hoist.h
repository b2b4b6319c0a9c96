#pragma once

#include <set>
#include <string>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Moves nodes that depend on weights alone (casts to the compute type, scalings) out of `micro`, and out of programs
/// that read data and change no state, into `derive`, where they run once an update instead of once a micro-batch.
/// Their results become states of kind kDerived named "derived.N.WEIGHT". Views, and cheap nodes without weights, stay.
/// Equal computations in several graphs share one state.
StepGraph hoist(StepGraph step);

/// The inverse, which saves memory: each reader of a derived state computes its value from the weights just before it
/// reads it, so that no derived value outlives its use. The nodes and their inputs are the same, so no bit changes; the
/// computation is repeated for each reader.
StepGraph unhoist(StepGraph step);

/// The same for one graph and the derived states `wanted`, all of which `derive` makes.
Graph unhoist(const Graph& graph, const Graph& derive, const std::set<std::string>& wanted);

}  // namespace ramet::transform

#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Removes redundant nodes without changing a bit of any result: dead nodes and unused state inputs, common
/// subexpressions, the ops' own identities (OpDef::simplify: constants folded, casts and reshapes merged, x * 1, ...).
/// Repeated until nothing changes.
Graph simplify(const Graph& graph);
StepGraph simplify(StepGraph step);

}  // namespace ramet::transform

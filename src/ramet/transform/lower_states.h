#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// The step with constants and deferred states in the form that layouts and programs know:
///  - a `constant` node becomes a state of kind kConstant that starts with its data; equal ones become one state, and
///    those of one value a `full` node
///  - the value that `micro` gives for a deferred state S is added to row m of the accumulator "accumulator.S" [M,
///  ...],
///    where m is the number of the micro-batch in the step ("counter") and M is how many there are; all other rows get
///    nothing, so that lanes, replicas and shards sum as they do for gradients and every row is one micro-batch's
///    value. The update folds the rows in order (op fold)
/// A step that has neither is left as it is. Throws Error where the update writes a deferred state that has values.
StepGraph lower_states(StepGraph step);

}  // namespace ramet::transform

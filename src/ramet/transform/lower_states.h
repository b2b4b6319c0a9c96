#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// The step with constants and deferred states in the form that layouts and programs know:
///  - A `constant` node becomes a state of kind kConstant that starts with its data. Equal ones become one state;
///    those of one value become a `full` node.
///  - The value that `micro` gives for a deferred state S is added to row m of the accumulator "accumulator.S" [M,
///    ...], where m is the number of the micro-batch in the step ("counter") and M the number of micro-batches. The
///    other rows get nothing, so lanes, replicas and shards are summed as gradients are, and every row is one
///    micro-batch's value. The update folds the rows in order (op fold).
/// A step without constants and deferred states is left as it is. Throws Error where the update writes a deferred
/// state that has values.
StepGraph lower_states(StepGraph step);

}  // namespace ramet::transform

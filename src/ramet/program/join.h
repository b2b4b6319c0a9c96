#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::program {

/// Makes one graph of `micro` and `update` when the step has one micro-batch: every gradient goes from where it is made
/// to where it is used, and no accumulator is kept. A sum with an accumulator that would be zero becomes its other
/// term. The step is unchanged when it has more micro-batches. The joined graph is `micro`; `update` is left empty.
StepGraph join(StepGraph step);

}  // namespace ramet::program

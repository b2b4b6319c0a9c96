#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Copies the programs that run for every micro-batch (When::each_micro_batch) into the micro graph. Inputs of equal
/// names become one input, and the programs' results become results of the micro-batch. The pass runs after all passes
/// that merge nodes, so that such a program changes no bit of the training program. Throws Error where both graphs read
/// an input of one name with two types.
StepGraph attach_programs(StepGraph step);

}  // namespace ramet::transform

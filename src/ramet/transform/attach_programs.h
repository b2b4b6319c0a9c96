#pragma once

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// Copies the programs of every micro-batch (When::each_micro_batch) into the micro graph: inputs of one name are one,
/// and their results are results of the micro-batch. Stands behind all passes that merge nodes, so that such a program
/// changes no bit of the training program. Throws Error where both read an input of one name with two types.
StepGraph attach_programs(StepGraph step);

}  // namespace ramet::transform

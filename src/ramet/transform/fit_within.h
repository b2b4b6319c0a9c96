#pragma once

#include "ramet/transform/fit_activations.h"

namespace ramet::transform {

/// As `fit_activations`, where a stage's choices may add at most `time_share` (of 1) to the time that its forward and
/// backward pass takes when everything is kept. Where nothing fits within that time, the smallest choices within it
/// that were found; inputs of layers always stay.
ActivationChoices fit_within(const StepGraph& step, const FitProblem& problem, double time_share);

}  // namespace ramet::transform

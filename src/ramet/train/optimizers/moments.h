#pragma once

#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {

// What Adam, AdamW and LAMB share.

/// Two moments of the gradient.
std::vector<OptimizerState> two_moments();
/// The corrections of moments that began at 0.
std::vector<OptimizerScalar> bias_corrections();

using AdamStep = AdamResult (*)(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamScalars& scalars,
                                const AdamOptions& options, const StateForm& form);
/// The update by `step`, adam or lamb; `decoupled`: weights decay apart from the gradient.
void build_with_moments(WeightUpdate& update, AdamStep step, bool decoupled);

}  // namespace ramet::train

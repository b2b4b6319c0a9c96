#pragma once

#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::transform {

/// Reverse-mode differentiation. The result is the forward graph followed by its backward part, with the forward's
/// outputs and, for each name in `wrt` (graph inputs), an output "grad.NAME": the derivative of the scalar output
/// `loss`, f32, of the input's shape (zeros where the loss does not depend on it). Where a value is used several times
/// its gradients are added in reverse order of use. Backward nodes are named "NODE/backward". Throws Error when `loss`
/// is not a scalar float, a name is unknown, or an op on the way has no gradient.
Graph differentiate(const Graph& forward, const std::string& loss, const std::vector<std::string>& wrt);

}  // namespace ramet::transform

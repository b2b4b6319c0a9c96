#pragma once

#include "ramet/ir/op.h"
#include "ramet/ops/grid_position.h"

namespace ramet::ops {

/// The forms of nodes; each throws Error on a node that breaks a rule. Output types may be missing.
GridForm grid_sample_form(const NodeSignature& node);         ///< (a, grid) -> sampled
GridForm grid_sample_grad_form(const NodeSignature& node);    ///< (dy, grid) -> f32 gradient of a
GridForm grid_position_grad_form(const NodeSignature& node);  ///< (dy, a, grid) -> f32 gradient of the grid

}  // namespace ramet::ops

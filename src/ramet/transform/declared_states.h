#pragma once

#include <string_view>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// "zeros", "constant", "normal", "truncated_normal", "uniform", "iota", "function", "data"
std::string_view name_of(StateInit::Kind kind);

/// Throws Error, naming the state, when its declaration contradicts itself: its first values have another type or are
/// missing where the role needs them, the role does not allow the type, or the logical axes do not fit the dimensions.
void check_declared(const StateTensor& state);

}  // namespace ramet::transform

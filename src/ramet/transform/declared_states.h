#pragma once

#include <string_view>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// "zeros", "constant", "normal", "truncated_normal", "uniform", "iota", "function", "data"
std::string_view name_of(StateInit::Kind kind);

/// Throws Error, naming the state, where a declaration contradicts itself: first values of another type than the
/// state's or none where its role needs them, a type that its role does not have, logical axes that do not fit its
/// dimensions.
void check_declared(const StateTensor& state);

}  // namespace ramet::transform

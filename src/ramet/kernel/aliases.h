#pragma once

#include <utility>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::kernel {

/// The pairs (input, output) of `aliases` that the node has, with one shape and one element size: those may share
/// bytes.
std::vector<std::pair<int, int>> fitting_aliases(const std::vector<std::pair<int, int>>& aliases,
                                                 const NodeSignature& node);

}  // namespace ramet::kernel

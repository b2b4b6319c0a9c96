#pragma once

#include <map>
#include <vector>

#include "ramet/ops/map_program.h"

namespace ramet::transform {

/// The values (inputs and steps) that `wanted` are made of, and `wanted` themselves, ascending; without those that are
/// keys of `known`, and without what these alone are made of.
std::vector<int> needed_values(const MapProgram& program, const std::vector<int>& wanted,
                               const std::map<int, int>& known = {});

}  // namespace ramet::transform

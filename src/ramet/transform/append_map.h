#pragma once

#include <vector>

#include "ramet/ops/map_program.h"

namespace ramet::transform {

/// Appends the steps of another program whose inputs are these values of `program`. Gives the number of each of its
/// values, inputs first.
std::vector<int> append_steps(MapProgram& program, const MapProgram& own, std::vector<int> inputs);
/// The number of a value as a reader of that type sees it: where the type is a float of 16 bits, a step rounds it.
int append_rounding(MapProgram& program, int value, DType dtype);

}  // namespace ramet::transform

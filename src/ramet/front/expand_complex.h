#pragma once

#include "ramet/base/house.h"

#include "ramet/front/program.h"

namespace ramet::front {

/// The program with calls on real and imaginary parts in place of arithmetic on complex tensors, and of calls that only
/// move their elements. Calls that the table of operators takes with complex tensors (Fourier transforms), and those
/// that are not known here, stay as they are, and read pairs of parts.
TracedProgram expand_complex(TracedProgram program);

}  // namespace ramet::front

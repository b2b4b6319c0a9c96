#pragma once

#include <string>

#include "ramet/train/numerics.h"

namespace ramet::report {

/// A table: the share of numbers in each range of exponents, the first tensor out of range, and the `most` tensors that
/// lose most.
std::string text_of(const NumericsReport& report, size_t most = 20);

}  // namespace ramet::report

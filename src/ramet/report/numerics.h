#pragma once

#include <string>

#include "ramet/train/numerics.h"

namespace ramet::report {

/// A table: how much of what is where, the first tensor out of range, and the `most` tensors that lose most.
std::string text_of(const NumericsReport& report, size_t most = 20);
/// One JSON object: step, precision, first_out_of_range (or null), tensors [{name, kind, op, stage, type, elements,
/// zeros, range, overflow, underflow, subnormal, compute_overflow, compute_underflow, infinities, nans, exponents
/// {"-3": count}}], in the order of the program.
std::string json_of(const NumericsReport& report);

}  // namespace ramet::report

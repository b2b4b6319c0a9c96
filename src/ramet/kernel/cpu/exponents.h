#pragma once

#include <cstdint>

namespace ramet::kernel::cpu {

/// Elements that are counted at a time.
inline constexpr int64_t kExponentBlock = 4096;
/// Adds the exponents of up to kExponentBlock elements to a histogram (ops/exponents.h).
using CountExponents = void (*)(const float* from, int64_t count, int64_t* bins);
CountExponents count_exponents();

}  // namespace ramet::kernel::cpu

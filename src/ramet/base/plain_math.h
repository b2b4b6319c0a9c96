#pragma once

#include <cstdint>

namespace ramet {

// Functions of plain arithmetic in a fixed order, compiled without contraction: equal bits on every machine, whatever
// its C library. For rates and draws that a run makes now and then; kernels have their own.

/// cos(pi x) for x in [0, 1], by Taylor's series on [0, 1/4] of the circle.
double plain_cos_pi(double x);
/// Natural logarithm of x > 0 (a normal number): 2 atanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2)).
double plain_log(double x);
/// e^x for x <= 0, to a relative error of 1e-14; 0 below -700.
double plain_exp(double x);
/// 1 - beta^t for t = step + 1 (Kingma & Ba 2015): the correction of a moment that began at zero.
double bias_correction(double beta, int64_t step);

}  // namespace ramet

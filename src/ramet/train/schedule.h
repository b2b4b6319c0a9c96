#pragma once

#include <cstdint>

#include "ramet/train/recipe.h"

namespace ramet {

/// Learning rate of step `step` (from 0), in double:
/// while step < warm-up W: peak * (step + 1) / (W + 1), so that the first step already learns and step W has the peak;
/// then with x = (step - W) / (S - W), at most 1 (S: the schedule's steps): linear peak + (end - peak) x;
/// cosine end + (peak - end) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017); polynomial end + (peak - end) (1 -
/// x)^power; constant peak. The same on every machine: cosine and powers are computed by own series, not by the C
/// library.
double learning_rate_at(const Recipe& recipe, int64_t step);

/// 1 - beta^t for t = step + 1 (Kingma & Ba 2015): the correction of a moment that began at zero.
double bias_correction(double beta, int64_t step);

}  // namespace ramet

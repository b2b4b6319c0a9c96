#pragma once

#include <cstdint>

#include "ramet/train/train_options.h"

namespace ramet::train {

/// Samples of a step.
int64_t global_batch(const TrainOptions& options);

/// What rates are multiplied by: (B / b) or its root, B the global batch and b the one that the rates are given for
/// (Goyal et al. 2017, arXiv 1706.02677; Krizhevsky 2014, arXiv 1404.5997, and You et al., arXiv 1904.00962, for
/// roots).
double batch_scaling(const TrainOptions& options);

/// Learning rate of step `step` (from 0), in double, batch_scaling in it:
/// while step < warm-up W: peak * (step + 1) / (W + 1), so that the first step already learns and step W has the peak;
/// then with x = (step - W) / (S - W), at most 1 (S: the schedule's steps): linear peak + (end - peak) x;
/// cosine end + (peak - end) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017); polynomial end + (peak - end) (1 -
/// x)^power; constant peak. At most what the optimizer allows (OptimizerDef::most_rate). The same on every machine:
/// cosine and powers are computed by series of our own, not by the C library.
double learning_rate_at(const TrainOptions& options, int64_t step);

/// 1 - t^-rate for t = step + 1: Adafactor's decay of second moments (Shazeer & Stern, arXiv 1804.04235, section 7.2).
double rising_decay(double rate, int64_t step);

}  // namespace ramet::train

#pragma once

#include <string>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Random numbers that are drawn anew in every micro-batch, by logical element: the same on every layout (ops/draw.h).
// No gradient flows into them.

/// Whose numbers: `counter` is the scalar input "counter" i64[2] = {step, micro-batch index}; `random_name` names the
/// logical tensor, and is unique in the model.
struct DrawBy {
  Tensor counter{};
  int64_t seed = 0;
  std::string random_name{};
};

/// Uniform in [low, high).
Tensor random_uniform(const DrawBy& by, const Shape& shape, double low = 0, double high = 1, DType dtype = DType::kF32);
Tensor random_normal(const DrawBy& by, const Shape& shape, double mean = 0, double deviation = 1,
                     DType dtype = DType::kF32);
/// Whole numbers from low to high - 1, i32 or i64, at most 2^31 of them.
Tensor random_integers(const DrawBy& by, const Shape& shape, int64_t low, int64_t high, DType dtype = DType::kI32);
/// 1 with the probability, else 0.
Tensor bernoulli(const DrawBy& by, const Shape& shape, double probability, DType dtype = DType::kF32);
/// The same with a probability for each element, in the type of the probabilities.
Tensor bernoulli(const DrawBy& by, Tensor probabilities);
/// Stochastic depth (Huang et al., arXiv 1603.09382): each sample of a [N, ...] is 0 with probability `rate`, and
/// a / (1 - rate) otherwise: one draw a sample.
Tensor drop_path(Tensor a, const DrawBy& by, double rate);

}  // namespace ramet::ops

#pragma once

#include <optional>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Element-wise functions that are made of map ops, and names for the ops that ops/build.h does not name. All broadcast
// by NumPy's rule. Each is one node of a fused chain, or a few; definitions are PyTorch's where nothing else is said.

// --- activations ---
Tensor silu(Tensor a);  ///< a sigmoid(a)
Tensor leaky_relu(Tensor a, double slope = 0.01);
Tensor elu(Tensor a, double alpha = 1);
Tensor celu(Tensor a, double alpha = 1);  ///< alpha elu(a / alpha); alpha > 0
Tensor selu(Tensor a);                    ///< Klambauer et al., arXiv 1706.02515
/// a where a >= 0, else slope * a. `slope` broadcasts; for one slope a channel of [N, C, ...] give it as [C, 1, ...].
Tensor prelu(Tensor a, Tensor slope);
Tensor relu6(Tensor a);
Tensor hardtanh(Tensor a, double low = -1, double high = 1);
/// a held between slope * a + offset's 0 and 1: PyTorch's is slope 1/6, ONNX's default 0.2.
Tensor hardsigmoid(Tensor a, double slope = 1.0 / 6, double offset = 0.5);
Tensor hardswish(Tensor a);  ///< a hardsigmoid(a)
Tensor mish(Tensor a);       ///< a tanh(softplus(a))
Tensor softsign(Tensor a);   ///< a / (1 + |a|)
/// log(1 + e^(beta a)) / beta, and a itself where beta a > threshold.
Tensor softplus(Tensor a, double beta = 1, double threshold = 20);
Tensor log_sigmoid(Tensor a);
Tensor tanhshrink(Tensor a);
Tensor softshrink(Tensor a, double lambda = 0.5);
Tensor hardshrink(Tensor a, double lambda = 0.5);
/// ONNX's Shrink: a + bias where a < -lambda, a - bias where a > lambda, else 0.
Tensor shrink(Tensor a, double lambda, double bias);
/// a where a > threshold, else `value`.
Tensor thresholded(Tensor a, double threshold, double value = 0);
Tensor quick_gelu(Tensor a);  ///< a sigmoid(1.702 a)
/// The first half along `axis` times the sigmoid of the second (Dauphin et al., arXiv 1612.08083).
Tensor glu(Tensor a, int64_t axis = -1);
/// silu(gate) * value (Shazeer, arXiv 2002.05202).
Tensor swiglu(Tensor gate, Tensor value);
/// 1 at the first of the greatest elements along `axis`, else 0.
Tensor hardmax(Tensor a, int64_t axis = -1);

// --- arithmetic ---
/// a held between the bounds, of which one may be absent; floats and integers. NaN stays.
Tensor clamp(Tensor a, std::optional<double> low, std::optional<double> high);
Tensor remainder(Tensor a, Tensor b);     ///< the sign is b's, as Python's %
Tensor fmod(Tensor a, Tensor b);          ///< the sign is a's, as C's
Tensor floor_divide(Tensor a, Tensor b);  ///< rounded down
Tensor trunc_divide(Tensor a, Tensor b);  ///< rounded towards zero
Tensor trunc(Tensor a);
Tensor frac(Tensor a);  ///< a - trunc(a)
Tensor atan2(Tensor a, Tensor b);
Tensor hypot(Tensor a, Tensor b);
Tensor copysign(Tensor a, Tensor b);
Tensor logaddexp(Tensor a, Tensor b);
Tensor addcmul(Tensor a, Tensor b, Tensor c, double factor = 1);  ///< a + factor b c
Tensor addcdiv(Tensor a, Tensor b, Tensor c, double factor = 1);  ///< a + factor b / c
Tensor lerp(Tensor a, Tensor b, Tensor weight);                   ///< a + weight (b - a)
Tensor xlogy(Tensor a, Tensor b);                                 ///< a log(b), 0 where a is 0
/// NaN as `nan`, infinities as `high` and `low`; absent: the greatest and the least number of the type.
Tensor nan_to_num(Tensor a, double nan = 0, std::optional<double> high = std::nullopt,
                  std::optional<double> low = std::nullopt);

// --- bits and truth; of bools, the bitwise functions are the logical ones ---
Tensor logical_and(Tensor a, Tensor b);
Tensor logical_or(Tensor a, Tensor b);
Tensor logical_xor(Tensor a, Tensor b);
Tensor logical_not(Tensor a);
Tensor bitwise_and(Tensor a, Tensor b);
Tensor bitwise_or(Tensor a, Tensor b);
Tensor bitwise_xor(Tensor a, Tensor b);
Tensor bitwise_not(Tensor a);
Tensor shift_left(Tensor a, Tensor b);
Tensor shift_right(Tensor a, Tensor b);  ///< arithmetic for types with a sign
Tensor is_nan(Tensor a);
Tensor is_inf(Tensor a, bool positive = true, bool negative = true);
Tensor is_finite(Tensor a);

}  // namespace ramet::ops

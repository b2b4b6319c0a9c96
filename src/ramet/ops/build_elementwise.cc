#include "ramet/ops/build_elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ops/build.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

/// A scalar of a's type.
Tensor number(Tensor like, double value) { return full(*like.builder, like.dtype(), {}, value); }
Tensor greater(Tensor a, Tensor b) { return map_binary("greater", a, b); }
Tensor with(std::string_view op, Tensor a, double p) { return a.builder->op(op, {a}, {{"parameter", p}}); }

double greatest_number(DType dtype) {
  switch (dtype) {
    case DType::kF64: return std::numeric_limits<double>::max();
    case DType::kF32: return static_cast<double>(std::numeric_limits<float>::max());
    default: break;
  }
  const uint32_t code = format_of(dtype).largest();
  return load_element(&code, dtype, 0);
}

}  // namespace

Tensor silu(Tensor a) { return map_unary("silu", a); }
Tensor leaky_relu(Tensor a, double slope) { return with("leaky_relu", a, slope); }
Tensor elu(Tensor a, double alpha) { return with("elu", a, alpha); }

Tensor celu(Tensor a, double alpha) {
  if (!(alpha > 0))
    throw Error({.what = "celu needs a positive alpha", .where = "celu", .found = std::to_string(alpha)});
  return alpha == 1 ? elu(a, 1) : scale(elu(scale(a, 1 / alpha), 1), alpha);
}

Tensor selu(Tensor a) {
  constexpr double kAlpha = 1.6732632423543772848, kScale = 1.0507009873554804934;
  return scale(elu(a, kAlpha), kScale);
}

Tensor prelu(Tensor a, Tensor slope) { return select(less(a, number(a, 0)), multiply(a, slope), a); }
Tensor relu6(Tensor a) { return hardtanh(a, 0, 6); }

Tensor hardtanh(Tensor a, double low, double high) {
  return a.builder->op("clamp", {a}, {{"parameter", low}, {"second", high}});
}

Tensor hardsigmoid(Tensor a, double slope, double offset) {
  return hardtanh(add_scalar(scale(a, slope), offset), 0, 1);
}
Tensor hardswish(Tensor a) { return multiply(a, hardsigmoid(a)); }
Tensor mish(Tensor a) { return multiply(a, tanh(map_unary("softplus", a))); }
Tensor softsign(Tensor a) { return divide(a, add_scalar(map_unary("abs", a), 1)); }

Tensor softplus(Tensor a, double beta, double threshold) {
  if (!(beta > 0))
    throw Error({.what = "softplus needs a positive beta", .where = "softplus", .found = std::to_string(beta)});
  const Tensor scaled = beta == 1 ? a : scale(a, beta);
  const Tensor soft = beta == 1 ? map_unary("softplus", a) : scale(map_unary("softplus", scaled), 1 / beta);
  return select(greater(scaled, number(a, threshold)), a, soft);
}

Tensor log_sigmoid(Tensor a) { return negate(map_unary("softplus", negate(a))); }
Tensor tanhshrink(Tensor a) { return subtract(a, tanh(a)); }

Tensor shrink(Tensor a, double lambda, double bias) {
  const Tensor nothing = number(a, 0);
  const Tensor above = select(greater(a, number(a, lambda)), add_scalar(a, -bias), nothing);
  return select(less(a, number(a, -lambda)), add_scalar(a, bias), above);
}
Tensor softshrink(Tensor a, double lambda) { return shrink(a, lambda, lambda); }
Tensor hardshrink(Tensor a, double lambda) { return shrink(a, lambda, 0); }

Tensor thresholded(Tensor a, double threshold, double value) {
  return select(greater(a, number(a, threshold)), a, number(a, value));
}
Tensor quick_gelu(Tensor a) { return multiply(a, sigmoid(scale(a, 1.702))); }

Tensor glu(Tensor a, int64_t axis) {
  const int at = normalize_axis(axis, a.shape().rank(), "glu of " + a.type().text());
  const int64_t extent = a.dim(at);
  if (extent % 2 != 0)
    throw Error({.what = "glu halves a dimension of odd extent",
                 .where = "glu of " + a.type().text() + ", axis " + std::to_string(axis),
                 .found = std::to_string(extent),
                 .expected = "an even extent"});
  const std::vector<Tensor> halves = split(a, {extent / 2, extent / 2}, at);
  return multiply(halves[0], sigmoid(halves[1]));
}

Tensor swiglu(Tensor gate, Tensor value) { return multiply(silu(gate), value); }

Tensor hardmax(Tensor a, int64_t axis) {
  const int rank = a.shape().rank(), at = normalize_axis(axis, rank, "hardmax of " + a.type().text());
  const Tensor hot = one_hot(argmax(a, at), a.dim(at), a.dtype());  // the axis is the last one
  if (at == rank - 1) return hot;
  std::vector<int64_t> permutation;
  for (int i = 0; i < rank; ++i) permutation.push_back(i < at ? i : i == at ? rank - 1 : i - 1);
  return transpose(hot, permutation);
}

Tensor clamp(Tensor a, std::optional<double> low, std::optional<double> high) {
  if (is_floating(a.dtype())) return low || high ? hardtanh(a, low.value_or(-INFINITY), high.value_or(INFINITY)) : a;
  const double most = greatest_of(a.dtype());  // which of 64 bits is a little too much
  const auto held = [&](double bound) {        // a bound beyond the type's range is the range's
    return number(a, std::clamp(bound, lowest_of(a.dtype()), most > 0x1p53 ? std::nextafter(most, 0) : most));
  };
  if (low) a = maximum(a, held(*low));
  return high ? minimum(a, held(*high)) : a;
}

Tensor remainder(Tensor a, Tensor b) { return map_binary("remainder", a, b); }
Tensor fmod(Tensor a, Tensor b) { return map_binary("fmod", a, b); }
Tensor floor_divide(Tensor a, Tensor b) { return map_binary("floor_divide", a, b); }
Tensor trunc_divide(Tensor a, Tensor b) {
  const Tensor quotient = divide(a, b);
  return is_floating(quotient.dtype()) ? trunc(quotient) : quotient;
}
Tensor trunc(Tensor a) { return map_unary("trunc", a); }
Tensor frac(Tensor a) { return subtract(a, trunc(a)); }
Tensor atan2(Tensor a, Tensor b) { return map_binary("atan2", a, b); }
Tensor hypot(Tensor a, Tensor b) { return map_binary("hypot", a, b); }
Tensor copysign(Tensor a, Tensor b) { return map_binary("copysign", a, b); }
Tensor logaddexp(Tensor a, Tensor b) { return map_binary("logaddexp", a, b); }

Tensor addcmul(Tensor a, Tensor b, Tensor c, double factor) {
  const Tensor product = multiply(b, c);
  if (factor == 1) return add(a, product);
  return add(a, is_floating(a.dtype()) ? scale(product, factor) : multiply(product, number(product, factor)));
}
Tensor addcdiv(Tensor a, Tensor b, Tensor c, double factor) {
  const Tensor quotient = divide(b, c);
  return add(a, factor == 1 ? quotient : scale(quotient, factor));
}
Tensor lerp(Tensor a, Tensor b, Tensor weight) { return add(a, multiply(weight, subtract(b, a))); }

Tensor xlogy(Tensor a, Tensor b) {
  // 0 times an infinite logarithm; 1 in place of b makes it 0, and leaves no NaN in the gradient.
  const Tensor edge = logical_or(map_binary("less_equal", b, number(b, 0)), equal(b, number(b, INFINITY)));
  return multiply(a, log(select(logical_and(equal(a, number(a, 0)), edge), number(b, 1), b)));
}

Tensor nan_to_num(Tensor a, double nan, std::optional<double> high, std::optional<double> low) {
  if (!is_floating(a.dtype())) return a;
  const double most = greatest_number(a.dtype());
  const Tensor finite = clamp(a, low.value_or(-most), high.value_or(most));
  const Tensor held = select(is_inf(a), finite, a);
  return select(is_nan(a), number(a, nan), held);
}

Tensor logical_and(Tensor a, Tensor b) { return map_binary("logical_and", a, b); }
Tensor logical_or(Tensor a, Tensor b) { return map_binary("logical_or", a, b); }
Tensor logical_xor(Tensor a, Tensor b) { return map_binary("not_equal", cast(a, DType::kBool), cast(b, DType::kBool)); }
Tensor logical_not(Tensor a) { return map_unary("logical_not", a); }

Tensor bitwise_and(Tensor a, Tensor b) {
  return map_binary(a.dtype() == DType::kBool ? "logical_and" : "bitwise_and", a, b);
}
Tensor bitwise_or(Tensor a, Tensor b) {
  return map_binary(a.dtype() == DType::kBool ? "logical_or" : "bitwise_or", a, b);
}
Tensor bitwise_xor(Tensor a, Tensor b) {
  return map_binary(a.dtype() == DType::kBool ? "not_equal" : "bitwise_xor", a, b);
}
Tensor bitwise_not(Tensor a) { return map_unary(a.dtype() == DType::kBool ? "logical_not" : "bitwise_not", a); }
Tensor shift_left(Tensor a, Tensor b) { return map_binary("shift_left", a, b); }
Tensor shift_right(Tensor a, Tensor b) { return map_binary("shift_right", a, b); }

Tensor is_nan(Tensor a) { return map_unary("is_nan", a); }
Tensor is_finite(Tensor a) { return map_unary("is_finite", a); }
Tensor is_inf(Tensor a, bool positive, bool negative) {
  if (positive && negative) return map_unary("is_inf", a);
  if (!positive && !negative) return full(*a.builder, DType::kBool, a.shape(), 0);
  return equal(a, number(a, positive ? INFINITY : -INFINITY));
}

}  // namespace ramet::ops

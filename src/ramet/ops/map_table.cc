#include <bit>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/map_program.h"

// The table of map ops: names, types and meanings. The meaning on floats is double; on integers it wraps.

namespace ramet::ops {
namespace {

using T = MapOpTypes;

constexpr double kInvSqrt2 = 0.70710678118654752440, kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kSqrt2OverPi = 0.79788456080286535588, kGeluCubic = 0.044715;

double sigmoid_of(double a) { return a >= 0 ? 1 / (1 + std::exp(-a)) : std::exp(a) / (1 + std::exp(a)); }
double normal_cdf(double a) { return 0.5 * std::erfc(-a * kInvSqrt2); }
double normal_density(double a) { return kInvSqrt2Pi * std::exp(-0.5 * a * a); }
double gelu_tanh_inner(double a) { return std::tanh(kSqrt2OverPi * (a + kGeluCubic * a * a * a)); }
double gelu_tanh_slope(double a) {
  const double t = gelu_tanh_inner(a);
  return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kGeluCubic * a * a);
}
double silu_slope(double a) {
  const double s = sigmoid_of(a);
  return s * (1 + a * (1 - s));
}

int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_subtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrap_multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
/// Towards zero; 0 when b is 0.
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrap_subtract(0, a) : a / b; }
/// What is left of a; 0 when b is 0.
int64_t rest(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t floor_rest(int64_t a, int64_t b) {
  const int64_t left = rest(a, b);
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t cut = quotient(a, b), left = rest(a, b);
  return left != 0 && (left < 0) != (b < 0) ? cut - 1 : cut;
}
/// By any number of bits: those beyond the type's leave 0, or the sign. Negative ones count as too many.
int64_t shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
int64_t shift_right(int64_t a, int64_t b) { return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b; }

double floor_remainder(double a, double b) {
  const double left = std::fmod(a, b);
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}
/// A whole number next to a / b, told from its neighbours by the exact rest.
double floor_divided(double a, double b) {
  const double plain = a / b;
  if (b == 0 || !std::isfinite(plain)) return plain;
  return std::nearbyint((a - floor_remainder(a, b)) / b);
}
double log_sum(double a, double b) {
  return a == b ? a + std::log(2.0) : std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

/// The derivative of log Gamma: by recurrence up to 10, then the asymptotic series (Abramowitz and Stegun, 6.3.18).
double digamma(double a) {
  if (a == 0) return std::copysign(HUGE_VAL, -a);
  if (a < 0) {
    const double turn = a - std::nearbyint(a);
    return turn == 0 || std::isinf(a) ? std::nan("") : digamma(1 - a) - M_PI / std::tan(M_PI * turn);
  }
  if (std::isinf(a)) return a;
  double sum = 0;
  for (; a < 10; a += 1) sum += 1 / a;
  const double z = 1 / (a * a);
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return std::log(a) - 0.5 / a - series - sum;
}
/// The derivative of digamma: by recurrence up to 10, then the asymptotic series (Abramowitz and Stegun, 6.4.12).
double trigamma(double a) {
  if (a <= 0) {
    const double turn = a - std::nearbyint(a), sine = std::sin(M_PI * turn);
    if (std::isinf(a)) return std::nan("");
    return turn == 0 ? HUGE_VAL : M_PI * M_PI / (sine * sine) - trigamma(1 - a);
  }
  if (std::isinf(a)) return 0;
  double sum = 0;
  for (; a < 10; a += 1) sum += 1 / (a * a);
  const double u = 1 / a, z = u * u;
  const double series =
      z *
      (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * 7 / 6))))));
  return u * (1 + 0.5 * u + series) + sum;
}
double log_gamma(double a) {
  int sign;
  return lgamma_r(a, &sign);  // which has no state, as std::lgamma has
}

#define FLOATS(expression)                                                                      \
  [](double a, [[maybe_unused]] double b, [[maybe_unused]] double c, [[maybe_unused]] double p, \
     [[maybe_unused]] double q) -> double { return expression; }
#define INTEGERS(expression) \
  [](int64_t a, [[maybe_unused]] int64_t b, [[maybe_unused]] int64_t c) -> int64_t { return expression; }
#define NATURALS(expression) [](uint64_t a, [[maybe_unused]] uint64_t b) -> uint64_t { return expression; }

std::vector<MapOpInfo> make_table() {
  return {
      // name, arity, immediates, types, commutative, flops, doc, floats, integers, u64
      {"add", 2, 0, T::kNumber, true, 1, "a + b", FLOATS(a + b), INTEGERS(wrap_add(a, b))},
      {"subtract", 2, 0, T::kNumber, false, 1, "a - b", FLOATS(a - b), INTEGERS(wrap_subtract(a, b))},
      {"multiply", 2, 0, T::kNumber, true, 1, "a * b", FLOATS(a * b), INTEGERS(wrap_multiply(a, b))},
      {"divide", 2, 0, T::kNumber, false, 4, "a / b; integers towards zero, and 0 where b is 0", FLOATS(a / b),
       INTEGERS(quotient(a, b)), NATURALS(b == 0 ? 0 : a / b)},
      {"maximum", 2, 0, T::kNumber, false, 1, "the greater of a and b; NaN if either is",
       FLOATS(a > b || a != a ? a : b), INTEGERS(a > b ? a : b), NATURALS(a > b ? a : b)},
      {"minimum", 2, 0, T::kNumber, false, 1, "the lesser of a and b; NaN if either is",
       FLOATS(a < b || a != a ? a : b), INTEGERS(a < b ? a : b), NATURALS(a < b ? a : b)},
      {"power", 2, 0, T::kFloat, false, 30, "a to the power b", FLOATS(std::pow(a, b)), nullptr},
      {"remainder", 2, 0, T::kNumber, false, 40, "a - b * floor(a / b), exactly; integers give 0 where b is 0",
       FLOATS(floor_remainder(a, b)), INTEGERS(floor_rest(a, b)), NATURALS(b == 0 ? 0 : a % b)},
      {"fmod", 2, 0, T::kNumber, false, 40, "a - b * trunc(a / b), exactly; integers give 0 where b is 0",
       FLOATS(std::fmod(a, b)), INTEGERS(rest(a, b)), NATURALS(b == 0 ? 0 : a % b)},
      {"floor_divide", 2, 0, T::kNumber, false, 50,
       "a / b rounded down to a whole number; integers give 0 where b is 0", FLOATS(floor_divided(a, b)),
       INTEGERS(floor_quotient(a, b)), NATURALS(b == 0 ? 0 : a / b)},
      {"atan2", 2, 0, T::kFloat, false, 40, "angle of the point (b, a), in [-pi, pi]", FLOATS(std::atan2(a, b)),
       nullptr},
      {"hypot", 2, 0, T::kFloat, true, 20, "sqrt(a * a + b * b) without overflow on the way", FLOATS(std::hypot(a, b)),
       nullptr},
      {"copysign", 2, 0, T::kFloat, false, 1, "|a| with the sign of b", FLOATS(std::copysign(a, b)), nullptr},
      {"logaddexp", 2, 0, T::kFloat, true, 35, "log(exp(a) + exp(b))", FLOATS(log_sum(a, b)), nullptr},

      {"negate", 1, 0, T::kNumber, false, 1, "-a", FLOATS(-a), INTEGERS(wrap_subtract(0, a))},
      {"abs", 1, 0, T::kNumber, false, 1, "|a|", FLOATS(std::fabs(a)), INTEGERS(a < 0 ? wrap_subtract(0, a) : a),
       NATURALS(a)},
      {"sign", 1, 0, T::kNumber, false, 1, "-1, 0 or 1; NaN stays",
       FLOATS(a > 0   ? 1.0
              : a < 0 ? -1.0
                      : a),
       INTEGERS(a > 0   ? 1
                : a < 0 ? -1
                        : 0),
       NATURALS(a != 0)},
      {"exp", 1, 0, T::kFloat, false, 12, "e to the power a", FLOATS(std::exp(a)), nullptr},
      {"log", 1, 0, T::kFloat, false, 15, "natural logarithm", FLOATS(std::log(a)), nullptr},
      {"log1p", 1, 0, T::kFloat, false, 18, "log(1 + a)", FLOATS(std::log1p(a)), nullptr},
      {"expm1", 1, 0, T::kFloat, false, 15, "exp(a) - 1", FLOATS(std::expm1(a)), nullptr},
      {"sqrt", 1, 0, T::kFloat, false, 4, "square root", FLOATS(std::sqrt(a)), nullptr},
      {"rsqrt", 1, 0, T::kFloat, false, 8, "1 / sqrt(a)", FLOATS(1 / std::sqrt(a)), nullptr},
      {"reciprocal", 1, 0, T::kFloat, false, 4, "1 / a", FLOATS(1 / a), nullptr},
      {"square", 1, 0, T::kNumber, false, 1, "a * a", FLOATS(a * a), INTEGERS(wrap_multiply(a, a))},
      {"tanh", 1, 0, T::kFloat, false, 20, "hyperbolic tangent", FLOATS(std::tanh(a)), nullptr},
      {"sigmoid", 1, 0, T::kFloat, false, 18, "1 / (1 + exp(-a))", FLOATS(sigmoid_of(a)), nullptr},
      {"silu", 1, 0, T::kFloat, false, 19, "a * sigmoid(a)", FLOATS(a * sigmoid_of(a)), nullptr},
      {"relu", 1, 0, T::kNumber, false, 1, "0 where a < 0, else a", FLOATS(a < 0 ? 0.0 : a), INTEGERS(a < 0 ? 0 : a),
       NATURALS(a)},
      {"leaky_relu", 1, 1, T::kFloat, false, 2, "p * a where a < 0, else a", FLOATS(a < 0 ? p * a : a), nullptr},
      {"elu", 1, 1, T::kFloat, false, 16, "p * (exp(a) - 1) where a < 0, else a", FLOATS(a < 0 ? p * std::expm1(a) : a),
       nullptr},
      {"softplus", 1, 0, T::kFloat, false, 30, "log(1 + exp(a))",
       FLOATS((a > 0 ? a : 0.0) + std::log1p(std::exp(-std::fabs(a)))), nullptr},
      {"erf", 1, 0, T::kFloat, false, 25, "Gauss's error function", FLOATS(std::erf(a)), nullptr},
      {"gelu", 1, 0, T::kFloat, false, 28, "a * Phi(a), exact", FLOATS(a * normal_cdf(a)), nullptr},
      {"gelu_tanh", 1, 0, T::kFloat, false, 26, "GELU in the tanh approximation (Hendrycks and Gimpel 2016)",
       FLOATS(0.5 * a * (1 + gelu_tanh_inner(a))), nullptr},
      {"sin", 1, 0, T::kFloat, false, 20, "sine", FLOATS(std::sin(a)), nullptr},
      {"cos", 1, 0, T::kFloat, false, 20, "cosine", FLOATS(std::cos(a)), nullptr},
      {"exp2", 1, 0, T::kFloat, false, 25, "2 to the power a", FLOATS(std::exp2(a)), nullptr},
      {"log2", 1, 0, T::kFloat, false, 30, "logarithm to base 2", FLOATS(std::log2(a)), nullptr},
      {"log10", 1, 0, T::kFloat, false, 30, "logarithm to base 10", FLOATS(std::log10(a)), nullptr},
      {"tan", 1, 0, T::kFloat, false, 60, "tangent", FLOATS(std::tan(a)), nullptr},
      {"sinh", 1, 0, T::kFloat, false, 45, "hyperbolic sine", FLOATS(std::sinh(a)), nullptr},
      {"cosh", 1, 0, T::kFloat, false, 35, "hyperbolic cosine", FLOATS(std::cosh(a)), nullptr},
      {"asinh", 1, 0, T::kFloat, false, 60, "inverse of sinh", FLOATS(std::asinh(a)), nullptr},
      {"acosh", 1, 0, T::kFloat, false, 60, "inverse of cosh, 0 or more", FLOATS(std::acosh(a)), nullptr},
      {"atanh", 1, 0, T::kFloat, false, 60, "inverse of tanh", FLOATS(std::atanh(a)), nullptr},
      {"asin", 1, 0, T::kFloat, false, 50, "arc sine", FLOATS(std::asin(a)), nullptr},
      {"acos", 1, 0, T::kFloat, false, 50, "arc cosine", FLOATS(std::acos(a)), nullptr},
      {"atan", 1, 0, T::kFloat, false, 35, "arc tangent", FLOATS(std::atan(a)), nullptr},
      {"erfc", 1, 0, T::kFloat, false, 60, "1 - erf(a)", FLOATS(std::erfc(a)), nullptr},
      {"lgamma", 1, 0, T::kFloat, false, 150, "log of |Gamma(a)|", FLOATS(log_gamma(a)), nullptr},
      {"digamma", 1, 0, T::kFloat, false, 150, "derivative of log Gamma", FLOATS(digamma(a)), nullptr},
      {"trigamma", 1, 0, T::kFloat, false, 150, "derivative of digamma", FLOATS(trigamma(a)), nullptr},
      {"floor", 1, 0, T::kFloat, false, 1, "down to an integer", FLOATS(std::floor(a)), nullptr},
      {"ceil", 1, 0, T::kFloat, false, 1, "up to an integer", FLOATS(std::ceil(a)), nullptr},
      {"round", 1, 0, T::kFloat, false, 1, "to the nearest integer, halves to even", FLOATS(std::nearbyint(a)),
       nullptr},
      {"trunc", 1, 0, T::kFloat, false, 1, "towards zero to an integer", FLOATS(std::trunc(a)), nullptr},
      {"clamp", 1, 2, T::kFloat, false, 2, "a held between p and q",
       FLOATS(a < p   ? p
              : a > q ? q
                      : a),
       nullptr},
      {"scale", 1, 1, T::kFloat, false, 1, "a * p", FLOATS(a * p), nullptr},
      {"add_scalar", 1, 1, T::kFloat, false, 1, "a + p", FLOATS(a + p), nullptr},
      {"is_finite", 1, 0, T::kTest, false, 1, "whether a is neither infinite nor NaN",
       FLOATS(std::isfinite(a) ? 1.0 : 0.0), nullptr},
      {"is_nan", 1, 0, T::kTest, false, 1, "whether a is NaN", FLOATS(std::isnan(a) ? 1.0 : 0.0), nullptr},
      {"is_inf", 1, 0, T::kTest, false, 1, "whether a is infinite", FLOATS(std::isinf(a) ? 1.0 : 0.0), nullptr},

      {"equal", 2, 0, T::kCompare, true, 1, "a == b", FLOATS(a == b), INTEGERS(a == b)},
      {"not_equal", 2, 0, T::kCompare, true, 1, "a != b", FLOATS(a != b), INTEGERS(a != b)},
      {"less", 2, 0, T::kCompare, false, 1, "a < b", FLOATS(a < b), INTEGERS(a < b), NATURALS(a < b)},
      {"less_equal", 2, 0, T::kCompare, false, 1, "a <= b", FLOATS(a <= b), INTEGERS(a <= b), NATURALS(a <= b)},
      {"greater", 2, 0, T::kCompare, false, 1, "a > b", FLOATS(a > b), INTEGERS(a > b), NATURALS(a > b)},
      {"greater_equal", 2, 0, T::kCompare, false, 1, "a >= b", FLOATS(a >= b), INTEGERS(a >= b), NATURALS(a >= b)},
      {"logical_and", 2, 0, T::kLogical, true, 1, "a and b", nullptr, INTEGERS(a & b)},
      {"logical_or", 2, 0, T::kLogical, true, 1, "a or b", nullptr, INTEGERS(a | b)},
      {"logical_not", 1, 0, T::kLogical, false, 1, "not a", nullptr, INTEGERS(a == 0)},
      {"bitwise_and", 2, 0, T::kInteger, true, 1, "bits that are set in a and in b", nullptr, INTEGERS(a & b)},
      {"bitwise_or", 2, 0, T::kInteger, true, 1, "bits that are set in a or in b", nullptr, INTEGERS(a | b)},
      {"bitwise_xor", 2, 0, T::kInteger, true, 1, "bits that a and b differ in", nullptr, INTEGERS(a ^ b)},
      {"bitwise_not", 1, 0, T::kInteger, false, 1, "bits that are not set in a", nullptr, INTEGERS(~a)},
      {"shift_left", 2, 0, T::kInteger, false, 1, "a times 2^b; 0 where b is negative or the width or more", nullptr,
       INTEGERS(shift_left(a, b))},
      {"shift_right", 2, 0, T::kInteger, false, 1,
       "a / 2^b rounded down; the sign alone where b is negative or the width or more", nullptr,
       INTEGERS(shift_right(a, b)), NATURALS(b > 63 ? 0 : a >> b)},
      {"select", 3, 0, T::kSelect, false, 1, "b where a, else c", FLOATS(a != 0 ? b : c), INTEGERS(a ? b : c)},
      {"cast", 1, 0, T::kCast, false, 1,
       "a as another element type; floats to integers towards zero, held in range, NaN as 0; integers to integers wrap",
       nullptr, nullptr},
      {"stop_gradient", 1, 0, T::kAny, false, 0, "a, through which no gradient flows", FLOATS(a), INTEGERS(a)},

      // Rounding to a shorter type and back, so that a fused chain keeps the bits of the unfused one.
      {"round_bf16", 1, 0, T::kFloat, false, 1, "a rounded to bf16",
       FLOATS(bf16_to_f32(f32_to_bf16(static_cast<float>(a)))), nullptr},
      {"round_f16", 1, 0, T::kFloat, false, 1, "a rounded to f16",
       FLOATS(f16_to_f32(f32_to_f16(static_cast<float>(a)))), nullptr},

      // Gradients: a is the forward op's input (or output, where said), b the gradient of its output.
      {"tanh_grad", 2, 0, T::kFloat, false, 3, "b * (1 - a * a), a = tanh's output", FLOATS(b * (1 - a * a)), nullptr},
      {"sigmoid_grad", 2, 0, T::kFloat, false, 3, "b * a * (1 - a), a = sigmoid's output", FLOATS(b * a * (1 - a)),
       nullptr},
      {"silu_grad", 2, 0, T::kFloat, false, 23, "b * silu'(a)", FLOATS(b * silu_slope(a)), nullptr},
      {"relu_grad", 2, 0, T::kFloat, false, 1, "b where a > 0, else 0, a = relu's output", FLOATS(a > 0 ? b : 0.0),
       nullptr},
      {"leaky_relu_grad", 2, 1, T::kFloat, false, 2, "p * b where a < 0, else b", FLOATS(a < 0 ? p * b : b), nullptr},
      {"elu_grad", 2, 1, T::kFloat, false, 14, "p * exp(a) * b where a < 0, else b",
       FLOATS(a < 0 ? p * std::exp(a) * b : b), nullptr},
      {"gelu_grad", 2, 0, T::kFloat, false, 42, "b * (Phi(a) + a * phi(a))",
       FLOATS(b * (normal_cdf(a) + a * normal_density(a))), nullptr},
      {"gelu_tanh_grad", 2, 0, T::kFloat, false, 32, "b * gelu_tanh'(a)", FLOATS(b * gelu_tanh_slope(a)), nullptr},
      {"clamp_grad", 2, 2, T::kFloat, false, 2, "b where p <= a <= q, else 0", FLOATS(a >= p && a <= q ? b : 0.0),
       nullptr},

      {"dropout", 2, 1, T::kDropout, false, 8,
       "a / (1 - p) with probability 1 - p, else 0; b is the counter {step, micro-batch index}", nullptr, nullptr},
  };
}

#undef FLOATS
#undef INTEGERS
#undef NATURALS

}  // namespace

const std::vector<MapOpInfo>& map_op_table() {
  static const std::vector<MapOpInfo> table = make_table();
  return table;
}

int map_op_index(std::string_view name) {
  const auto& table = map_op_table();
  std::vector<std::string> names;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return static_cast<int>(i);
    names.emplace_back(table[i].name);
  }
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "unknown map op",
               .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

const MapOpInfo& map_op(std::string_view name) { return map_op_table()[static_cast<size_t>(map_op_index(name))]; }

}  // namespace ramet::ops

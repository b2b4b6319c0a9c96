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

#define FLOATS(expression)                                                                      \
  [](double a, [[maybe_unused]] double b, [[maybe_unused]] double c, [[maybe_unused]] double p, \
     [[maybe_unused]] double q) -> double { return expression; }
#define INTEGERS(expression) \
  [](int64_t a, [[maybe_unused]] int64_t b, [[maybe_unused]] int64_t c) -> int64_t { return expression; }

std::vector<MapOpInfo> make_table() {
  return {
      // name, arity, immediates, types, commutative, flops, doc, floats, integers
      {"add", 2, 0, T::kNumber, true, 1, "a + b", FLOATS(a + b), INTEGERS(wrap_add(a, b))},
      {"subtract", 2, 0, T::kNumber, false, 1, "a - b", FLOATS(a - b), INTEGERS(wrap_subtract(a, b))},
      {"multiply", 2, 0, T::kNumber, true, 1, "a * b", FLOATS(a * b), INTEGERS(wrap_multiply(a, b))},
      {"divide", 2, 0, T::kNumber, false, 4, "a / b; integers towards zero, and 0 where b is 0", FLOATS(a / b),
       INTEGERS(quotient(a, b))},
      {"maximum", 2, 0, T::kNumber, false, 1, "the greater of a and b; NaN if either is",
       FLOATS(a > b || a != a ? a : b), INTEGERS(a > b ? a : b)},
      {"minimum", 2, 0, T::kNumber, false, 1, "the lesser of a and b; NaN if either is",
       FLOATS(a < b || a != a ? a : b), INTEGERS(a < b ? a : b)},
      {"power", 2, 0, T::kFloat, false, 30, "a to the power b", FLOATS(std::pow(a, b)), nullptr},

      {"negate", 1, 0, T::kNumber, false, 1, "-a", FLOATS(-a), INTEGERS(wrap_subtract(0, a))},
      {"abs", 1, 0, T::kNumber, false, 1, "|a|", FLOATS(std::fabs(a)), INTEGERS(a < 0 ? wrap_subtract(0, a) : a)},
      {"sign", 1, 0, T::kNumber, false, 1, "-1, 0 or 1; NaN stays",
       FLOATS(a > 0   ? 1.0
              : a < 0 ? -1.0
                      : a),
       INTEGERS(a > 0   ? 1
                : a < 0 ? -1
                        : 0)},
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
      {"relu", 1, 0, T::kNumber, false, 1, "0 where a < 0, else a", FLOATS(a < 0 ? 0.0 : a), INTEGERS(a < 0 ? 0 : a)},
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
      {"floor", 1, 0, T::kFloat, false, 1, "down to an integer", FLOATS(std::floor(a)), nullptr},
      {"ceil", 1, 0, T::kFloat, false, 1, "up to an integer", FLOATS(std::ceil(a)), nullptr},
      {"round", 1, 0, T::kFloat, false, 1, "to the nearest integer, halves to even", FLOATS(std::nearbyint(a)),
       nullptr},
      {"clamp", 1, 2, T::kFloat, false, 2, "a held between p and q",
       FLOATS(a < p   ? p
              : a > q ? q
                      : a),
       nullptr},
      {"scale", 1, 1, T::kFloat, false, 1, "a * p", FLOATS(a * p), nullptr},
      {"add_scalar", 1, 1, T::kFloat, false, 1, "a + p", FLOATS(a + p), nullptr},
      {"is_finite", 1, 0, T::kTest, false, 1, "whether a is neither infinite nor NaN",
       FLOATS(std::isfinite(a) ? 1.0 : 0.0), nullptr},

      {"equal", 2, 0, T::kCompare, true, 1, "a == b", FLOATS(a == b), INTEGERS(a == b)},
      {"not_equal", 2, 0, T::kCompare, true, 1, "a != b", FLOATS(a != b), INTEGERS(a != b)},
      {"less", 2, 0, T::kCompare, false, 1, "a < b", FLOATS(a < b), INTEGERS(a < b)},
      {"less_equal", 2, 0, T::kCompare, false, 1, "a <= b", FLOATS(a <= b), INTEGERS(a <= b)},
      {"greater", 2, 0, T::kCompare, false, 1, "a > b", FLOATS(a > b), INTEGERS(a > b)},
      {"greater_equal", 2, 0, T::kCompare, false, 1, "a >= b", FLOATS(a >= b), INTEGERS(a >= b)},
      {"logical_and", 2, 0, T::kLogical, true, 1, "a and b", nullptr, INTEGERS(a & b)},
      {"logical_or", 2, 0, T::kLogical, true, 1, "a or b", nullptr, INTEGERS(a | b)},
      {"logical_not", 1, 0, T::kLogical, false, 1, "not a", nullptr, INTEGERS(a == 0)},
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

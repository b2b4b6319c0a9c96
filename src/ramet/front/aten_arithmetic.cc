// Element-wise functions of numbers, comparisons and logic. Types are promoted as torch does: an arithmetic result has
// the type in which torch computes.
#include <cmath>
#include <limits>
#include <numbers>

#include "ramet/base/error.h"
#include "ramet/front/support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/polygamma.h"

namespace ramet::front {
namespace {

constexpr const char* kSelf = "self";
constexpr const char* kOther = "other";

Tensor self_in(const Translation& at, DType dtype) { return operand(at, kSelf, dtype); }
Tensor self(const Translation& at) { return self_in(at, at.result().dtype); }
Tensor other(const Translation& at) { return operand(at, kOther, at.result().dtype); }
Tensor fill(const Translation& at, DType dtype, double value) { return ops::full(at.build(), dtype, {}, value); }
std::vector<Tensor> one(Tensor result) { return {result}; }

// --- unary ---

/// A function of floats by its name in the table of map ops.
template <size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) {  // NOLINT: implicit
    for (size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
  char letters[N]{};
};
template <Name kName>
std::vector<Tensor> unary(const Translation& at) {
  return one(ops::map_unary(kName.letters, self(at)));
}
/// The same of a function that leaves integers as they are.
template <Name kName>
std::vector<Tensor> rounding(const Translation& at) {
  const Tensor a = self(at);
  return one(is_floating(a.dtype()) ? ops::map_unary(kName.letters, a) : a);
}

std::vector<Tensor> polygammas(const Translation& at) {
  const int64_t order = at.integer("n");
  if (order < 0 || order > ops::kMostPolygamma)
    at.refuse("a derivative of digamma of order " + std::to_string(order),
              "Use torch.polygamma(n, x) with n up to " + std::to_string(ops::kMostPolygamma));
  return one(ops::polygamma(self(at), order));
}

std::vector<Tensor> round_decimals(const Translation& at) {
  const Tensor a = self(at);
  const int64_t decimals = at.integer("decimals", 0);
  if (!is_floating(a.dtype())) return one(a);
  if (decimals == 0) return one(ops::map_unary("round", a));
  const Tensor factor = fill(at, a.dtype(), std::pow(10.0, static_cast<double>(std::abs(decimals))));
  if (decimals > 0) return one(ops::divide(ops::map_unary("round", ops::multiply(a, factor)), factor));
  return one(ops::multiply(ops::map_unary("round", ops::divide(a, factor)), factor));
}
std::vector<Tensor> absolute(const Translation& at) {
  const Tensor a = self(at);
  return one(a.dtype() == DType::kBool ? a : ops::map_unary("abs", a));
}
std::vector<Tensor> trunc(const Translation& at) {
  const Tensor a = self(at);
  return one(is_floating(a.dtype()) ? ops::trunc(a) : a);
}
std::vector<Tensor> frac(const Translation& at) { return one(ops::frac(self(at))); }
std::vector<Tensor> same(const Translation& at) { return one(self(at)); }
std::vector<Tensor> degrees(const Translation& at) { return one(ops::scale(self(at), 180 / std::numbers::pi)); }
std::vector<Tensor> radians(const Translation& at) { return one(ops::scale(self(at), std::numbers::pi / 180)); }
std::vector<Tensor> logit(const Translation& at) {
  Tensor a = self(at);
  if (at.has("eps")) a = ops::clamp(a, at.number("eps"), 1 - at.number("eps"));
  return one(ops::subtract(ops::log(a), ops::map_unary("log1p", ops::negate(a))));
}
std::vector<Tensor> sinc(const Translation& at) {
  const Tensor a = ops::scale(self(at), std::numbers::pi), zero = fill(at, a.dtype(), 0);
  const Tensor is_zero = ops::equal(a, zero), safe = ops::select(is_zero, fill(at, a.dtype(), 1), a);
  return one(ops::select(is_zero, fill(at, a.dtype(), 1), ops::divide(ops::map_unary("sin", safe), safe)));
}
std::vector<Tensor> entropy(const Translation& at) {  // special.entr: -a log a, 0 at 0, -inf below
  const Tensor a = self(at), zero = fill(at, a.dtype(), 0);
  const Tensor inner = ops::negate(ops::xlogy(a, a));
  return one(ops::select(ops::less(a, zero), fill(at, a.dtype(), -std::numeric_limits<double>::infinity()), inner));
}
std::vector<Tensor> nan_to_num(const Translation& at) {
  const Tensor a = self(at);
  if (!is_floating(a.dtype())) return one(a);
  const auto limit = [&](const char* name) {
    return at.has(name) ? std::optional<double>(at.number(name)) : std::nullopt;
  };
  return one(ops::nan_to_num(a, at.number("nan", 0), limit("posinf"), limit("neginf")));
}

std::vector<Tensor> test(const Translation& at, Tensor (*of)(Tensor), bool of_integers) {
  const Tensor a = at.tensor(kSelf);
  if (is_floating(a.dtype())) return one(of(a));
  return one(ops::broadcast_to(fill(at, DType::kBool, of_integers), a.shape()));
}
std::vector<Tensor> is_nan(const Translation& at) { return test(at, ops::is_nan, false); }
std::vector<Tensor> is_inf(const Translation& at) {
  return test(at, [](Tensor a) { return ops::is_inf(a); }, false);
}
std::vector<Tensor> is_positive_inf(const Translation& at) {
  return test(at, [](Tensor a) { return ops::is_inf(a, true, false); }, false);
}
std::vector<Tensor> is_negative_inf(const Translation& at) {
  return test(at, [](Tensor a) { return ops::is_inf(a, false, true); }, false);
}
std::vector<Tensor> is_finite(const Translation& at) { return test(at, ops::is_finite, true); }
std::vector<Tensor> sign_bit(const Translation& at) {
  const Tensor a = at.tensor(kSelf);
  if (!is_floating(a.dtype())) return one(ops::less(a, fill(at, a.dtype(), 0)));
  const Tensor sign = ops::copysign(fill(at, a.dtype(), 1), a);
  return one(ops::less(sign, fill(at, a.dtype(), 0)));
}

// --- binary ---

/// A plain number of floats, which maps take without a tensor.
bool is_float_number(const Translation& at, const char* name) {
  return at.is_number(name) && is_floating(at.result().dtype);
}

/// a + alpha b with the names of the call.
std::vector<Tensor> sum_of(const Translation& at, const char* first, const char* second, double sign) {
  const DType dtype = at.result().dtype;
  const double alpha = sign * at.number("alpha", 1);
  const Tensor a = operand(at, first, dtype);
  if (dtype == DType::kBool) return one(ops::logical_or(a, operand(at, second, dtype)));
  if (is_float_number(at, second)) return one(ops::add_scalar(a, alpha * at.number(second)));
  Tensor b = operand(at, second, dtype);
  if (alpha == -1) return one(ops::subtract(a, b));
  if (alpha != 1) b = ops::multiply(b, fill(at, dtype, alpha));
  return one(ops::add(a, b));
}
std::vector<Tensor> add(const Translation& at) { return sum_of(at, kSelf, kOther, 1); }
std::vector<Tensor> subtract(const Translation& at) { return sum_of(at, kSelf, kOther, -1); }
std::vector<Tensor> reverse_subtract(const Translation& at) { return sum_of(at, kOther, kSelf, -1); }

std::vector<Tensor> multiply(const Translation& at) {
  const DType dtype = at.result().dtype;
  if (dtype == DType::kBool) return one(ops::logical_and(self(at), other(at)));
  if (is_float_number(at, kOther)) return one(ops::scale(self(at), at.number(kOther)));
  if (is_float_number(at, kSelf)) return one(ops::scale(other(at), at.number(kSelf)));
  return one(ops::multiply(self(at), other(at)));
}

/// a / b where b may be a power of two, whose inverse is exact.
Tensor quotient(const Translation& at, DType dtype) {
  if (at.is_number(kOther)) {
    const double divisor = at.number(kOther);
    int exponent = 0;
    if (std::isfinite(divisor) && std::fabs(std::frexp(divisor, &exponent)) == 0.5 && std::abs(exponent) < 100)
      return ops::scale(self_in(at, dtype), 1 / divisor);
  }
  return ops::divide(self_in(at, dtype), operand(at, kOther, dtype));
}
std::vector<Tensor> divide(const Translation& at) {
  const std::string mode = at.text("rounding_mode");
  const DType dtype = at.result().dtype;
  if (mode.empty()) return one(quotient(at, dtype));
  if (mode == "floor") return one(ops::floor_divide(self(at), other(at)));
  if (mode == "trunc") return one(ops::trunc_divide(self(at), other(at)));
  at.refuse("rounding mode '" + mode + "' of a division is not known");
}

template <auto kFunction>
std::vector<Tensor> binary(const Translation& at) {
  return one(kFunction(self(at), other(at)));
}
Tensor bool_maximum(Tensor a, Tensor b) {
  return a.dtype() == DType::kBool ? ops::logical_or(a, b) : ops::maximum(a, b);
}
Tensor bool_minimum(Tensor a, Tensor b) {
  return a.dtype() == DType::kBool ? ops::logical_and(a, b) : ops::minimum(a, b);
}
/// The greater number; a NaN counts only where both are.
Tensor fmax(Tensor a, Tensor b) {
  if (!is_floating(a.dtype())) return bool_maximum(a, b);
  return ops::select(ops::is_nan(a), b, ops::select(ops::is_nan(b), a, ops::maximum(a, b)));
}
Tensor fmin(Tensor a, Tensor b) {
  if (!is_floating(a.dtype())) return bool_minimum(a, b);
  return ops::select(ops::is_nan(a), b, ops::select(ops::is_nan(b), a, ops::minimum(a, b)));
}
Tensor logaddexp2(Tensor a, Tensor b) {
  constexpr double kLog2 = std::numbers::ln2;
  return ops::scale(ops::logaddexp(ops::scale(a, kLog2), ops::scale(b, kLog2)), 1 / kLog2);
}
Tensor ldexp(Tensor a, Tensor b) { return ops::multiply(a, ops::map_unary("exp2", b)); }
Tensor xlog1py(Tensor a, Tensor b) {
  const Tensor zero = ops::full(*a.builder, a.dtype(), {}, 0), is_zero = ops::equal(a, zero);
  const Tensor product = ops::multiply(a, ops::map_unary("log1p", ops::select(is_zero, zero, b)));
  return ops::select(ops::is_nan(b), b, product);
}
std::vector<Tensor> heaviside(const Translation& at) {
  const DType dtype = at.result().dtype;
  const Tensor a = self(at), zero = fill(at, dtype, 0);
  const Tensor step = ops::select(ops::less(a, zero), zero, fill(at, dtype, 1));
  return one(ops::select(ops::equal(a, zero), operand(at, "values", dtype), step));
}

/// a^n by products, for whole n of 0 or more.
Tensor whole_power(Tensor a, int64_t n) {
  if (n == 0) return ops::broadcast_to(ops::full(*a.builder, a.dtype(), {}, 1), a.shape());
  Tensor result, square = a;
  for (; n > 0; n /= 2) {
    if (n % 2) result = result.valid() ? ops::multiply(result, square) : square;
    if (n > 1) square = ops::multiply(square, square);
  }
  return result;
}
std::vector<Tensor> power(const Translation& at) {
  const DType dtype = at.result().dtype;
  const bool number = at.is_number("exponent");
  const double exponent = number ? at.number("exponent") : 0;
  constexpr double kMostProducts = 64;
  if (!is_floating(dtype)) {
    if (!number || exponent != std::floor(exponent) || exponent < 0 || exponent > kMostProducts)
      at.refuse("a power of integers is supported for fixed whole exponents of 0 to 64 alone",
                "Convert the base to float");
    return one(whole_power(self(at), static_cast<int64_t>(exponent)));
  }
  const Tensor a = self(at);
  if (number) {
    if (exponent == 1) return one(a);
    if (exponent == 0) return one(whole_power(a, 0));
    if (exponent == 0.5) return one(ops::sqrt(a));
    if (exponent == -0.5) return one(ops::rsqrt(a));
    if (exponent == -1) return one(ops::map_unary("reciprocal", a));
    if (exponent == 2) return one(ops::map_unary("square", a));
    if (exponent == 3) return one(whole_power(a, 3));
  }
  return one(ops::power(a, operand(at, "exponent", dtype)));
}

// --- comparisons and logic ---

template <Name kName>
std::vector<Tensor> compare(const Translation& at) {
  DType dtype = promoted(at, {kSelf, kOther});
  if (dtype == DType::kBool) dtype = DType::kI32;
  return one(ops::map_binary(kName.letters, self_in(at, dtype), operand(at, kOther, dtype)));
}
template <auto kFunction>
std::vector<Tensor> logical(const Translation& at) {
  return one(kFunction(self_in(at, DType::kBool), operand(at, kOther, DType::kBool)));
}
std::vector<Tensor> logical_not(const Translation& at) { return one(ops::logical_not(self_in(at, DType::kBool))); }

std::vector<Tensor> where(const Translation& at) {
  if (!at.has(kSelf)) at.refuse("where without values has a result whose size depends on data", "Give both values");
  return one(ops::select(operand(at, "condition", DType::kBool), self(at), other(at)));
}
std::vector<Tensor> is_close(const Translation& at) {
  const DType dtype = promoted(at, {kSelf, kOther});
  const DType wide = is_floating(dtype) ? dtype : DType::kF32;
  const Tensor a = self_in(at, wide), b = operand(at, kOther, wide);
  const Tensor bound =
      ops::add_scalar(ops::scale(ops::map_unary("abs", b), at.number("rtol", 1e-5)), at.number("atol", 1e-8));
  const Tensor near = ops::map_binary("less_equal", ops::map_unary("abs", ops::subtract(a, b)), bound);
  Tensor close = ops::logical_or(ops::equal(a, b), ops::logical_and(near, ops::is_finite(b)));
  if (at.flag("equal_nan", false)) close = ops::logical_or(close, ops::logical_and(ops::is_nan(a), ops::is_nan(b)));
  return one(close);
}

// --- clamps and mixtures ---

std::vector<Tensor> clamp(const Translation& at) {
  const DType dtype = at.result().dtype;
  Tensor a = self(at);
  const bool low = at.has("min"), high = at.has("max");
  if ((!low || at.is_number("min")) && (!high || at.is_number("max")))
    return one(ops::clamp(a, low ? std::optional(at.number("min")) : std::nullopt,
                          high ? std::optional(at.number("max")) : std::nullopt));
  if (low) a = ops::maximum(a, operand(at, "min", dtype));
  if (high) a = ops::minimum(a, operand(at, "max", dtype));
  return one(a);
}

template <auto kFunction>
std::vector<Tensor> mix(const Translation& at) {
  const DType dtype = at.result().dtype;
  return one(kFunction(self(at), operand(at, "tensor1", dtype), operand(at, "tensor2", dtype), at.number("value", 1)));
}
Tensor integer_addcmul(Tensor a, Tensor b, Tensor c, double factor) {
  if (is_floating(a.dtype())) return ops::addcmul(a, b, c, factor);
  Tensor product = ops::multiply(b, c);
  if (factor != 1) product = ops::multiply(product, ops::full(*a.builder, a.dtype(), {}, factor));
  return ops::add(a, product);
}
std::vector<Tensor> lerp(const Translation& at) {
  const DType dtype = at.result().dtype;
  return one(ops::lerp(self(at), operand(at, "end", dtype), operand(at, "weight", dtype)));
}

constexpr OperatorEntry kEntries[] = {
    // unary
    {"aten.abs", absolute},
    {"aten.acos", unary<"acos">},
    {"aten.acosh", unary<"acosh">},
    {"aten.asin", unary<"asin">},
    {"aten.asinh", unary<"asinh">},
    {"aten.atan", unary<"atan">},
    {"aten.atanh", unary<"atanh">},
    {"aten.ceil", rounding<"ceil">},
    {"aten.cos", unary<"cos">},
    {"aten.cosh", unary<"cosh">},
    {"aten.deg2rad", radians},
    {"aten.digamma", unary<"digamma">},
    {"aten.polygamma", polygammas},
    {"aten.erf", unary<"erf">},
    {"aten.erfc", unary<"erfc">},
    {"aten.exp", unary<"exp">},
    {"aten.exp2", unary<"exp2">},
    {"aten.expm1", unary<"expm1">},
    {"aten.fix", trunc},
    {"aten.floor", rounding<"floor">},
    {"aten.frac", frac},
    {"aten.isfinite", is_finite},
    {"aten.isinf", is_inf},
    {"aten.isnan", is_nan},
    {"aten.isneginf", is_negative_inf},
    {"aten.isposinf", is_positive_inf},
    {"aten.lgamma", unary<"lgamma">},
    {"aten.log", unary<"log">},
    {"aten.log10", unary<"log10">},
    {"aten.log1p", unary<"log1p">},
    {"aten.log2", unary<"log2">},
    {"aten.logit", logit},
    {"aten.nan_to_num", nan_to_num},
    {"aten.neg", unary<"negate">},
    {"aten.positive", same},
    {"aten.rad2deg", degrees},
    {"aten.reciprocal", unary<"reciprocal">},
    {"aten.round", round_decimals},
    {"aten.rsqrt", unary<"rsqrt">},
    {"aten.sgn", unary<"sign">},
    {"aten.sign", unary<"sign">},
    {"aten.signbit", sign_bit},
    {"aten.sin", unary<"sin">},
    {"aten.sinc", sinc},
    {"aten.sinh", unary<"sinh">},
    {"aten.special_entr", entropy},
    {"aten.sqrt", unary<"sqrt">},
    {"aten.square", unary<"square">},
    {"aten.tan", unary<"tan">},
    {"aten.trunc", trunc},
    // binary
    {"aten.add", add},
    {"aten.atan2", binary<ops::atan2>},
    {"aten.arctan2", binary<ops::atan2>},
    {"aten.copysign", binary<ops::copysign>},
    {"aten.div", divide},
    {"aten.divide", divide},
    {"aten.float_power", power},
    {"aten.floor_divide", binary<ops::floor_divide>},
    {"aten.fmax", binary<fmax>},
    {"aten.fmin", binary<fmin>},
    {"aten.fmod", binary<ops::fmod>},
    {"aten.heaviside", heaviside},
    {"aten.hypot", binary<ops::hypot>},
    {"aten.ldexp", binary<ldexp>},
    {"aten.logaddexp", binary<ops::logaddexp>},
    {"aten.logaddexp2", binary<logaddexp2>},
    {"aten.maximum", binary<bool_maximum>},
    {"aten.minimum", binary<bool_minimum>},
    {"aten.mul", multiply},
    {"aten.multiply", multiply},
    {"aten.pow", power},
    {"aten.remainder", binary<ops::remainder>},
    {"aten.rsub", reverse_subtract},
    {"aten.special_xlog1py", binary<xlog1py>},
    {"aten.sub", subtract},
    {"aten.subtract", subtract},
    {"aten.true_divide", divide},
    {"aten.xlogy", binary<ops::xlogy>},
    {"aten.special_xlogy", binary<ops::xlogy>},
    // comparisons and logic
    {"aten.eq", compare<"equal">},
    {"aten.ge", compare<"greater_equal">},
    {"aten.gt", compare<"greater">},
    {"aten.isclose", is_close},
    {"aten.le", compare<"less_equal">},
    {"aten.logical_and", logical<ops::logical_and>},
    {"aten.logical_not", logical_not},
    {"aten.logical_or", logical<ops::logical_or>},
    {"aten.logical_xor", logical<ops::logical_xor>},
    {"aten.lt", compare<"less">},
    {"aten.ne", compare<"not_equal">},
    {"aten.where", where},
    // clamps and mixtures
    {"aten.addcdiv", mix<ops::addcdiv>},
    {"aten.addcmul", mix<integer_addcmul>},
    {"aten.clamp", clamp},
    {"aten.clamp_max", clamp},
    {"aten.clamp_min", clamp},
    {"aten.clip", clamp},
    {"aten.lerp", lerp},
};

}  // namespace

std::span<const OperatorEntry> arithmetic_operators() { return kEntries; }

}  // namespace ramet::front

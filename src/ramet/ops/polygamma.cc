// Derivatives of digamma, as ops: by recurrence up to 10 and more, then the Euler-Maclaurin series of Hurwitz's zeta
// function; below 0 by reflection. Above the first they are composed, so that they have gradients as other ops have.
#include "ramet/ops/polygamma.h"

#include <cmath>
#include <limits>
#include <vector>

namespace ramet::ops {
namespace {

Tensor like(Tensor a, double value) { return full(*a.builder, a.dtype(), a.shape(), value); }
Tensor inverse(Tensor a) { return divide(like(a, 1), a); }

Tensor to_power(Tensor a, int64_t exponent) {
  Tensor result{};
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result.valid() ? multiply(result, a) : a;
    if (exponent > 1) a = multiply(a, a);
  }
  return result;
}

/// The polynomial with these coefficients, lowest first.
Tensor polynomial(Tensor a, const std::vector<double>& coefficients) {
  Tensor result = like(a, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) result = add_scalar(multiply(result, a), coefficients[i]);
  return result;
}

/// The sum of (a + k)^-power over all k from 0 on, for a above 0.
Tensor zeta(Tensor a, int64_t power) {
  constexpr int kTerms = 10;
  constexpr double kBernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730};
  Tensor sum = to_power(inverse(a), power);
  for (int k = 1; k < kTerms; ++k) sum = add(sum, to_power(inverse(add_scalar(a, k)), power));
  const auto p = static_cast<double>(power);
  std::vector<double> series = {1 / (p - 1), 0.5};
  double rising = p, factorial = 2;  // p (p + 1) ... (p + i - 2) and i!, for i = 2
  for (int j = 0; j < 6; ++j) {
    const double i = 2 * j + 2;
    series.push_back(kBernoulli[j] * rising / factorial);
    series.push_back(0);
    rising *= (p + i - 1) * (p + i), factorial *= (i + 1) * (i + 2);
  }
  series.pop_back();
  const Tensor rest = inverse(add_scalar(a, kTerms));
  return add(sum, multiply(to_power(rest, power - 1), polynomial(rest, series)));
}

/// The cotangent of pi times a number from -0.5 to 0.5, with small relative errors, at 0.5 too.
Tensor cotangent_of_turn(Tensor turn) {
  const Tensor size = map_unary("abs", turn), quarter = like(turn, 0.25), near = less(size, quarter);
  const auto tangent = [](Tensor a) { return map_unary("tan", scale(a, M_PI)); };
  const Tensor small = tangent(select(near, size, quarter)), large = tangent(subtract(like(turn, 0.5), size));
  return multiply(map_unary("sign", turn), select(near, inverse(small), large));
}

/// The derivative of the cotangent, of this order, as a polynomial of the cotangent.
std::vector<double> cotangent_derivative(int64_t order) {
  std::vector<double> now = {0, 1};
  for (int64_t n = 0; n < order; ++n) {
    std::vector<double> next(now.size() + 1, 0);
    for (size_t i = 1; i < now.size(); ++i) {
      const double slope = static_cast<double>(i) * now[i];
      next[i - 1] -= slope, next[i + 1] -= slope;
    }
    now = std::move(next);
  }
  return now;
}

}  // namespace

Tensor polygamma(Tensor a, int64_t order) {
  if (order <= 1) return map_unary(order == 0 ? "digamma" : "trigamma", a);
  const auto n = static_cast<double>(order);
  const double sign = order % 2 == 0 ? 1 : -1;
  const Tensor zero = like(a, 0), negative = less(a, zero);
  const Tensor above =
      scale(zeta(select(negative, add_scalar(negate(a), 1), a), order + 1), -sign * std::tgamma(n + 1));
  const Tensor turn = subtract(a, map_unary("round", a)), at_pole = equal(turn, zero);
  // Elsewhere the cotangent of a number that has no part in the result, so that no gradient is 0 times an infinity.
  const Tensor elsewhere = like(a, 0.25);
  const Tensor held = select(negative, select(at_pole, elsewhere, turn), elsewhere);
  const Tensor cotangent = cotangent_of_turn(held);
  const Tensor below =
      subtract(scale(above, sign), scale(polynomial(cotangent, cotangent_derivative(order)), std::pow(M_PI, n + 1)));
  const Tensor pole = like(a, -sign * std::numeric_limits<double>::infinity());
  return select(negative, select(at_pole, pole, below), above);
}

}  // namespace ramet::ops

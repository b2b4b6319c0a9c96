#include <algorithm>
#include <cmath>

#include "ramet/base/plain_math.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/kernel/reference/states.h"
#include "ramet/ops/exact_sum.h"

namespace ramet::kernel {
namespace {

/// An accumulator that becomes an output.
class ExactSum {
 public:
  void add_square(double value) { exact_add_square(digits_, static_cast<float>(value)); }
  void add_count(uint64_t count) { exact_add(digits_, count, -kExactLeastExponent); }
  void add(const ReferenceOperands& operands, int input) {
    for (int k = 0; k < kExactIntegers; ++k) digits_[k] += operands.get_int(input, k);
  }
  void store(const ReferenceOperands& operands, int output) {
    exact_normalize(digits_);
    for (int k = 0; k < kExactIntegers; ++k) operands.set_int(output, k, digits_[k]);
  }

 private:
  int64_t digits_[kExactIntegers] = {};
};

void run_sum_squares(const ReferenceOperands& operands) {
  ExactSum sum;
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) sum.add_square(operands.get(0, i));
  sum.store(operands, 0);
}

void run_count_underflow(const ReferenceOperands& operands) {
  const double least = smallest_normal(operands.input_type(0).dtype);
  uint64_t count = 0;
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    const double magnitude = std::fabs(operands.get(0, i));
    count += magnitude > 0 && magnitude < least;
  }
  ExactSum sum;
  sum.add_count(count);
  sum.store(operands, 0);
}

void run_exact_sum(const ReferenceOperands& operands) {
  ExactSum sum;
  for (int i = 0; i < operands.inputs(); ++i) sum.add(operands, i);
  sum.store(operands, 0);
}

void run_from_exact(const ReferenceOperands& operands) {
  operands.set(0, 0, exact_value(static_cast<const int64_t*>(operands.input_bytes(0))));
}

constexpr StateRole kMoment = StateRole::kMoment, kSquare = StateRole::kSquare;

void run_sgd(const ReferenceOperands& operands) {
  const double momentum = operands.attributes().get_float("momentum");
  const double decay = operands.attributes().get_float("weight_decay");
  const bool nesterov = operands.attributes().get_bool_or("nesterov", false), has_state = momentum != 0;
  const double rate = operands.get(has_state ? 3 : 2, 0), scale = operands.get(has_state ? 4 : 3, 0);
  const States states(operands, 0);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    if (!std::isfinite(scale)) {
      states.keep(0, 0, i);
      if (has_state) states.keep(1, 2, i);
      continue;
    }
    const double w = states.get(0, i), state = has_state ? states.get(2, i, kMoment) : 0;
    const double d = scale * states.get(1, i) + decay * w;
    const double next = momentum * state + d;
    states.set(0, i, w - rate * (nesterov ? d + momentum * next : next));
    if (has_state) states.set(1, i, next, kMoment);
  }
}

/// The moments of Adam and LAMB.
struct AdamRule {
  double beta1, beta2, epsilon, decay, correction1, correction2;

  struct Next {
    double m, v, direction;
  };

  AdamRule(const Attributes& attributes, double correction1, double correction2)
      : beta1(attributes.get_float("beta1")),
        beta2(attributes.get_float("beta2")),
        epsilon(attributes.get_float("epsilon")),
        decay(attributes.get_float("weight_decay")),
        correction1(correction1),
        correction2(correction2) {}

  /// Moments after the gradient `d`, and the direction that they give.
  Next next(double d, double m, double v) const {
    const double next_m = m + (1 - beta1) * (d - m), next_v = beta2 * v + (1 - beta2) * d * d;
    return {next_m, next_v, next_m / correction1 / (std::sqrt(next_v / correction2) + epsilon)};
  }
};

void run_adam(const ReferenceOperands& operands) {
  const bool own_steps = operands.attributes().get_bool_or("own_steps", false);
  AdamRule rule(operands.attributes(), operands.get(own_steps ? 6 : 5, 0), operands.get(6, 0));
  const bool decoupled = operands.attributes().get_bool("decoupled");
  const double rate = operands.get(own_steps ? 5 : 4, 0), scale = operands.get(7, 0);
  const States states(operands, 0);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    if (!std::isfinite(scale)) {
      for (const auto& [output, input] : {std::pair{0, 0}, {1, 2}, {2, 3}}) states.keep(output, input, i);
      continue;
    }
    if (own_steps) {
      const auto steps = static_cast<int64_t>(std::max(0.0, operands.get(6, 0) - operands.get(4, i)));
      rule.correction1 = static_cast<float>(bias_correction(rule.beta1, steps));
      rule.correction2 = static_cast<float>(bias_correction(rule.beta2, steps));
    }
    const double w = states.get(0, i), m = states.get(2, i, kMoment), v = states.get(3, i, kSquare);
    const double d = scale * states.get(1, i) + (decoupled ? 0 : rule.decay * w);
    const AdamRule::Next next = rule.next(d, m, v);
    states.set(0, i, w * (decoupled ? 1 - rate * rule.decay : 1) - rate * next.direction);
    states.set(1, i, next.m, kMoment);
    states.set(2, i, next.v, kSquare);
  }
}

void run_lamb_direction(const ReferenceOperands& operands) {
  const AdamRule rule(operands.attributes(), operands.get(4, 0), operands.get(5, 0));
  const double scale = operands.get(6, 0);
  ExactSum squares_u, squares_w;
  const States states(operands, -1);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    const double w = states.get(0, i), m = states.get(2, i, kMoment), v = states.get(3, i, kSquare);
    squares_w.add_square(w);
    double u = 0;
    if (std::isfinite(scale)) {
      const AdamRule::Next next = rule.next(scale * states.get(1, i), m, v);
      u = next.direction + rule.decay * w;
      states.set(0, i, next.m, kMoment);
      states.set(1, i, next.v, kSquare);
    } else {
      states.keep(0, 2, i);
      states.keep(1, 3, i);
    }
    squares_u.add_square(u);
    states.set(2, i, u);
  }
  squares_u.store(operands, 3);
  squares_w.store(operands, 4);
}

void run_lamb_apply(const ReferenceOperands& operands) {
  const double norm_u = std::sqrt(operands.get(2, 0)), norm_w = std::sqrt(operands.get(3, 0));
  const double ratio = norm_u > 0 && norm_w > 0 ? norm_w / norm_u : 1;
  const double rate = operands.get(4, 0);
  const bool whole = std::isfinite(operands.get(5, 0));
  const States states(operands, 0);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i)
    if (whole)
      states.set(0, i, states.get(0, i) - rate * ratio * states.get(1, i));
    else
      states.keep(0, 0, i);
}

}  // namespace

void add_reference_optimizer(Backend& backend) {
  add_reference(backend, "sum_squares", run_sum_squares);
  add_reference(backend, "count_underflow", run_count_underflow);
  add_reference(backend, "exact_sum", run_exact_sum);
  add_reference(backend, "from_exact", run_from_exact);
  add_reference(backend, "sgd", run_sgd);
  add_reference(backend, "adam", run_adam);
  add_reference(backend, "lamb_direction", run_lamb_direction);
  add_reference(backend, "lamb_apply", run_lamb_apply);
}

}  // namespace ramet::kernel

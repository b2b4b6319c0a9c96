#include <algorithm>
#include <cmath>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

void run_lion(const ReferenceOperands& operands) {
  const Attributes& attributes = operands.attributes();
  const double beta1 = attributes.get_float("beta1"), beta2 = attributes.get_float("beta2");
  const double rate = operands.get(3, 0), scale = operands.get(4, 0);
  const double keep = 1 - rate * attributes.get_float("weight_decay");
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    if (!std::isfinite(scale)) {
      for (const auto& [output, input] : {std::pair{0, 0}, {1, 2}}) operands.set(output, i, operands.get(input, i));
      continue;
    }
    const double d = scale * operands.get(1, i), m = operands.get(2, i);
    const double direction = beta1 * m + (1 - beta1) * d;
    const double sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
    operands.set(0, i, keep * operands.get(0, i) - rate * sign);
    operands.set(1, i, m + (1 - beta2) * (d - m));
  }
}

void run_lars(const ReferenceOperands& operands) {
  const Attributes& attributes = operands.attributes();
  const double momentum = attributes.get_float("momentum"), decay = attributes.get_float("weight_decay");
  const double coefficient = attributes.get_float("trust_coefficient"), cap = attributes.get_float("norm_cap");
  const bool has_state = momentum != 0;
  const int first = has_state ? 3 : 2;
  const double rate = operands.get(first + 2, 0), scale = operands.get(first + 3, 0);
  const double norm_w = std::sqrt(operands.get(first, 0)), norm_g = scale * std::sqrt(operands.get(first + 1, 0));
  const double counts = cap > 0 ? std::min(norm_w, cap) : norm_w;
  const double ratio =
      coefficient > 0 && norm_w > 0 && norm_g > 0 ? coefficient * counts / (norm_g + decay * norm_w) : 1;
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    if (!std::isfinite(scale)) {
      operands.set(0, i, operands.get(0, i));
      if (has_state) operands.set(1, i, operands.get(2, i));
      continue;
    }
    const double w = operands.get(0, i), state = has_state ? operands.get(2, i) : 0;
    const double next = momentum * state + rate * ratio * (scale * operands.get(1, i) + decay * w);
    operands.set(0, i, w - next);
    if (has_state) operands.set(1, i, next);
  }
}

void run_moving_average(const ReferenceOperands& operands) {
  const double decay = operands.get(2, 0);
  const bool whole = std::isfinite(operands.get(3, 0));
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    const double a = operands.get(0, i);
    if (whole)
      operands.set(0, i, a + (1 - decay) * (operands.get(1, i) - a));
    else
      operands.set(0, i, operands.get(0, i));
  }
}

void run_adafactor_apply(const ReferenceOperands& operands) {
  const Attributes& attributes = operands.attributes();
  const double beta1 = attributes.get_float("beta1"), clip = attributes.get_float("clip_threshold");
  const double least = attributes.get_float("scale_epsilon");
  const double elements = static_cast<double>(std::max<int64_t>(1, attributes.get_int("elements")));
  const bool has_state = beta1 != 0;
  const int first = has_state ? 3 : 2;
  const double rms_u = std::sqrt(operands.get(first, 0) / elements);
  const double rms_w = std::sqrt(operands.get(first + 1, 0) / elements);
  const double rate = operands.get(first + 2, 0) * (least > 0 ? std::max(least, rms_w) : 1);
  const double step = clip > 0 ? rate / std::max(1.0, rms_u / clip) : rate;
  const double keep = 1 - rate * attributes.get_float("weight_decay");
  const bool whole = std::isfinite(operands.get(first + 3, 0));
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    if (!whole) {
      operands.set(0, i, operands.get(0, i));
      if (has_state) operands.set(1, i, operands.get(2, i));
      continue;
    }
    double s = step * operands.get(1, i);
    if (has_state) {
      s = beta1 * operands.get(2, i) + (1 - beta1) * s;
      operands.set(1, i, s);
    }
    operands.set(0, i, keep * operands.get(0, i) - s);
  }
}

}  // namespace

void add_reference_large_batch_optimizer(Backend& backend) {
  add_reference(backend, "lion", run_lion);
  add_reference(backend, "lars", run_lars);
  add_reference(backend, "moving_average", run_moving_average);
  add_reference(backend, "adafactor_apply", run_adafactor_apply);
}

}  // namespace ramet::kernel

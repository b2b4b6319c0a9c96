#include <cmath>
#include <vector>

#include "ramet/base/shape.h"
#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

/// Softmax of every line along the axis; `logarithm`: its logarithm.
void run_softmax(const ReferenceOperands& operands, bool logarithm) {
  const Shape& shape = operands.input_type(0).shape;
  const int axis = normalize_axis(operands.attributes().get_int("axis"), shape.rank(), operands.node().text());
  const int64_t extent = shape[axis], stride = shape.strides()[static_cast<size_t>(axis)];
  if (shape.elements() == 0) return;
  const int64_t lines = shape.elements() / extent;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t base = line / stride * stride * extent + line % stride;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < extent; ++i) most = std::fmax(most, operands.get(0, base + i * stride));
    for (int64_t i = 0; i < extent; ++i) sum += std::exp(operands.get(0, base + i * stride) - most);
    for (int64_t i = 0; i < extent; ++i) {
      const double shifted = operands.get(0, base + i * stride) - most;
      operands.set(0, base + i * stride, logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  }
}

struct Rows {
  int64_t count, width;
};

Rows rows_of(const Shape& shape) {
  const int64_t width = shape.dim(-1);
  return {width == 0 ? 0 : shape.elements() / width, width};
}

void run_layer_norm(const ReferenceOperands& operands) {
  const Rows rows = rows_of(operands.input_type(0).shape);
  const double epsilon = operands.attributes().get_float("epsilon"), width = static_cast<double>(rows.width);
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t base = row * rows.width;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < rows.width; ++i) mean += operands.get(0, base + i);
    mean /= width;
    for (int64_t i = 0; i < rows.width; ++i) variance += std::pow(operands.get(0, base + i) - mean, 2);
    const double rstd = 1 / std::sqrt(variance / width + epsilon);
    for (int64_t i = 0; i < rows.width; ++i)
      operands.set(0, base + i, (operands.get(0, base + i) - mean) * rstd * operands.get(1, i) + operands.get(2, i));
    operands.set(1, row, mean);
    operands.set(2, row, rstd);
  }
}

/// da = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy gain, xhat = (a - mean) rstd.
void run_layer_norm_grad(const ReferenceOperands& operands) {
  const Rows rows = rows_of(operands.input_type(1).shape);
  const double width = static_cast<double>(rows.width);
  std::vector<double> dgain(static_cast<size_t>(rows.width)), dbias(dgain.size());
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t base = row * rows.width;
    const double mean = operands.get(3, row), rstd = operands.get(4, row);
    const auto normal = [&](int64_t i) { return (operands.get(1, base + i) - mean) * rstd; };
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      const double dy = operands.get(0, base + i), g = dy * operands.get(2, i);
      sum += g;
      dot += g * normal(i);
      dgain[static_cast<size_t>(i)] += dy * normal(i);
      dbias[static_cast<size_t>(i)] += dy;
    }
    for (int64_t i = 0; i < rows.width; ++i) {
      const double g = operands.get(0, base + i) * operands.get(2, i);
      operands.set(0, base + i, rstd * (g - sum / width - normal(i) * dot / width));
    }
  }
  for (int64_t i = 0; i < rows.width; ++i) {
    operands.set(1, i, dgain[static_cast<size_t>(i)]);
    operands.set(2, i, dbias[static_cast<size_t>(i)]);
  }
}

void run_rms_norm(const ReferenceOperands& operands) {
  const Rows rows = rows_of(operands.input_type(0).shape);
  const double epsilon = operands.attributes().get_float("epsilon"), width = static_cast<double>(rows.width);
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t base = row * rows.width;
    double squares = 0;
    for (int64_t i = 0; i < rows.width; ++i) squares += std::pow(operands.get(0, base + i), 2);
    const double rstd = 1 / std::sqrt(squares / width + epsilon);
    for (int64_t i = 0; i < rows.width; ++i)
      operands.set(0, base + i, operands.get(0, base + i) * rstd * operands.get(1, i));
    operands.set(1, row, rstd);
  }
}

/// da = rstd (g - xhat mean(g xhat)) with g = dy gain, xhat = a rstd.
void run_rms_norm_grad(const ReferenceOperands& operands) {
  const Rows rows = rows_of(operands.input_type(1).shape);
  std::vector<double> dgain(static_cast<size_t>(rows.width));
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t base = row * rows.width;
    const double rstd = operands.get(3, row);
    const auto normal = [&](int64_t i) { return operands.get(1, base + i) * rstd; };
    double dot = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      dot += operands.get(0, base + i) * operands.get(2, i) * normal(i);
      dgain[static_cast<size_t>(i)] += operands.get(0, base + i) * normal(i);
    }
    for (int64_t i = 0; i < rows.width; ++i) {
      const double g = operands.get(0, base + i) * operands.get(2, i);
      operands.set(0, base + i, rstd * (g - normal(i) * dot / static_cast<double>(rows.width)));
    }
  }
  for (int64_t i = 0; i < rows.width; ++i) operands.set(1, i, dgain[static_cast<size_t>(i)]);
}

}  // namespace

void add_reference_normalize(Backend& backend) {
  add_reference(backend, "softmax", [](const ReferenceOperands& operands) { run_softmax(operands, false); });
  add_reference(backend, "log_softmax", [](const ReferenceOperands& operands) { run_softmax(operands, true); });
  add_reference(backend, "layer_norm", run_layer_norm);
  add_reference(backend, "layer_norm_grad", run_layer_norm_grad);
  add_reference(backend, "rms_norm", run_rms_norm);
  add_reference(backend, "rms_norm_grad", run_rms_norm_grad);
}

}  // namespace ramet::kernel

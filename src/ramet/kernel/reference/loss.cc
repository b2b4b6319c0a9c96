#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/reference/reference.h"

namespace ramet {
namespace {

/// Label of a row, -1 when it is ignored. Throws Error on one that is no class.
int64_t label_of(const ReferenceOperands& operands, int64_t row, int64_t classes) {
  const int64_t label = operands.get_int(1, row);
  if (label >= classes)
    throw Error({.what = "a label is no class",
                 .where = operands.node().text() + ", row " + std::to_string(row),
                 .found = std::to_string(label),
                 .expected = "less than " + std::to_string(classes) + ", or -1 to ignore the row"},
                ErrorKind::kFailure);
  return label < 0 ? -1 : label;
}

void run_cross_entropy(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const int64_t rows = shape[0], classes = shape[1];
  double loss = 0, count = 0, correct = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto logit = [&](int64_t index) { return operands.get(0, row * classes + index); };
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 1; i < classes; ++i)
      if (logit(i) > logit(best)) best = i;
    const double most = logit(best);
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(logit(i) - most);
    const double lse = most + std::log(sum);
    operands.set(3, row, lse);
    const int64_t label = label_of(operands, row, classes);
    if (label < 0) continue;
    loss += lse - logit(label);
    count += 1;
    correct += label == best;
  }
  operands.set(0, 0, count > 0 ? loss / count : 0);
  operands.set(1, 0, count);
  operands.set(2, 0, correct);
}

void run_cross_entropy_grad(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const int64_t rows = shape[0], classes = shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t label = label_of(operands, row, classes);
    const double factor = label < 0 ? 0 : operands.get(4, 0) / operands.get(3, 0);
    for (int64_t i = 0; i < classes; ++i) {
      const int64_t at = row * classes + i;
      const double softmax = label < 0 ? 0 : std::exp(operands.get(0, at) - operands.get(2, row));
      operands.set(0, at, label < 0 ? 0 : (softmax - (i == label)) * factor);
    }
  }
}

}  // namespace

void add_reference_loss(Backend& backend) {
  add_reference(backend, "cross_entropy", run_cross_entropy);
  add_reference(backend, "cross_entropy_grad", run_cross_entropy_grad);
}

}  // namespace ramet

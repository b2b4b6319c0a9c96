#include <cmath>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/pair_distance.h"

namespace ramet::kernel {
namespace {

using ops::PairForm;
using ops::PairNorm;

/// One row and one column, in double.
class Pair {
 public:
  Pair(const ReferenceOperands& operands, const PairForm& form, int first)
      : operands_(operands), form_(form), first_(first) {}

  void move_to(int64_t group, int64_t row, int64_t column) {
    row_ = group * form_.rows + row, column_ = group * form_.columns + column;
  }
  double a(int64_t d) const { return operands_.get(first_, row_ * form_.width + d); }
  double b(int64_t d) const { return operands_.get(first_ + 1, column_ * form_.column_width() + d); }
  double w(int64_t d) const { return form_.weighted ? operands_.get(first_ + 2, row_ * form_.column_width() + d) : 1; }
  double x(int64_t d) const {
    if (form_.norm == PairNorm::kBox) return a(d) - b(d);
    double x = a(d);
    for (int64_t t = 0; t < form_.terms; ++t) x -= w(t * form_.width + d) * b(t * form_.width + d);
    return x;
  }
  double distance() const {
    double sum = 0;
    for (int64_t d = 0; d < form_.width; ++d) switch (form_.norm) {
        case PairNorm::kL1: sum += std::fabs(x(d)); break;
        case PairNorm::kSquares: sum += x(d) * x(d); break;
        case PairNorm::kComplex: sum += d < form_.width / 2 ? std::hypot(x(d), x(d + form_.width / 2)) : 0; break;
        case PairNorm::kBox: {
          const double width = w(d), size = std::fabs(x(d)), more = width + 1;
          sum += size <= width / 2 ? size / more : size * more - width * (more - 1 / more) / 2;
        }
      }
    return sum;
  }
  /// Derivative of the distance by x[d].
  double slope(int64_t d) const {
    const double at = x(d), sign = static_cast<double>(at > 0) - static_cast<double>(at < 0);
    switch (form_.norm) {
      case PairNorm::kL1: return sign;
      case PairNorm::kSquares: return 2 * at;
      case PairNorm::kComplex: {
        const int64_t half = form_.width / 2;
        const double modulus = std::hypot(at, x(d < half ? d + half : d - half));
        return modulus > 0 ? at / modulus : 0;
      }
      case PairNorm::kBox: return std::fabs(at) <= w(d) / 2 ? sign / (w(d) + 1) : sign * (w(d) + 1);
    }
    return 0;
  }
  /// Derivative by w[d], d in all terms.
  double weight_slope(int64_t d) const {
    if (form_.norm != PairNorm::kBox) return -b(d) * slope(d % form_.width);
    const double width = w(d), size = std::fabs(x(d)), more = width + 1;
    if (size <= width / 2) return -size / (more * more);
    return size - (more - 1 / more) / 2 - width * (1 + 1 / (more * more)) / 2;
  }
  /// Derivative by b[d], d in all terms.
  double column_slope(int64_t d) const { return -(form_.norm == PairNorm::kBox ? 1 : w(d)) * slope(d % form_.width); }

 private:
  const ReferenceOperands& operands_;
  const PairForm& form_;
  const int first_;
  int64_t row_ = 0, column_ = 0;
};

/// Calls `visit(pair, row, column)` for all rows and columns, numbered over all groups.
template <typename Visit>
void for_each_pair(const ReferenceOperands& operands, const PairForm& form, int first, const Visit& visit) {
  Pair pair(operands, form, first);
  for (int64_t g = 0; g < form.groups; ++g)
    for (int64_t m = 0; m < form.rows; ++m)
      for (int64_t k = 0; k < form.columns; ++k) {
        pair.move_to(g, m, k);
        visit(pair, g * form.rows + m, g * form.columns + k, (g * form.rows + m) * form.columns + k);
      }
}

void pair_distance(const ReferenceOperands& operands) {
  const PairForm form = ops::pair_form(operands.node());
  for_each_pair(operands, form, 0,
                [&](const Pair& pair, int64_t, int64_t, int64_t place) { operands.set(0, place, pair.distance()); });
}

void store(const ReferenceOperands& operands, int output, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) operands.set(output, static_cast<int64_t>(i), values[i]);
}

void pair_row_grad(const ReferenceOperands& operands) {
  const PairForm form = ops::pair_form(operands.node());
  const auto rows = static_cast<size_t>(form.groups * form.rows);
  std::vector<double> a(rows * static_cast<size_t>(form.width)),
      w(form.weighted ? rows * static_cast<size_t>(form.column_width()) : 0);
  for_each_pair(operands, form, 1, [&](const Pair& pair, int64_t row, int64_t, int64_t place) {
    const double g = operands.get(0, place);
    for (int64_t d = 0; d < form.width; ++d) a[static_cast<size_t>(row * form.width + d)] += g * pair.slope(d);
    if (form.weighted)
      for (int64_t d = 0; d < form.column_width(); ++d)
        w[static_cast<size_t>(row * form.column_width() + d)] += g * pair.weight_slope(d);
  });
  store(operands, 0, a);
  if (form.weighted) store(operands, 1, w);
}

void pair_column_grad(const ReferenceOperands& operands) {
  const PairForm form = ops::pair_form(operands.node());
  std::vector<double> b(static_cast<size_t>(form.groups * form.columns * form.column_width()));
  for_each_pair(operands, form, 1, [&](const Pair& pair, int64_t, int64_t column, int64_t place) {
    for (int64_t d = 0; d < form.column_width(); ++d)
      b[static_cast<size_t>(column * form.column_width() + d)] += operands.get(0, place) * pair.column_slope(d);
  });
  store(operands, 0, b);
}

}  // namespace

void add_reference_pairs(Backend& backend) {
  add_reference(backend, "pair_distance", pair_distance);
  add_reference(backend, "pair_row_grad", pair_row_grad);
  add_reference(backend, "pair_column_grad", pair_column_grad);
}

}  // namespace ramet::kernel

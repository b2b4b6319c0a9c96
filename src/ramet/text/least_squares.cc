#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/text/packing.h"

namespace ramet::text {
namespace {

using Columns = std::vector<std::vector<SparseEntry>>;

/// The Cholesky factor of the products of some columns with each other, columns coming and going.
class Factor {
 public:
  size_t size() const { return rows_.size(); }

  /// Takes a column in, given its products with those there are and with itself. False, and nothing changes, when it
  /// depends on them.
  bool append(std::vector<double> products, double square) {
    for (size_t i = 0; i < products.size(); ++i) {
      double sum = products[i];
      for (size_t k = 0; k < i; ++k) sum -= rows_[i][k] * products[k];
      products[i] = sum / rows_[i][i];
    }
    double rest = square;
    for (const double value : products) rest -= value * value;
    if (rest <= 1e-9 * square) return false;
    products.push_back(std::sqrt(rest));
    rows_.push_back(std::move(products));
    return true;
  }

  /// Takes column `at` out; those behind it move up. Givens rotations make the factor triangular again.
  void remove(size_t at) {
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(at));
    for (size_t i = at; i < rows_.size(); ++i) {
      const double a = rows_[i][i], b = rows_[i][i + 1], length = std::hypot(a, b);
      const double c = a / length, s = b / length;
      for (size_t k = i; k < rows_.size(); ++k) {
        const double x = rows_[k][i], y = rows_[k][i + 1];
        rows_[k][i] = c * x + s * y;
        rows_[k][i + 1] = c * y - s * x;
      }
      rows_[i].resize(i + 1);
    }
  }

  /// The solution of the normal equations.
  std::vector<double> solve(std::vector<double> right) const {
    for (size_t i = 0; i < right.size(); ++i) {
      for (size_t k = 0; k < i; ++k) right[i] -= rows_[i][k] * right[k];
      right[i] /= rows_[i][i];
    }
    for (size_t i = right.size(); i-- > 0;) {
      right[i] /= rows_[i][i];
      for (size_t k = 0; k < i; ++k) right[k] -= rows_[i][k] * right[i];
    }
    return right;
  }

 private:
  std::vector<std::vector<double>> rows_;  // lower triangle
};

class Solver {
 public:
  Solver(const Columns& columns, const std::vector<double>& b)
      : columns_(columns), b_(b), x_(columns.size(), 0), residual_(b), passive_(columns.size(), false), futile_(passive_) {}

  std::vector<double> run() {
    double scale = 0;
    for (const double value : b_) scale = std::max(scale, std::fabs(value));
    const double tolerance = 1e-9 * scale;
    // Every round makes the residual smaller, so that no set of columns comes twice; the limit is for rounding errors.
    const size_t most = 3 * columns_.size() + 1000;
    for (size_t round = 0; round < most; ++round) {
      if (!take_steepest(tolerance)) break;
      const size_t taken = order_.back();
      while (!step()) {
      }
      // Rounding alone made it look like a way down.
      if (!passive_[taken]) futile_[taken] = true;
      update_residual();
    }
    return x_;
  }

 private:
  double dot(const std::vector<SparseEntry>& column, const std::vector<double>& dense) const {
    double sum = 0;
    for (const SparseEntry& entry : column) sum += entry.value * dense[static_cast<size_t>(entry.row)];
    return sum;
  }
  static double dot(const std::vector<SparseEntry>& a, const std::vector<SparseEntry>& b) {
    double sum = 0;
    for (const SparseEntry& x : a)
      for (const SparseEntry& y : b)
        if (x.row == y.row) sum += x.value * y.value;
    return sum;
  }

  /// Lets the column along which the residual falls most become positive; false when there is none.
  bool take_steepest(double tolerance) {
    std::vector<bool> dependent = futile_;
    for (;;) {
      size_t best = columns_.size();
      double most = tolerance;
      for (size_t j = 0; j < columns_.size(); ++j) {
        if (passive_[j] || dependent[j]) continue;
        if (const double slope = dot(columns_[j], residual_); slope > most) most = slope, best = j;
      }
      if (best == columns_.size()) return false;
      std::vector<double> products;
      for (const size_t j : order_) products.push_back(dot(columns_[j], columns_[best]));
      if (factor_.append(std::move(products), dot(columns_[best], columns_[best]))) {
        order_.push_back(best);
        passive_[best] = true;
        return true;
      }
      dependent[best] = true;
    }
  }

  /// Goes to the least squares of the passive columns; true when all of them are positive there. Otherwise as far as
  /// the first that would turn negative, which leaves.
  bool step() {
    std::vector<double> right;
    for (const size_t j : order_) right.push_back(dot(columns_[j], b_));
    const std::vector<double> wanted = factor_.solve(std::move(right));
    double way = 1;
    size_t first = order_.size();
    for (size_t i = 0; i < order_.size(); ++i) {
      const double now = x_[order_[i]], here = wanted[i] > 0 ? 1 : now <= 0 ? 0 : now / (now - wanted[i]);
      if (wanted[i] <= 0 && (first == order_.size() || here < way)) way = here, first = i;
    }
    const bool whole = first == order_.size();
    for (size_t i = 0; i < order_.size(); ++i) {
      double& now = x_[order_[i]];
      now = whole ? wanted[i] : now + way * (wanted[i] - now);
    }
    if (whole) return true;
    x_[order_[first]] = 0;
    for (size_t i = order_.size(); i-- > 0;) {
      if (wanted[i] > 0 || x_[order_[i]] > 0) continue;
      x_[order_[i]] = 0;
      passive_[order_[i]] = false;
      factor_.remove(i);
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return order_.empty();
  }

  void update_residual() {
    residual_ = b_;
    for (const size_t j : order_)
      for (const SparseEntry& entry : columns_[j]) residual_[static_cast<size_t>(entry.row)] -= entry.value * x_[j];
  }

  const Columns& columns_;
  const std::vector<double>& b_;
  std::vector<double> x_, residual_;
  std::vector<bool> passive_, futile_;  // futile: never taken again
  std::vector<size_t> order_;  // passive columns as the factor has them
  Factor factor_;
};

}  // namespace

std::vector<double> nonnegative_least_squares(const Columns& columns, const std::vector<double>& b) {
  for (const auto& column : columns)
    for (const SparseEntry& entry : column)
      if (entry.row < 0 || entry.row >= static_cast<int32_t>(b.size()))
        internal_error("nonnegative_least_squares", "an entry outside of the right-hand side");
  return Solver(columns, b).run();
}

}  // namespace ramet::text

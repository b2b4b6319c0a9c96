#include "ramet/ops/paths.h"

#include <vector>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

using ops::PathForm;
using ops::PathMessage;

/// The messages of a node's edges in double; `x` is the number of its input x.
class Paths {
 public:
  Paths(const ReferenceOperands& operands, int x) : operands_(operands), form_(ops::path_form(operands.node())), x_(x) {
    ops::check_paths(operands.node(), form_, {table(x + 2), table(x + 3), table(x + 4)});
  }
  const PathForm& form() const { return form_; }

  /// Calls `visit(b, row, edge)` for all edges in order; numbers of rows and edges are those of the sample.
  template <typename Visit>
  void for_each_edge(const Visit& visit) const {
    for (int64_t b = 0; b < form_.batch; ++b)
      for (int64_t i = 0; i < form_.rows; ++i) {
        const int32_t* const ptr = table(x_ + 4) + b * (form_.rows + 1) + i;
        for (int64_t e = ptr[0]; e < ptr[1]; ++e) visit(b, i, e);
      }
  }
  /// Places of the element f of the source's and of the relation's row.
  int64_t source(int64_t b, int64_t e, int64_t f) const {
    return (b * form_.rows + table(x_ + 2)[b * form_.edges + e]) * form_.features + f;
  }
  int64_t relation(int64_t b, int64_t e, int64_t f) const {
    return (b * form_.relations + table(x_ + 3)[b * form_.edges + e]) * form_.features + f;
  }
  double x(int64_t b, int64_t e, int64_t f) const { return operands_.get(x_, source(b, e, f)); }
  double r(int64_t b, int64_t e, int64_t f) const { return operands_.get(x_ + 1, relation(b, e, f)); }

  bool is_real(int64_t f) const { return f % form_.width < form_.width / 2; }
  /// The other part of the complex number that feature f is a part of.
  int64_t other(int64_t f) const { return is_real(f) ? f + form_.width / 2 : f - form_.width / 2; }

  double message(int64_t b, int64_t e, int64_t f) const {
    switch (form_.message) {
      case PathMessage::kProduct: return x(b, e, f) * r(b, e, f);
      case PathMessage::kSum: return x(b, e, f) + r(b, e, f);
      case PathMessage::kRotation:
        return is_real(f) ? x(b, e, f) * r(b, e, f) - x(b, e, other(f)) * r(b, e, other(f))
                          : x(b, e, other(f)) * r(b, e, f) + x(b, e, f) * r(b, e, other(f));
    }
    return 0;
  }

 private:
  const int32_t* table(int input) const { return static_cast<const int32_t*>(operands_.input_bytes(input)); }

  const ReferenceOperands& operands_;
  const PathForm form_;
  const int x_;
};

void path_sum(const ReferenceOperands& operands) {
  const Paths paths(operands, 1);
  const PathForm& form = paths.form();
  const auto size = static_cast<size_t>(form.batch * form.rows * form.features);
  std::vector<double> sum(size), squares(size), most(size), least(size);
  std::vector<int64_t> most_place(size, -1), least_place(size, -1);
  for (size_t i = 0; i < size; ++i) {
    sum[i] = most[i] = least[i] = operands.get(0, static_cast<int64_t>(i));
    squares[i] = sum[i] * sum[i];
  }
  paths.for_each_edge([&](int64_t b, int64_t row, int64_t e) {
    for (int64_t f = 0; f < form.features; ++f) {
      const auto at = static_cast<size_t>((b * form.rows + row) * form.features + f);
      const double m = paths.message(b, e, f);
      sum[at] += m, squares[at] += m * m;
      if (m > most[at]) most[at] = m, most_place[at] = e;
      if (m < least[at]) least[at] = m, least_place[at] = e;
    }
  });
  for (size_t i = 0; i < size; ++i) {
    const auto at = static_cast<int64_t>(i);
    operands.set(0, at, sum[i]);
    if (!form.statistics) continue;
    operands.set(1, at, squares[i]), operands.set(2, at, most[i]), operands.set(3, at, least[i]);
    operands.set_int(4, at, most_place[i]), operands.set_int(5, at, least_place[i]);
  }
}

void path_gradient(const ReferenceOperands& operands) {
  const Paths paths(operands, 0);
  const PathForm& form = paths.form();
  std::vector<double> of_x(static_cast<size_t>(form.batch * form.rows * form.features)),
      of_relations(static_cast<size_t>(form.batch * form.relations * form.features));
  paths.for_each_edge([&](int64_t b, int64_t row, int64_t e) {
    const auto flow = [&](int64_t f) {
      const int64_t at = (b * form.rows + row) * form.features + f;
      double sum = operands.get(5, at);
      if (!form.statistics) return sum;
      sum += 2 * paths.message(b, e, f) * operands.get(6, at);
      if (operands.get_int(9, at) == e) sum += operands.get(7, at);
      if (operands.get_int(10, at) == e) sum += operands.get(8, at);
      return sum;
    };
    for (int64_t f = 0; f < form.features; ++f) {
      double &dx = of_x[static_cast<size_t>(paths.source(b, e, f))],
             &dr = of_relations[static_cast<size_t>(paths.relation(b, e, f))];
      const double g = flow(f);
      if (form.message == PathMessage::kSum) {
        dx += g, dr += g;
      } else if (form.message == PathMessage::kProduct) {
        dx += g * paths.r(b, e, f), dr += g * paths.x(b, e, f);
      } else {
        const int64_t o = paths.other(f);
        const double sign = paths.is_real(f) ? 1 : -1, go = flow(o);
        const int64_t re = paths.is_real(f) ? f : o, im = paths.is_real(f) ? o : f;
        dx += g * paths.r(b, e, re) + sign * go * paths.r(b, e, im);
        dr += g * paths.x(b, e, re) + sign * go * paths.x(b, e, im);
      }
    }
  });
  for (size_t i = 0; i < of_x.size(); ++i) operands.set(0, static_cast<int64_t>(i), of_x[i]);
  for (size_t i = 0; i < of_relations.size(); ++i) operands.set(1, static_cast<int64_t>(i), of_relations[i]);
}

}  // namespace

void add_reference_paths(Backend& backend) {
  add_reference(backend, "path_sum", path_sum);
  add_reference(backend, "path_statistics", path_sum);
  add_reference(backend, "path_gradient", path_gradient);
}

}  // namespace ramet::kernel

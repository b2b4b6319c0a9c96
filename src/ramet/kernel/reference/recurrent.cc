#include "ramet/ops/recurrent.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One sample of a recurrent node, with its operands read in double.
class Sample {
 public:
  Sample(const ReferenceOperands& operands, const RecurrentForm& form, int64_t sample)
      : operands_(operands), form_(form), sample_(sample), units_(static_cast<size_t>(form.hidden)) {
    weight_ = matrix(form.weight, form.weight_rows(), form.state, form.dtype);
    if (form.projection >= 0) projection_ = matrix(form.projection, form.state, form.hidden, form.dtype);
    if (form.peepholes >= 0) peepholes_ = matrix(form.peepholes, 3, form.hidden, DType::kF32);
    bias_ = form.bias >= 0 ? matrix(form.bias, 1, form.hidden, DType::kF32)[0] : Row(units_);
    length_ =
        form.lengths < 0 ? form.steps : std::clamp<int64_t>(operands.get_int(form.lengths, sample), 0, form.steps);
  }

 protected:
  /// `value` as an element of the type holds it.
  static double rounded(double value, DType dtype) {
    char bytes[8] = {};
    store_element(bytes, dtype, 0, value);
    return load_element(bytes, dtype, 0);
  }
  double rounded(double value) const { return rounded(value, form_.dtype); }

  Matrix matrix(int input, int64_t rows, int64_t columns, DType dtype) const {
    Matrix result(static_cast<size_t>(rows), Row(static_cast<size_t>(columns)));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        result[static_cast<size_t>(i)][static_cast<size_t>(j)] = rounded(operands_.get(input, i * columns + j), dtype);
    return result;
  }
  /// The sample's row of a state [B, width].
  Row state(int input, int64_t width) const { return read(input, sample_, width); }
  /// The sample's row of step `step` of a sequence [T, B, width].
  Row at(int input, int64_t step, int64_t width) const { return read(input, step * form_.batch + sample_, width); }
  void put_state(int output, const Row& row) const { write(output, sample_, row); }
  void put(int output, int64_t step, const Row& row) const { write(output, step * form_.batch + sample_, row); }

  /// W v for rows [first, last) of a matrix; W^T v with the rows' own `v`.
  static Row product(const Matrix& matrix, size_t first, size_t last, const Row& v) {
    Row result;
    for (size_t i = first; i < last; ++i) {
      double sum = 0;
      for (size_t j = 0; j < v.size(); ++j) sum += matrix[i][j] * v[j];
      result.push_back(sum);
    }
    return result;
  }
  static void add_transposed(const Matrix& matrix, size_t first, const Row& v, Row& to) {
    for (size_t i = 0; i < v.size(); ++i)
      for (size_t j = 0; j < to.size(); ++j) to[j] += matrix[first + i][j] * v[i];
  }

  /// Steps of the sample in the order in which they are taken.
  std::vector<int64_t> order() const {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step < length_; ++step) steps.push_back(form_.reverse ? length_ - 1 - step : step);
    return steps;
  }
  /// Calls `zero(step)` for the steps behind the sample's length.
  template <typename Zero>
  void behind(const Zero& zero) const {
    for (int64_t step = length_; step < form_.steps; ++step) zero(step);
  }
  double peephole(size_t which, size_t unit) const { return peepholes_.empty() ? 0 : peepholes_[which][unit]; }

  const ReferenceOperands& operands_;
  const RecurrentForm& form_;
  int64_t sample_, length_ = 0;
  size_t units_;
  Matrix weight_, projection_, peepholes_;
  Row bias_;

 private:
  Row read(int input, int64_t row, int64_t width) const {
    Row result;
    for (int64_t i = 0; i < width; ++i) result.push_back(operands_.get(input, row * width + i));
    return result;
  }
  void write(int output, int64_t row, const Row& values) const {
    const auto width = static_cast<int64_t>(values.size());
    for (int64_t i = 0; i < width; ++i) operands_.set(output, row * width + i, values[static_cast<size_t>(i)]);
  }
};

class ForwardSample : public Sample {
 public:
  using Sample::Sample;

  void run() {
    const RecurrentForm::Forward out = form_.forward();
    Row h = state(form_.h0, form_.state), c(units_);
    if (form_.lstm()) c = state(form_.c0, form_.hidden);
    for (const int64_t step : order()) {
      kept_.assign(static_cast<size_t>(form_.kept) * units_, 0);
      const Row x = at(form_.x, step, form_.gate_width());
      h = form_.lstm() ? lstm(x, h, c) : form_.gru() ? gru(x, h) : rnn(x, h);
      for (double& value : h) value = rounded(value);
      put(out.y, step, h);
      if (out.gates >= 0) put(out.gates, step, kept_);
      if (out.cells >= 0) put(out.cells, step, c);
    }
    behind([&](int64_t step) {
      put(out.y, step, Row(h.size()));
      if (out.gates >= 0) put(out.gates, step, Row(static_cast<size_t>(form_.kept) * units_));
      if (out.cells >= 0) put(out.cells, step, Row(units_));
    });
    put_state(out.h, h);
    if (out.c >= 0) put_state(out.c, c);
  }

 private:
  Row lstm(const Row& x, const Row& h, Row& c) {
    const Row z = product(weight_, 0, 4 * units_, h);
    Row m(units_);
    for (size_t u = 0; u < units_; ++u) {
      const auto sum = [&](size_t gate) { return x[gate * units_ + u] + z[gate * units_ + u]; };
      const double i = sigmoid(sum(0) + peephole(0, u) * c[u]), f = sigmoid(sum(1) + peephole(1, u) * c[u]);
      const double g = std::tanh(sum(2));
      c[u] = rounded(f * c[u] + i * g, DType::kF32);
      const double o = sigmoid(sum(3) + peephole(2, u) * c[u]);
      m[u] = o * std::tanh(c[u]);
      keep(u, {i, f, g, o});
    }
    if (form_.projection < 0) return m;
    for (double& value : m) value = rounded(value);
    return product(projection_, 0, projection_.size(), m);
  }

  Row gru(const Row& x, const Row& h) {
    Row z = product(weight_, 0, form_.only_n ? units_ : (form_.reset_after ? 3 : 2) * units_, h);
    if (form_.only_n) z.insert(z.begin(), 2 * units_, 0);
    Row r(units_), reset(units_), next(units_);
    for (size_t u = 0; u < units_; ++u) {
      r[u] = sigmoid(x[u] + z[u]);
      reset[u] = rounded(r[u] * h[u]);
    }
    const Row n_product = form_.reset_after ? Row(z.begin() + static_cast<std::ptrdiff_t>(2 * units_), z.end())
                                            : product(weight_, 2 * units_, 3 * units_, reset);
    for (size_t u = 0; u < units_; ++u) {
      const double update = sigmoid(x[units_ + u] + z[units_ + u]), inner = n_product[u] + bias_[u];
      const double n = std::tanh(x[2 * units_ + u] + (form_.reset_after ? r[u] * inner : inner));
      next[u] = (1 - update) * n + update * h[u];
      if (form_.reset_after)
        keep(u, {r[u], update, n, inner});
      else
        keep(u, {r[u], update, n});
    }
    return next;
  }

  Row rnn(const Row& x, const Row& h) {
    Row next = product(weight_, 0, units_, h);
    for (size_t u = 0; u < units_; ++u) {
      const double sum = x[u] + next[u];
      next[u] = form_.cell == RecurrentForm::Cell::kTanh ? std::tanh(sum) : std::max(sum, 0.0);
    }
    return next;
  }

  void keep(size_t unit, std::initializer_list<double> gates) {
    size_t block = 0;
    for (const double gate : gates) kept_[block++ * units_ + unit] = gate;
  }

  Row kept_;
};

class BackwardSample : public Sample {
 public:
  using Sample::Sample;

  void run() {
    const RecurrentForm::Backward out = form_.backward();
    std::vector<int64_t> steps = order();
    Row dh = state(form_.dh, form_.state), dc(units_);
    if (form_.lstm()) dc = state(form_.dc, form_.hidden);
    for (size_t i = steps.size(); i-- > 0;) {
      const int64_t step = steps[i];
      const Row previous = i == 0 ? state(form_.h0, form_.state) : at(form_.y, steps[i - 1], form_.state);
      const Row dy = at(form_.dy, step, form_.state);
      for (size_t u = 0; u < dh.size(); ++u) dh[u] += dy[u];
      if (out.previous >= 0) put(out.previous, step, previous);
      dx_.assign(static_cast<size_t>(form_.gate_width()), 0);
      if (form_.lstm()) {
        const Row cells = i == 0 ? state(form_.c0, form_.hidden) : at(form_.cells, steps[i - 1], form_.hidden);
        if (out.previous_cells >= 0) put(out.previous_cells, step, cells);
        lstm(step, cells, dh, dc);
      } else if (form_.gru()) {
        gru(step, previous, dh);
      } else {
        rnn(step, dh);
      }
      put(out.dx, step, dx_);
    }
    behind([&](int64_t step) {
      for (const int output :
           {out.dx, out.previous, out.previous_cells, out.dstate, out.unprojected, out.recurrent, out.reset})
        if (output >= 0) put(output, step, Row(static_cast<size_t>(operands_.output_type(output).shape.dim(-1))));
    });
    if (out.dh0 >= 0) put_state(out.dh0, dh);
    if (out.dc0 >= 0) put_state(out.dc0, dc);
  }

 private:
  Row gates(int64_t step) const { return at(form_.kept_gates, step, form_.kept * form_.hidden); }
  void round_dx() {
    for (double& value : dx_) value = rounded(value);
  }

  void lstm(int64_t step, const Row& before, Row& dh, Row& dc) {
    const RecurrentForm::Backward out = form_.backward();
    const Row kept = gates(step), cells = at(form_.cells, step, form_.hidden);
    Row dm = dh, m(units_);
    if (form_.projection >= 0) {
      for (double& value : dh) value = rounded(value);
      dm.assign(units_, 0);
      add_transposed(projection_, 0, dh, dm);
      put(out.dstate, step, dh);
    }
    for (size_t u = 0; u < units_; ++u) {
      const double i = kept[u], f = kept[units_ + u], g = kept[2 * units_ + u], o = kept[3 * units_ + u];
      const double t = std::tanh(cells[u]);
      m[u] = o * t;
      const double d_o = dm[u] * t * o * (1 - o);
      const double d_c = dc[u] + dm[u] * o * (1 - t * t) + peephole(2, u) * d_o;
      const double d_i = d_c * g * i * (1 - i), d_f = d_c * before[u] * f * (1 - f), d_g = d_c * i * (1 - g * g);
      dc[u] = d_c * f + peephole(0, u) * d_i + peephole(1, u) * d_f;
      dx_[u] = d_i, dx_[units_ + u] = d_f, dx_[2 * units_ + u] = d_g, dx_[3 * units_ + u] = d_o;
    }
    if (out.unprojected >= 0) put(out.unprojected, step, m);
    round_dx();
    dh.assign(dh.size(), 0);
    add_transposed(weight_, 0, dx_, dh);
  }

  void gru(int64_t step, const Row& previous, Row& dh) {
    const RecurrentForm::Backward out = form_.backward();
    const Row kept = gates(step);
    Row reset(units_), dn(units_), d_reset(units_);
    for (size_t u = 0; u < units_; ++u) {
      const double r = kept[u], z = kept[units_ + u], n = kept[2 * units_ + u];
      dx_[units_ + u] = dh[u] * (previous[u] - n) * z * (1 - z);
      dx_[2 * units_ + u] = dh[u] * (1 - z) * (1 - n * n);
      dn[u] = rounded(dx_[2 * units_ + u]);
      reset[u] = r * previous[u];
    }
    if (!form_.reset_after) add_transposed(weight_, 2 * units_, dn, d_reset);
    Row recurrent(3 * units_);
    for (size_t u = 0; u < units_; ++u) {
      const double r = kept[u], z = kept[units_ + u];
      const double slope = form_.reset_after ? dx_[2 * units_ + u] * kept[3 * units_ + u] : d_reset[u] * previous[u];
      dx_[u] = slope * r * (1 - r);
      dh[u] = dh[u] * z + d_reset[u] * r;
      recurrent[u] = rounded(dx_[u]);
      recurrent[units_ + u] = rounded(dx_[units_ + u]);
      recurrent[2 * units_ + u] = rounded(dx_[2 * units_ + u] * r);
    }
    round_dx();
    if (form_.only_n) recurrent.erase(recurrent.begin(), recurrent.begin() + static_cast<std::ptrdiff_t>(2 * units_));
    if (form_.reset_after) {
      add_transposed(weight_, 0, recurrent, dh);
      return put(out.recurrent, step, recurrent);
    }
    recurrent.resize(2 * units_);
    add_transposed(weight_, 0, recurrent, dh);
    put(out.reset, step, reset);
  }

  void rnn(int64_t step, Row& dh) {
    const Row y = at(form_.y, step, form_.state);
    for (size_t u = 0; u < units_; ++u)
      dx_[u] = dh[u] * (form_.cell == RecurrentForm::Cell::kTanh ? 1 - y[u] * y[u] : y[u] > 0 ? 1 : 0);
    round_dx();
    dh.assign(dh.size(), 0);
    add_transposed(weight_, 0, dx_, dh);
  }

  Row dx_;
};

void run_recurrent(const ReferenceOperands& operands) {
  const RecurrentForm form = recurrent_form(operands.node());
  for (int64_t sample = 0; sample < form.batch; ++sample) {
    if (form.gradient)
      BackwardSample(operands, form, sample).run();
    else
      ForwardSample(operands, form, sample).run();
  }
}

}  // namespace

void add_reference_recurrent(Backend& backend) {
  for (const char* op : {"lstm", "lstm_grad", "gru", "gru_grad", "rnn", "rnn_grad"})
    add_reference(backend, op, run_recurrent, [](const NodeSignature& node) {
      return recurrent_form(node).blocked.empty() ? std::string() : std::string("reads no blocked operand");
    });
}

}  // namespace ramet::kernel

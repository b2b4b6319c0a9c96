#include "ramet/ops/radial.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

using ops::RadialForm;

/// Calls `visit(place, first, second, distance)` for all pairs of a batch, with numbers over the whole batch.
template <typename Visit>
void for_each_pair(const ReferenceOperands& operands, const RadialForm& form, const Visit& visit) {
  const auto* const distance = static_cast<const float*>(operands.input_bytes(1));
  const auto* const ptr = static_cast<const int32_t*>(operands.input_bytes(2));
  const auto* const second = static_cast<const int32_t*>(operands.input_bytes(3));
  ops::check_pairs(operands.node(), form, distance, ptr, second);
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t i = 0; i < form.rows; ++i)
      for (int64_t p = ptr[b * (form.rows + 1) + i]; p < ptr[b * (form.rows + 1) + i + 1]; ++p)
        visit(b * form.pairs + p, b * form.rows + i, b * form.rows + second[b * form.pairs + p],
              static_cast<double>(distance[b * form.pairs + p]));
}

/// Sums of filters times rows, with `filter(place, distance, values)`.
template <typename Filter>
void sum_pairs(const ReferenceOperands& operands, const RadialForm& form, const Filter& filter) {
  std::vector<double> sums(static_cast<size_t>(form.batch * form.rows * form.width)),
      values(static_cast<size_t>(form.width));
  for_each_pair(operands, form, [&](int64_t place, int64_t first, int64_t second, double distance) {
    filter(place, distance, values);
    for (const auto& [to, from] : {std::pair(first, second), std::pair(second, first)})
      for (int64_t f = 0; f < form.width; ++f)
        sums[static_cast<size_t>(to * form.width + f)] +=
            values[static_cast<size_t>(f)] * operands.get(0, from * form.width + f);
  });
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

/// Calls `visit(distance, gradient)` with the gradient of each pair's filter; inputs 0 and 4 are dy and x.
template <typename Visit>
void for_each_gradient(const ReferenceOperands& operands, const RadialForm& form, const Visit& visit) {
  std::vector<double> gradient(static_cast<size_t>(form.width));
  for_each_pair(operands, form, [&](int64_t /*place*/, int64_t first, int64_t second, double distance) {
    const auto at = [&](int input, int64_t row, int64_t f) { return operands.get(input, row * form.width + f); };
    for (int64_t f = 0; f < form.width; ++f)
      gradient[static_cast<size_t>(f)] = at(0, first, f) * at(4, second, f) + at(0, second, f) * at(4, first, f);
    visit(distance, gradient);
  });
}

/// A filter network at one distance; input `first` is w1.
class Network {
 public:
  Network(const ReferenceOperands& operands, const RadialForm& form, int first)
      : operands_(operands), form_(form), first_(first) {}

  void at(double distance) {
    const double step = form_.cutoff / static_cast<double>(form_.gaussians - 1);
    basis.clear(), hidden.clear(), slope.clear();
    for (int64_t k = 0; k < form_.gaussians; ++k) {
      const double apart = (distance - step * static_cast<double>(k)) / step;
      basis.push_back(std::exp(-0.5 * apart * apart));
    }
    for (int64_t h = 0; h < form_.hidden; ++h) {
      double z = operands_.get(first_ + 1, h);
      for (int64_t k = 0; k < form_.gaussians; ++k)
        z += operands_.get(first_, h * form_.gaussians + k) * basis[static_cast<size_t>(k)];
      hidden.push_back(std::log1p(std::exp(-std::abs(z))) + std::max(z, 0.0) - std::numbers::ln2);
      slope.push_back(1 / (1 + std::exp(-z)));
    }
    envelope = 0.5 * (std::cos(std::numbers::pi * distance / form_.cutoff) + 1);
  }

  std::vector<double> basis, hidden, slope;  ///< Gaussians; behind the softplus; its derivative
  double envelope = 0;

 private:
  const ReferenceOperands& operands_;
  const RadialForm& form_;
  int first_;
};

void table_filter_sum(const ReferenceOperands& operands) {
  const RadialForm form = ops::table_filter_form(operands.node());
  sum_pairs(operands, form, [&](int64_t /*place*/, double distance, std::vector<double>& values) {
    const ops::TableCell cell = ops::table_cell(form.points, distance * ops::table_density(form));
    for (int64_t f = 0; f < form.width; ++f) {
      values[static_cast<size_t>(f)] = 0;
      for (size_t k = 0; k < cell.share.size(); ++k)
        values[static_cast<size_t>(f)] +=
            cell.share[k] * operands.get(4, (cell.first + static_cast<int64_t>(k)) * form.width + f);
    }
  });
}

void table_filter_gradient(const ReferenceOperands& operands) {
  const RadialForm form = ops::table_gradient_form(operands.node());
  std::vector<double> sums(static_cast<size_t>(form.points * form.width));
  for_each_gradient(operands, form, [&](double distance, const std::vector<double>& gradient) {
    const ops::TableCell cell = ops::table_cell(form.points, distance * ops::table_density(form));
    for (size_t k = 0; k < cell.share.size(); ++k)
      for (size_t f = 0; f < gradient.size(); ++f)
        sums[(static_cast<size_t>(cell.first) + k) * gradient.size() + f] += cell.share[k] * gradient[f];
  });
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

void network_filter_sum(const ReferenceOperands& operands) {
  const RadialForm form = ops::network_filter_form(operands.node());
  Network network(operands, form, 4);
  const bool keeps = operands.node().outputs.size() > 1;
  for (int64_t i = 0; keeps && i < form.batch * form.pairs * form.width; ++i) operands.set(1, i, 0);
  sum_pairs(operands, form, [&](int64_t place, double distance, std::vector<double>& values) {
    network.at(distance);
    for (int64_t f = 0; f < form.width; ++f) {
      double value = operands.get(7, f);
      for (int64_t h = 0; h < form.hidden; ++h)
        value += operands.get(6, f * form.hidden + h) * network.hidden[static_cast<size_t>(h)];
      values[static_cast<size_t>(f)] = value * network.envelope;
      if (keeps) operands.set(1, place * form.width + f, values[static_cast<size_t>(f)]);
    }
  });
}

void pair_filter_sum(const ReferenceOperands& operands) {
  const RadialForm form = ops::pair_filter_form(operands.node());
  sum_pairs(operands, form, [&](int64_t place, double /*distance*/, std::vector<double>& values) {
    for (int64_t f = 0; f < form.width; ++f) values[static_cast<size_t>(f)] = operands.get(4, place * form.width + f);
  });
}

void network_filter_gradient(const ReferenceOperands& operands) {
  const RadialForm form = ops::network_gradient_form(operands.node());
  Network network(operands, form, 5);
  const auto hidden = static_cast<size_t>(form.hidden), gaussians = static_cast<size_t>(form.gaussians);
  std::vector<double> w1(hidden * gaussians), b1(hidden), w2(static_cast<size_t>(form.width) * hidden),
      b2(static_cast<size_t>(form.width));
  for_each_gradient(operands, form, [&](double distance, const std::vector<double>& gradient) {
    network.at(distance);
    std::vector<double> of_hidden(hidden);
    for (size_t f = 0; f < gradient.size(); ++f) {
      const double g = gradient[f] * network.envelope;
      b2[f] += g;
      for (size_t h = 0; h < hidden; ++h) {
        w2[f * hidden + h] += g * network.hidden[h];
        of_hidden[h] += g * operands.get(7, static_cast<int64_t>(f * hidden + h));
      }
    }
    for (size_t h = 0; h < hidden; ++h) {
      const double g = of_hidden[h] * network.slope[h];
      b1[h] += g;
      for (size_t k = 0; k < gaussians; ++k) w1[h * gaussians + k] += g * network.basis[k];
    }
  });
  const std::vector<double>* const sums[] = {&w1, &b1, &w2, &b2};
  for (int output = 0; output < 4; ++output)
    for (size_t i = 0; i < sums[output]->size(); ++i) operands.set(output, static_cast<int64_t>(i), (*sums[output])[i]);
}

}  // namespace

void add_reference_radial(Backend& backend) {
  add_reference(backend, "table_filter_sum", table_filter_sum);
  add_reference(backend, "table_filter_gradient", table_filter_gradient);
  add_reference(backend, "network_filter_sum", network_filter_sum);
  add_reference(backend, "pair_filter_sum", pair_filter_sum);
  add_reference(backend, "network_filter_gradient", network_filter_gradient);
}

}  // namespace ramet::kernel

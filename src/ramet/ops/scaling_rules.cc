#include "ramet/ops/scaling_rules.h"

#include <algorithm>
#include <cmath>

namespace ramet::ops {
namespace {

/// Weights of the normal density on a grid: the trapezoid rule, which is exact to many digits for smooth functions.
struct Grid {
  static constexpr int kHalf = 48;
  static constexpr double kStep = 0.125;  // to 6 deviations
  double weight[2 * kHalf + 1];
  Grid() {
    double sum = 0;
    for (int i = -kHalf; i <= kHalf; ++i) sum += weight[i + kHalf] = std::exp(-0.5 * point(i) * point(i));
    for (double& each : weight) each /= sum;
  }
  static double point(int i) { return i * kStep; }
};

const Grid& grid() {
  static const Grid the_grid;
  return the_grid;
}

double mean_square(const std::function<double(double)>& f, double rms) {
  double sum = 0;
  for (int i = -Grid::kHalf; i <= Grid::kHalf; ++i) {
    const double value = f(rms * Grid::point(i));
    sum += grid().weight[i + Grid::kHalf] * value * value;
  }
  return sum;
}

/// E[f(x) f(y)] for x and y with correlation `likeness`.
double mean_product(const std::function<double(double)>& f, double rms, double likeness) {
  if (likeness >= 1) return mean_square(f, rms);
  // y = likeness x + rest z; f on a fine table, as it is asked for 97 x 97 times.
  constexpr int kFine = 8;
  constexpr int kReach = 2 * Grid::kHalf * kFine;
  std::vector<double> table(2 * kReach + 1);
  for (int i = -kReach; i <= kReach; ++i) table[static_cast<size_t>(i + kReach)] = f(rms * Grid::kStep / kFine * i);
  const double rest = std::sqrt(1 - likeness * likeness);
  double sum = 0;
  for (int i = -Grid::kHalf; i <= Grid::kHalf; ++i) {
    double inner = 0;
    for (int j = -Grid::kHalf; j <= Grid::kHalf; ++j) {
      const double y = (likeness * Grid::point(i) + rest * Grid::point(j)) * kFine / Grid::kStep + kReach;
      inner += grid().weight[j + Grid::kHalf] * table[static_cast<size_t>(y + 0.5)];
    }
    sum += grid().weight[i + Grid::kHalf] * inner * f(rms * Grid::point(i));
  }
  return sum;
}

std::vector<Amplitude> same_gradients(const ScalingContext& context, std::span<const Amplitude> gradients) {
  std::vector<Amplitude> result(context.inputs.size(), Amplitude{.rms = 0});
  result[0] = gradients[0];
  return result;
}

}  // namespace

double same_word(int64_t rows) {
  double sum = 0, squares = 0;
  const int64_t listed = std::min<int64_t>(rows, 1000);
  for (int64_t n = 1; n <= listed; ++n) {
    const double share = 1.0 / static_cast<double>(n);
    sum += share, squares += share * share;
  }
  if (rows > listed) sum += std::log((static_cast<double>(rows) + 0.5) / (static_cast<double>(listed) + 0.5));
  return rows < 1 ? 1 : squares / (sum * sum);
}

Amplitude scaled(Amplitude spread, double factor) {
  spread.rms *= std::fabs(factor);
  return spread;
}

Amplitude exact_spread() {
  Amplitude spread{.in_sample = 1, .across = 1};
  spread.exact = true;
  return spread;
}

int64_t rows_of(const Shape& shape) {
  return shape.rank() == 0 || shape.dim(-1) == 0 ? 1 : shape.elements() / shape.dim(-1);
}

Amplitude summed_over_rows(const Amplitude& spread, int64_t rows, int64_t samples) {
  const auto count = static_cast<double>(std::max<int64_t>(1, rows));
  const double of_sample = std::max(1.0, count / static_cast<double>(std::max<int64_t>(1, samples)));
  const double square =
      count * std::max(0.0, 1 + (of_sample - 1) * spread.in_sample + (count - of_sample) * spread.across);
  Amplitude result;
  result.rms = spread.rms * std::sqrt(square);
  return result;
}

Amplitude broadcast_spread(Amplitude spread, const Shape& from, const Shape& to, int64_t samples) {
  if (from.elements() == to.elements() || from.elements() == 0) return spread;
  const int64_t rows = std::max<int64_t>(1, rows_of(to) * from.elements() / std::max<int64_t>(1, to.elements()));
  if (rows == 1 || from.rank() == 0) {
    spread.in_sample = spread.across = 1;
    return spread;
  }
  const double again = 1 / static_cast<double>(rows);
  const double of_copies = spread.in_sample + (1 - spread.in_sample) * again;
  // Copies of a sample's rows for each sample, or of each row within a sample.
  if (rows_of(to) / rows == samples)
    spread.across = of_copies;
  else
    spread.in_sample = spread.across = of_copies;
  return spread;
}

Amplitude unbroadcast_spread(const Amplitude& spread, const Shape& from, const Shape& to, int64_t samples) {
  if (to.elements() == 0 || from.elements() <= to.elements()) return spread;
  const int64_t summed = from.elements() / to.elements();
  if (rows_of(from) / std::max<int64_t>(1, rows_of(to)) == samples && rows_of(to) > 1) {
    // Over samples alone.
    const auto count = static_cast<double>(samples);
    Amplitude result = spread;
    result.rms *= std::sqrt(count * (1 + (count - 1) * spread.across));
    return result;
  }
  return summed_over_rows(spread, summed, samples);
}

Amplitude product_spread(const Amplitude& a, const Amplitude& b) {
  Amplitude result;
  result.rms = a.rms * b.rms;
  result.in_sample = a.in_sample * b.in_sample;
  result.across = a.across * b.across;
  result.weight = std::min(a.weight, b.weight);
  return result;
}

FunctionSpread function_spread(const std::function<double(double)>& f, const Amplitude& input) {
  const double square = mean_square(f, input.rms);
  if (!(square > 0)) return {0, 0, 0};
  const auto likeness = [&](double of_input) {
    return std::clamp(mean_product(f, input.rms, std::clamp(of_input, -1.0, 1.0)) / square, 0.0, 1.0);
  };
  return {std::sqrt(square), likeness(input.in_sample), likeness(input.across)};
}

ScalingRule passing_rule() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) { return std::vector{context.inputs[0]}; };
  rule.backward = same_gradients;
  rule.passes = true;
  return rule;
}

ScalingRule part_rule() {
  ScalingRule rule;
  rule.part = true;
  const auto part = [](const TensorType& of, const TensorType& in) {
    return static_cast<double>(of.elements()) / static_cast<double>(std::max<int64_t>(1, in.elements()));
  };
  // Rows of zeros are like no other row.
  const auto among_zeros = [](Amplitude spread, double share) {
    spread.rms *= std::sqrt(share);
    spread.in_sample *= share, spread.across *= share;
    return spread;
  };
  rule.forward = [=](const ScalingContext& context) {
    const double share = part(context.node.inputs[0], context.node.outputs[0]);
    return std::vector{share < 1 ? among_zeros(context.inputs[0], share) : context.inputs[0]};
  };
  rule.backward = [=](const ScalingContext& context, std::span<const Amplitude> gradients) {
    const double share = part(context.node.outputs[0], context.node.inputs[0]);
    return std::vector{share < 1 ? among_zeros(gradients[0], share) : gradients[0]};
  };
  return rule;
}

namespace {

/// Of all parts together.
Amplitude joined(std::span<const Amplitude> spreads, const std::vector<TensorType>& types) {
  Amplitude result{.rms = 0, .weight = 0};
  double squares = 0, elements = 0, in_sample = 0, across = 0;
  for (size_t i = 0; i < spreads.size(); ++i) {
    const auto count = static_cast<double>(types[i].elements());
    const double square = count * spreads[i].rms * spreads[i].rms;
    squares += square, elements += count;
    in_sample += square * spreads[i].in_sample, across += square * spreads[i].across;
    result.weight = std::max(result.weight, spreads[i].weight);
  }
  if (elements > 0) result.rms = std::sqrt(squares / elements);
  if (squares > 0) result.in_sample = in_sample / squares, result.across = across / squares;
  return result;
}

}  // namespace

ScalingRule joining_rule() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) { return std::vector{joined(context.inputs, context.node.inputs)}; };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    return std::vector<Amplitude>(context.inputs.size(), gradients[0]);
  };
  return rule;
}

ScalingRule splitting_rule() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    return std::vector<Amplitude>(context.node.outputs.size(), context.inputs[0]);
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    return std::vector{joined(gradients, context.node.outputs)};
  };
  return rule;
}

ScalingRule broadcasting_rule() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    return std::vector{broadcast_spread(context.inputs[0], context.node.inputs[0].shape, context.node.outputs[0].shape,
                                        context.samples)};
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    return std::vector{
        unbroadcast_spread(gradients[0], context.node.outputs[0].shape, context.node.inputs[0].shape, context.samples)};
  };
  return rule;
}

ScalingRule reducing_rule() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    const int64_t summed = context.node.inputs[0].elements() / std::max<int64_t>(1, context.node.outputs[0].elements());
    return std::vector{scaled(context.inputs[0], std::sqrt(static_cast<double>(std::max<int64_t>(1, summed))))};
  };
  rule.backward = [](const ScalingContext&, std::span<const Amplitude> gradients) { return std::vector{gradients[0]}; };
  return rule;
}

ScalingRule constant_rule(std::function<double(const NodeSignature&)> size) {
  ScalingRule rule;
  rule.forward = [size = std::move(size)](const ScalingContext& context) {
    return std::vector{scaled(exact_spread(), size(context.node))};
  };
  return rule;
}

ScalingRule function_rule(std::function<double(double)> f, std::function<double(double)> slope) {
  ScalingRule rule;
  rule.forward = [f = std::move(f)](const ScalingContext& context) {
    const FunctionSpread of = function_spread(f, context.inputs[0]);
    Amplitude result = context.inputs[0];
    result.rms = of.rms, result.in_sample = of.in_sample, result.across = of.across;
    result.parameter = false;
    return std::vector{result};
  };
  rule.backward = [slope = std::move(slope)](const ScalingContext& context, std::span<const Amplitude> gradients) {
    const FunctionSpread of = function_spread(slope, context.inputs[0]);
    Amplitude local;
    local.rms = of.rms, local.in_sample = of.in_sample, local.across = of.across;
    return std::vector{product_spread(gradients[0], local)};
  };
  return rule;
}

ScalingRule sum_rule() {
  ScalingRule rule;
  rule.sum = true;
  rule.forward = [](const ScalingContext& context) {
    Amplitude sum{.rms = 0};
    double squares = 0, in_sample = 0, across = 0;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      const Amplitude part = broadcast_spread(context.inputs[i], context.node.inputs[i].shape,
                                              context.node.outputs[0].shape, context.samples);
      const double square = part.rms * part.rms;
      squares += square, in_sample += square * part.in_sample, across += square * part.across;
    }
    sum.rms = std::sqrt(squares);
    if (squares > 0) sum.in_sample = in_sample / squares, sum.across = across / squares;
    return std::vector{sum};
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    std::vector<Amplitude> result;
    for (const TensorType& input : context.node.inputs)
      result.push_back(unbroadcast_spread(gradients[0], context.node.outputs[0].shape, input.shape, context.samples));
    return result;
  };
  return rule;
}

ScalingRule multiply_rule() {
  ScalingRule rule;
  const auto whole = [](const ScalingContext& context, size_t i) {
    return broadcast_spread(context.inputs[i], context.node.inputs[i].shape, context.node.outputs[0].shape,
                            context.samples);
  };
  rule.forward = [whole](const ScalingContext& context) {
    return std::vector{product_spread(whole(context, 0), whole(context, 1))};
  };
  rule.backward = [whole](const ScalingContext& context, std::span<const Amplitude> gradients) {
    std::vector<Amplitude> result;
    for (size_t i = 0; i < 2; ++i)
      result.push_back(unbroadcast_spread(product_spread(gradients[0], whole(context, 1 - i)),
                                          context.node.outputs[0].shape, context.node.inputs[i].shape,
                                          context.samples));
    return result;
  };
  return rule;
}

ScalingRule norm_scaling() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    std::vector<Amplitude> result(context.node.outputs.size(), exact_spread());
    result[0] = context.inputs[0];
    result[0].parameter = result[0].exact = false;
    result[0].weight = 1;
    // The norm takes any scale away; the gain (and the bias) make a new one.
    const double bias = context.inputs.size() > 2 ? context.inputs[2].rms : 0;
    result[0].rms = std::hypot(context.inputs[1].rms, bias);
    return result;
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    const Amplitude &a = context.inputs[0], &g = gradients[0];
    const int64_t rows = rows_of(context.node.inputs[0].shape);
    std::vector<Amplitude> result{scaled(g, a.rms > 0 ? context.inputs[1].rms / a.rms : 1)};
    Amplitude normed = a;
    normed.rms = 1;
    result.push_back(summed_over_rows(product_spread(g, normed), rows, context.samples));
    if (context.inputs.size() > 2) result.push_back(summed_over_rows(g, rows, context.samples));
    return result;
  };
  return rule;
}

ScalingRule exact_rule() {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    return std::vector<Amplitude>(context.node.outputs.size(), exact_spread());
  };
  return rule;
}

}  // namespace ramet::ops

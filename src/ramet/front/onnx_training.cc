// The optimizers of ai.onnx.preview.training, as plain arithmetic.
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// Input `which` of the groups of tensors behind the rate and the step: weights, gradients, states.
struct Groups {
  std::vector<std::vector<Tensor>> of;
  size_t count = 0;
};
Groups groups_of(const OnnxCall& at, size_t number) {
  const std::vector<Tensor> all = at.all_inputs(2);
  if (all.empty() || all.size() % number != 0) at.refuse("the operands are no groups of weights, gradients and states");
  Groups made;
  made.count = all.size() / number;
  for (size_t g = 0; g < number; ++g)
    made.of.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(g * made.count),
                         all.begin() + static_cast<std::ptrdiff_t>((g + 1) * made.count));
  return made;
}
Tensor regularized(const OnnxCall& at, Tensor weight, Tensor gradient) {
  return add(scale(weight, at.number("norm_coefficient", 0)), gradient);
}
Tensor rate_of(const OnnxCall& at, Tensor like) { return in_type(reshape(at.input(0), {}), like.dtype()); }
Tensor step_of(const OnnxCall& at, Tensor like) { return in_type(reshape(at.input(1), {}), like.dtype()); }
Values joined(const std::vector<std::vector<Tensor>>& lists) {
  Values made;
  for (const auto& list : lists) made.insert(made.end(), list.begin(), list.end());
  return made;
}

Values adagrad(const OnnxCall& at) {
  const Groups groups = groups_of(at, 3);
  std::vector<Tensor> weights, squares;
  for (size_t i = 0; i < groups.count; ++i) {
    const Tensor x = groups.of[0][i], g = regularized(at, x, groups.of[1][i]);
    const Tensor rate = divide(rate_of(at, x), add_scalar(scale(step_of(at, x), at.number("decay_factor", 0)), 1));
    squares.push_back(add(groups.of[2][i], multiply(g, g)));
    const Tensor size = add_scalar(ops::sqrt(squares.back()), at.number("epsilon", 0));
    weights.push_back(subtract(x, divide(multiply(rate, g), size)));
  }
  return joined({weights, squares});
}

Values momentum(const OnnxCall& at) {
  const Groups groups = groups_of(at, 3);
  const double alpha = at.number("alpha"), beta = at.number("beta");
  const bool nesterov = at.text("mode") == "nesterov";
  std::vector<Tensor> weights, moments;
  for (size_t i = 0; i < groups.count; ++i) {
    const Tensor x = groups.of[0][i], g = regularized(at, x, groups.of[1][i]);
    const Tensor first = less(at.full(x.dtype(), {}, 0), step_of(at, x));
    const Tensor factor = select(first, at.full(x.dtype(), {}, beta), at.full(x.dtype(), {}, 1));
    moments.push_back(add(scale(groups.of[2][i], alpha), multiply(factor, g)));
    const Tensor direction = nesterov ? add(g, scale(moments.back(), alpha)) : moments.back();
    weights.push_back(subtract(x, multiply(rate_of(at, x), direction)));
  }
  return joined({weights, moments});
}

Values adam(const OnnxCall& at) {
  const Groups groups = groups_of(at, 4);
  const double alpha = at.number("alpha", 0.9), beta = at.number("beta", 0.999);
  std::vector<Tensor> weights, moments, squares;
  for (size_t i = 0; i < groups.count; ++i) {
    const Tensor x = groups.of[0][i], g = regularized(at, x, groups.of[1][i]);
    moments.push_back(add(scale(groups.of[2][i], alpha), scale(g, 1 - alpha)));
    squares.push_back(add(scale(groups.of[3][i], beta), scale(multiply(g, g), 1 - beta)));
    const Tensor step = step_of(at, x), one = at.full(x.dtype(), {}, 1), rate = rate_of(at, x);
    const auto rest = [&](double base) { return subtract(one, power(at.full(x.dtype(), {}, base), step)); };
    const Tensor behind = less(at.full(x.dtype(), {}, 0), step);
    // Before the first step nothing is corrected.
    const Tensor corrected = divide(multiply(rate, ops::sqrt(rest(beta))), select(behind, rest(alpha), one));
    const Tensor used = select(behind, corrected, rate);
    const Tensor next = subtract(
        x, divide(multiply(used, moments.back()), add_scalar(ops::sqrt(squares.back()), at.number("epsilon", 0))));
    weights.push_back(scale(next, 1 - at.number("norm_coefficient_post", 0)));
  }
  return joined({weights, moments, squares});
}

constexpr OnnxEntry kEntries[] = {
    {"ai.onnx.preview.training.Adagrad", adagrad},
    {"ai.onnx.preview.training.Adam", adam},
    {"ai.onnx.preview.training.Momentum", momentum},
};

}  // namespace

std::span<const OnnxEntry> onnx_training_operators() { return kEntries; }

}  // namespace ramet::front

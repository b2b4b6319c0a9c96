#include "ramet/ops/exact_sum.h"
#include "ramet/ops/build.h"
#include "ramet/ops/optimizer_rules.h"

// Lion, LARS and Adafactor, by the rules of ops/optimizer.cc.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

OpDef state_op(std::string name, std::string doc, int min_inputs, int max_inputs, std::vector<AttributeSpec> attributes) {
  OpDef op = update_op(std::move(name), std::move(doc), min_inputs, max_inputs);
  op.attributes = std::move(attributes);
  return op;
}

std::vector<TensorType> infer_lion(const NodeSignature& node) {
  rate_attribute(node, "beta1", 0, 1);
  rate_attribute(node, "beta2", 0, 1);
  check_decay(node);
  check_update(node, {"w", "g", "m"}, {"lr", "grad_scale"});
  return {node.inputs[0], node.inputs[2]};
}

std::vector<TensorType> infer_lars(const NodeSignature& node) {
  check_decay(node);
  rate_attribute(node, "trust_coefficient", 0, 1e30);
  rate_attribute(node, "norm_cap", 0, 1e31);
  if (rate_attribute(node, "momentum", 0, 1) == 0) {
    check_update(node, {"w", "g"}, {"sum_squares_w", "sum_squares_g", "lr", "grad_scale"});
    return {node.inputs[0]};
  }
  check_update(node, {"w", "g", "momentum"}, {"sum_squares_w", "sum_squares_g", "lr", "grad_scale"});
  return {node.inputs[0], node.inputs[2]};
}

std::vector<TensorType> infer_moving_average(const NodeSignature& node) {
  check_update(node, {"a", "value"}, {"decay", "grad_scale"});
  return {node.inputs[0]};
}

std::vector<TensorType> infer_adafactor_apply(const NodeSignature& node) {
  check_decay(node);
  rate_attribute(node, "clip_threshold", 0, 1e31);
  rate_attribute(node, "scale_epsilon", 0, 1e30);
  if (node.attributes.get_int("elements") < 0)
    refuse(node, "elements is out of range", std::to_string(node.attributes.get_int("elements")), "0 or more");
  if (rate_attribute(node, "beta1", 0, 1) == 0) {
    check_update(node, {"w", "u"}, {"sum_squares_u", "sum_squares_w", "lr", "grad_scale"});
    return {node.inputs[0]};
  }
  check_update(node, {"w", "u", "m"}, {"sum_squares_u", "sum_squares_w", "lr", "grad_scale"});
  return {node.inputs[0], node.inputs[2]};
}

}  // namespace

void register_large_batch_optimizer_ops(OpRegistry& registry) {
  OpDef lion = state_op("lion",
                        "(w, g, m, lr, grad_scale) -> w', m': w' = (1 - lr weight_decay) w - lr sign(beta1 m + (1 - "
                        "beta1) d), m' = m + (1 - beta2)(d - m), d = grad_scale g (Chen et al., arXiv 2302.06675)",
                        5, 5,
                        {{"beta1", Kind::kFloat, true, "share of m in the step"},
                         {"beta2", Kind::kFloat, true, "decay of m"},
                         {"weight_decay", Kind::kFloat, true, "strength of the decay towards 0"}});
  lion.infer = infer_lion;
  lion.cost = flops_each(9);
  registry.add(std::move(lion));

  OpDef lars = state_op("lars",
                        "(w, g, momentum, sum_squares_w, sum_squares_g, lr, grad_scale) -> w', momentum': momentum' = "
                        "momentum attribute * momentum + lr ratio (grad_scale g + weight_decay w), w' = w - momentum', "
                        "ratio = trust_coefficient |w| / (grad_scale |g| + weight_decay |w|), 1 when a norm is 0 or the "
                        "coefficient is; without momentum (w, g, ...) -> w' (You et al., arXiv 1708.03888)",
                        6, 7,
                        {{"momentum", Kind::kFloat, true, "share of the last step that is kept; 0: no state"},
                         {"weight_decay", Kind::kFloat, true, "added to the gradient, times w"},
                         {"trust_coefficient", Kind::kFloat, true, "factor on the ratio; 0: no ratio"},
                         {"norm_cap", Kind::kFloat, true, "most that |w| counts; 0: no limit"}});
  lars.infer = infer_lars;
  lars.cost = flops_each(6);
  registry.add(std::move(lars));

  OpDef average = state_op("moving_average",
                           "(a, value, decay, grad_scale) -> a + (1 - decay)(value - a); a when grad_scale is not finite",
                           4, 4, {});
  average.infer = infer_moving_average;
  average.cost = flops_each(3);
  registry.add(std::move(average));

  OpDef apply = state_op(
      "adafactor_apply",
      "(w, u, m, sum_squares_u, sum_squares_w, lr, grad_scale) -> w', m': a = lr max(scale_epsilon, RMS(w)) (scale_epsilon "
      "0: lr), s = a u / max(1, RMS(u) / clip_threshold), m' = beta1 m + (1 - beta1) s, w' = (1 - a weight_decay) w - m'; "
      "without beta1 (w, u, ...) -> w' with s for m' (Shazeer and Stern, arXiv 1804.04235, algorithms 4 and 6)",
      6, 7,
      {{"beta1", Kind::kFloat, true, "decay of m; 0: no state"},
       {"weight_decay", Kind::kFloat, true, "strength of the decay towards 0"},
       {"clip_threshold", Kind::kFloat, true, "largest RMS of a step; 0: no limit"},
       {"scale_epsilon", Kind::kFloat, true, "least RMS of w that counts; 0: rates do not follow RMS(w)"},
       {"elements", Kind::kInt, true, "of the whole weight: what RMS are means over"}});
  apply.infer = infer_adafactor_apply;
  apply.cost = flops_each(5);
  registry.add(std::move(apply));
}

LionResult lion(Tensor weight, Tensor gradient, Tensor m, Tensor rate, Tensor grad_scale, const LionOptions& options) {
  Attributes attributes{
      {"beta1", options.beta1}, {"beta2", options.beta2}, {"weight_decay", options.weight_decay}};
  const auto outputs = weight.builder->ops("lion", {weight, gradient, m, rate, grad_scale}, std::move(attributes));
  return {outputs[0], outputs[1]};
}

SgdResult lars(Tensor weight, Tensor gradient, Tensor momentum, Tensor rate, Tensor grad_scale,
               const LarsOptions& options) {
  Attributes attributes{{"momentum", options.momentum},
                        {"weight_decay", options.weight_decay},
                        {"trust_coefficient", options.trust_coefficient},
                        {"norm_cap", options.norm_cap}};
  const bool adapts = options.trust_coefficient > 0;
  const auto squares = [&](Tensor a) {
    return adapts ? from_exact(sum_squares(a)) : full(*weight.builder, DType::kF32, {}, 0);
  };
  std::vector<Tensor> inputs{weight, gradient};
  if (options.momentum != 0) inputs.push_back(momentum);
  inputs.insert(inputs.end(), {squares(weight), squares(gradient), rate, grad_scale});
  const auto outputs = weight.builder->ops("lars", inputs, std::move(attributes));
  return {outputs[0], options.momentum != 0 ? outputs[1] : Tensor{}};
}

AdafactorResult adafactor(Tensor weight, Tensor gradient, const AdafactorStates& states, Tensor rate, Tensor decay,
                          Tensor grad_scale, const AdafactorOptions& options) {
  GraphBuilder& build = *weight.builder;
  AdafactorResult result;
  const auto average = [&](Tensor state, Tensor value) {
    return build.op("moving_average", {state, value, decay, grad_scale});
  };
  const Tensor d = multiply(gradient.dtype() == DType::kF32 ? gradient : cast(gradient, DType::kF32), grad_scale);
  const auto squares = [&] { return add_scalar(multiply(d, d), options.square_epsilon); };
  Tensor u;
  if (states.row.valid()) {
    const int64_t rows = weight.dim(0), columns = weight.dim(1), real = options.rows > 0 ? options.rows : rows;
    const auto mean = [&](Tensor a, int64_t axis, int64_t count) {
      return scale(reduce_sum(a, {axis}), 1 / static_cast<double>(count));
    };
    result.row = average(states.row, mean(squares(), 1, columns));
    result.column = average(states.column, mean(squares(), 0, real));
    const Tensor of_rows = rsqrt(divide(result.row, mean(result.row, 0, real)));
    u = multiply(multiply(d, reshape(of_rows, {rows, 1})), rsqrt(result.column));
  } else {
    result.square = average(states.square, squares());
    u = multiply(d, rsqrt(result.square));
  }
  Attributes attributes{{"beta1", options.beta1},
                        {"weight_decay", options.weight_decay},
                        {"clip_threshold", options.clip_threshold},
                        {"scale_epsilon", options.scale_epsilon},
                        {"elements", options.elements > 0 ? options.elements : weight.shape().elements()}};
  std::vector<Tensor> inputs{weight, u};
  if (options.beta1 != 0) inputs.push_back(states.m);
  inputs.insert(inputs.end(), {from_exact(sum_squares(u)), from_exact(sum_squares(weight)), rate, grad_scale});
  const auto outputs = build.ops("adafactor_apply", inputs, std::move(attributes));
  result.weight = outputs[0];
  if (options.beta1 != 0) result.m = outputs[1];
  return result;
}

}  // namespace ramet::ops

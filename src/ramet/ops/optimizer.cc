#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_sparse.h"
#include "ramet/ops/exact_sum.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/optimizer_rules.h"
#include "ramet/ops/rounding.h"

// Optimizers are functions of states; kernels may write a state over the one it comes from. They share one rule: when
// grad_scale is not finite, every state comes out unchanged. So a step whose gradients hold a NaN or an infinity
// changes no weight: the norm of the gradients is then not finite, and neither is grad_scale. g is multiplied by
// grad_scale before use.
//
// Weights, gradients and moments may be of any floating type: all arithmetic is f32, and outputs are rounded to the
// type of the state that they replace, by ops/rounding.h, moments of f16 in their own scale. With the attribute `split`
// the weight w is bf16 and its low half u16 (base/rounding.h) follows the scalars as a further input, and comes out
// behind the other outputs: an f32 weight in two halves. The counter of stochastic rounding is the last input.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

/// The outputs, and the low half of the weight behind them.
std::vector<TensorType> with_low(const NodeSignature& node, std::vector<TensorType> outputs) {
  if (is_split(node)) outputs.push_back({DType::kU16, node.inputs[0].shape});
  return outputs;
}

void check_adam_attributes(const NodeSignature& node) {
  rate_attribute(node, "beta1", 0, 1);
  rate_attribute(node, "beta2", 0, 1);
  rate_attribute(node, "epsilon", 0, 1e30);
  check_decay(node);
}

std::vector<TensorType> infer_sum_squares(const NodeSignature& node) {
  require_floating(node, 0, "a");
  return {exact_type()};
}

std::vector<TensorType> infer_exact_sum(const NodeSignature& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) require_type(node, static_cast<int>(i), "a sum", exact_type());
  return {exact_type()};
}

std::vector<TensorType> infer_from_exact(const NodeSignature& node) {
  require_type(node, 0, "a sum", exact_type());
  return {scalar_f32()};
}

std::vector<TensorType> infer_sgd(const NodeSignature& node) {
  check_decay(node);
  if (rate_attribute(node, "momentum", 0, 1) == 0) {
    check_update(node, {"w", "g"}, {"lr", "grad_scale"});
    if (node.attributes.get_bool_or("nesterov", false))
      refuse(node, "nesterov needs momentum", "momentum=0.0", "0 < momentum < 1");
    return with_low(node, {node.inputs[0]});
  }
  check_update(node, {"w", "g", "momentum"}, {"lr", "grad_scale"});
  return with_low(node, {node.inputs[0], node.inputs[2]});
}

std::vector<TensorType> infer_adam(const NodeSignature& node) {
  check_adam_attributes(node);
  if (node.attributes.get_bool_or("own_steps", false)) {
    // Kernels have a table of corrections, up to the one that is 1 in f32.
    for (const char* beta : {"beta1", "beta2"}) rate_attribute(node, beta, 0, 0.99999);
    check_update(node, {"w", "g", "m", "v", "birth"}, {"lr", "updates", "grad_scale"});
    require_dtype(node, 4, "birth", {DType::kF32});
  } else {
    check_update(node, {"w", "g", "m", "v"}, {"lr", "correction1", "correction2", "grad_scale"});
  }
  return with_low(node, {node.inputs[0], node.inputs[2], node.inputs[3]});
}

std::vector<TensorType> infer_lamb_direction(const NodeSignature& node) {
  check_adam_attributes(node);
  check_update(node, {"w", "g", "m", "v"}, {"correction1", "correction2", "grad_scale"});
  return {node.inputs[2], node.inputs[3], {DType::kF32, node.inputs[0].shape}, exact_type(), exact_type()};
}

std::vector<TensorType> infer_lamb_apply(const NodeSignature& node) {
  check_update(node, {"w", "u"}, {"sum_squares_u", "sum_squares_w", "lr", "grad_scale"});
  return with_low(node, {node.inputs[0]});
}

/// Sums of sums: nothing may be split.
ShardingRule exact_sharding(const NodeSignature& node) {
  std::string text;
  for (size_t i = 0; i < node.inputs.size(); ++i) text += text.empty() ? "[!k]" : ",[!k]";
  return ShardingRule::parse("(" + text + ")->" + (node.outputs[0].shape.rank() ? "[!k]" : "[]"), node,
                             ShardingRule::Reduce::kNone);
}

std::vector<AttributeSpec> adam_attributes() {
  return {{"beta1", Kind::kFloat, true, "decay of the first moment"},
          {"beta2", Kind::kFloat, true, "decay of the second moment"},
          {"epsilon", Kind::kFloat, true, "added to the root of the second moment"},
          {"weight_decay", Kind::kFloat, true, "strength of the decay towards 0"}};
}

/// An op that changes states: `inputs` without the low half and the counter.
OpDef state_op(std::string name, std::string doc, int min_inputs, int inputs, std::vector<AttributeSpec> attributes) {
  OpDef op = update_op(std::move(name), std::move(doc), min_inputs, inputs + 2);
  op.attributes = std::move(attributes);
  op.attributes.push_back({"split", Kind::kBool, false, "w is the high half of an f32 weight"});
  for (AttributeSpec& spec : rounding_attributes()) op.attributes.push_back(std::move(spec));
  op.positional = 0;
  return op;
}

}  // namespace

void register_optimizer_ops(OpRegistry& registry) {
  OpDef sum_squares = update_op("sum_squares",
                                "sum of a^2 without rounding -> i64[21], an accumulator of ops/exact_sum.h; has no "
                                "gradient: in a loss, write reduce_sum(multiply(a, a))",
                                1, 1);
  sum_squares.infer = infer_sum_squares;
  sum_squares.cost = flops_each(2);
  registry.add(std::move(sum_squares));

  OpDef underflows = update_op("count_underflow",
                               "number of elements of a that are not 0 and less than the smallest normal number of its "
                               "type -> i64[21], an accumulator of ops/exact_sum.h",
                               1, 1);
  underflows.precision = OpDef::Precision::kFollow;
  underflows.infer = infer_sum_squares;
  underflows.cost = flops_each(2);
  registry.add(std::move(underflows));

  OpDef exact_sum =
      update_op("exact_sum", "(a, b, ...), accumulators i64[21] of ops/exact_sum.h -> their sum, carried", 1, -1);
  exact_sum.infer = infer_exact_sum;
  exact_sum.sharding = exact_sharding;
  exact_sum.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  exact_sum.regroups = true;
  registry.add(std::move(exact_sum));

  OpDef from_exact = update_op("from_exact", "accumulator i64[21] of ops/exact_sum.h -> f32[], rounded once", 1, 1);
  from_exact.infer = infer_from_exact;
  from_exact.sharding = exact_sharding;
  from_exact.cost = [](const NodeSignature& node) { return streaming_cost(node, 1); };
  registry.add(std::move(from_exact));

  OpDef sgd =
      state_op("sgd",
               "(w, g, momentum, lr, grad_scale): d = grad_scale g + weight_decay w; momentum' = momentum "
               "attribute * momentum + d; w' = w - lr momentum' (nesterov: w - lr (d + attribute * momentum')); "
               "without momentum: (w, g, lr, grad_scale) -> w'",
               4, 5,
               {{"momentum", Kind::kFloat, true, "share of the last direction that is kept; 0: no state"},
                {"weight_decay", Kind::kFloat, true, "added to the gradient, times w"},
                {"nesterov", Kind::kBool, false, "look ahead by one step"}});
  sgd.infer = infer_sgd;
  sgd.cost = flops_each(7);
  registry.add(std::move(sgd));

  OpDef adam =
      state_op("adam",
               "(w, g, m, v, lr, correction1, correction2, grad_scale) -> w', m', v': m' = m + (1-beta1)(d-m), "
               "v' = beta2 v + (1-beta2) d^2, w' = w - lr (m'/correction1) / (sqrt(v'/correction2) + epsilon), "
               "d = grad_scale g (+ weight_decay w; decoupled: w is first multiplied by 1 - lr weight_decay). With "
               "own_steps (w, g, m, v, birth, lr, updates, grad_scale): the corrections of an element are those after "
               "1 + updates - birth updates",
               8, 8, adam_attributes());
  adam.attributes.push_back({"decoupled", Kind::kBool, true, "weight decay apart from the moments (AdamW)"});
  adam.attributes.push_back({"own_steps", Kind::kBool, false, "each element counts its own steps"});
  adam.infer = infer_adam;
  adam.cost = flops_each(15);
  registry.add(std::move(adam));

  OpDef direction = state_op("lamb_direction",
                             "(w, g, m, v, correction1, correction2, grad_scale) -> m', v' as adam's, u = "
                             "(m'/correction1) / (sqrt(v'/correction2) + epsilon) + weight_decay w, sum_squares of u, "
                             "sum_squares of w; u is 0 when grad_scale is not finite (You et al., arXiv 1904.00962)",
                             7, 7, adam_attributes());
  direction.infer = infer_lamb_direction;
  direction.cost = flops_each(19);
  registry.add(std::move(direction));

  OpDef apply =
      state_op("lamb_apply",
               "(w, u, sum_squares_u, sum_squares_w, lr, grad_scale) -> w - lr |w|/|u| u; the ratio is 1 when "
               "one of the norms is 0",
               6, 6, {});
  apply.infer = infer_lamb_apply;
  apply.cost = flops_each(2);
  registry.add(std::move(apply));
}

Tensor sum_squares(Tensor a) { return a.builder->op("sum_squares", {a}); }

Tensor count_underflow(Tensor a) { return a.builder->op("count_underflow", {a}); }

Tensor exact_sum(const std::vector<Tensor>& sums) { return sums.at(0).builder->ops("exact_sum", sums).at(0); }

Tensor from_exact(Tensor sum) { return sum.builder->op("from_exact", {sum}); }

namespace {

/// The inputs and attributes of how states are held, behind the others. `first`: of the draws' logical tensors.
std::vector<Tensor> hold_states(const StateForm& form, std::vector<Tensor> inputs, Attributes& attributes,
                                uint64_t first = 0) {
  if (form.low.valid()) {
    attributes.set("split", true);
    inputs.push_back(form.low);
  }
  if (form.rounding.counter.valid()) {
    attributes.set("rounding", std::string("stochastic"));
    attributes.set("seed", form.rounding.seed);
    attributes.set("tensor", static_cast<int64_t>(hash64(form.rounding.random_name) + first));
    inputs.push_back(form.rounding.counter);
  }
  return inputs;
}

Attributes attributes_of(const AdamOptions& options) {
  return {{"beta1", options.beta1},
          {"beta2", options.beta2},
          {"epsilon", options.epsilon},
          {"weight_decay", options.weight_decay}};
}

/// The low half among the outputs: the last.
Tensor low_of(const StateForm& form, const std::vector<Tensor>& outputs) {
  return form.low.valid() ? outputs.back() : Tensor{};
}

}  // namespace

SgdResult sgd(Tensor weight, Tensor gradient, Tensor momentum, Tensor rate, Tensor grad_scale,
              const SgdOptions& options, const StateForm& form) {
  Attributes attributes{{"momentum", options.momentum}, {"weight_decay", options.weight_decay}};
  if (options.nesterov) attributes.set("nesterov", true);
  std::vector<Tensor> inputs{weight, gradient};
  if (options.momentum != 0) inputs.push_back(momentum);
  inputs.insert(inputs.end(), {rate, grad_scale});
  inputs = hold_states(form, std::move(inputs), attributes);
  const std::vector<Tensor> outputs = weight.builder->ops("sgd", inputs, std::move(attributes));
  return {outputs[0], options.momentum != 0 ? outputs[1] : Tensor{}, low_of(form, outputs)};
}

AdamResult adam(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamScalars& scalars,
                const AdamOptions& options, const StateForm& form) {
  Attributes attributes = attributes_of(options);
  attributes.set("decoupled", options.decoupled);
  const std::vector<Tensor> inputs = hold_states(
      form, {weight, gradient, m, v, scalars.rate, scalars.correction1, scalars.correction2, scalars.grad_scale},
      attributes);
  const auto outputs = weight.builder->ops("adam", inputs, std::move(attributes));
  return {outputs[0], outputs[1], outputs[2], low_of(form, outputs)};
}

AdamResult adam_by_own_steps(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamOwnSteps& scalars,
                             const AdamOptions& options, const StateForm& form) {
  Attributes attributes = attributes_of(options);
  attributes.set("decoupled", options.decoupled);
  attributes.set("own_steps", true);
  const std::vector<Tensor> inputs = hold_states(
      form, {weight, gradient, m, v, scalars.births, scalars.rate, scalars.updates, scalars.grad_scale}, attributes);
  const auto outputs = weight.builder->ops("adam", inputs, std::move(attributes));
  return {outputs[0], outputs[1], outputs[2], low_of(form, outputs)};
}

AdamResult lamb(Tensor weight, Tensor gradient, Tensor m, Tensor v, const AdamScalars& scalars,
                const AdamOptions& options, const StateForm& form) {
  GraphBuilder& build = *weight.builder;
  Attributes attributes = attributes_of(options), apply_attributes;
  const std::vector<Tensor> inputs = hold_states(
      form, {weight, gradient, m, v, scalars.correction1, scalars.correction2, scalars.grad_scale}, attributes);
  const auto direction = build.ops("lamb_direction", inputs, std::move(attributes));
  Tensor weight_squares = from_exact(direction[4]);
  if (options.norm_cap > 0)
    weight_squares = minimum(weight_squares, full(build, DType::kF32, {}, options.norm_cap * options.norm_cap));
  const std::vector<Tensor> apply_inputs = hold_states(
      form, {weight, direction[2], from_exact(direction[3]), weight_squares, scalars.rate, scalars.grad_scale},
      apply_attributes, 8);
  const auto updated = build.ops("lamb_apply", apply_inputs, std::move(apply_attributes));
  return {updated[0], direction[0], direction[1], low_of(form, updated)};
}

}  // namespace ramet::ops

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

// --- softmax and log-softmax ---

std::vector<TensorType> infer_softmax(const NodeSignature& node) {
  require_floating(node, 0, "a");
  require_rank(node, 0, "a", 1);
  axis_attribute(node, "axis", node.inputs[0].shape.rank());
  return {node.inputs[0]};
}

/// All dimensions are free but the one that is normalised.
ShardingRule softmax_sharding(const NodeSignature& node) {
  const int rank = node.inputs[0].shape.rank();
  const int whole = axis_attribute(node, "axis", rank);
  std::string dims;
  for (int axis = 0; axis < rank; ++axis)
    dims += (axis ? "," : "") + std::string(axis == whole ? "!" : "") + "d" + std::to_string(axis);
  return ShardingRule::parse("([" + dims + "])->[" + dims + "]", node);
}

/// dx = y (dy - sum(y dy)), in f32.
std::vector<Tensor> softmax_gradient(GradientContext& context) {
  const int64_t axis = context.node.attributes.get_int("axis");
  const Tensor y = cast_to(context.outputs[0], DType::kF32);
  const Tensor dy = cast_to(context.output_gradients[0], DType::kF32);
  const Tensor dx = multiply(y, subtract(dy, reduce_sum(multiply(y, dy), {axis}, true)));
  return {cast_to(dx, context.inputs[0].dtype())};
}

/// dx = dy - exp(y) sum(dy), in f32.
std::vector<Tensor> log_softmax_gradient(GradientContext& context) {
  const int64_t axis = context.node.attributes.get_int("axis");
  const Tensor y = cast_to(context.outputs[0], DType::kF32);
  const Tensor dy = cast_to(context.output_gradients[0], DType::kF32);
  const Tensor dx = subtract(dy, multiply(exp(y), reduce_sum(dy, {axis}, true)));
  return {cast_to(dx, context.inputs[0].dtype())};
}

Cost per_element(const NodeSignature& node, double flops) {
  return streaming_cost(node, flops * static_cast<double>(node.inputs[0].elements()));
}

// --- layer norm and RMS norm, over the last dimension ---

Shape without_last(const Shape& shape) { return Shape({shape.dims().begin(), shape.dims().end() - 1}); }

/// Checks the normalised input `a`, the vectors of its width, and the statistics of its rows.
void check_norm(const NodeSignature& node, int a, std::initializer_list<std::pair<int, const char*>> vectors,
                std::initializer_list<std::pair<int, const char*>> statistics) {
  require_floating(node, a, "a");
  require_rank(node, a, "a", 1);
  const Shape& shape = node.inputs[static_cast<size_t>(a)].shape;
  for (const auto& [index, name] : vectors) {
    require_floating(node, index, name);
    require_shape(node, index, name, Shape{shape.dim(-1)});
  }
  for (const auto& [index, name] : statistics) require_type(node, index, name, {DType::kF32, without_last(shape)});
}

void check_epsilon(const NodeSignature& node) {
  const double epsilon = node.attributes.get_float("epsilon");
  if (!std::isfinite(epsilon)) refuse(node, "epsilon is not finite", std::to_string(epsilon), "a number, such as 1e-5");
}

std::vector<TensorType> infer_layer_norm(const NodeSignature& node) {
  check_norm(node, 0, {{1, "gain"}, {2, "bias"}}, {});
  check_epsilon(node);
  const TensorType statistic{DType::kF32, without_last(node.inputs[0].shape)};
  return {node.inputs[0], statistic, statistic};
}

std::vector<TensorType> infer_rms_norm(const NodeSignature& node) {
  check_norm(node, 0, {{1, "gain"}}, {});
  check_epsilon(node);
  return {node.inputs[0], {DType::kF32, without_last(node.inputs[0].shape)}};
}

/// Extent of the dimension of rows that chunks cut: the last but one of `a`.
int64_t rows_extent(const NodeSignature& node) {
  const Shape& shape = node.inputs[1].shape;
  return shape.rank() < 2 ? 0 : shape.dim(-2);
}

void check_chunks(const NodeSignature& node) {
  const int64_t chunks = node.attributes.get_int_or("chunks", 1), extent = rows_extent(node);
  if (chunks < 1 || (chunks > 1 && (extent == 0 || extent % chunks != 0)))
    refuse(node, "chunks must divide the last dimension of rows", "chunks=" + std::to_string(chunks),
           "1, or a divisor of " + std::to_string(extent));
  if (chunks > 1 && node.attributes.get_bool_or("in_order", false))
    refuse(node, "a sum in order has no chunks", "chunks=" + std::to_string(chunks));
}

void require_like_a(const NodeSignature& node) {
  require_floating(node, 0, "dy");
  require_shape(node, 0, "dy", node.inputs[1].shape);
}

std::vector<TensorType> infer_layer_norm_grad(const NodeSignature& node) {
  check_norm(node, 1, {{2, "gain"}}, {{3, "mean"}, {4, "rstd"}});
  require_like_a(node);
  check_chunks(node);
  const TensorType vector{DType::kF32, Shape{node.inputs[1].shape.dim(-1)}};
  return {node.inputs[1], vector, vector};
}

std::vector<TensorType> infer_rms_norm_grad(const NodeSignature& node) {
  check_norm(node, 1, {{2, "gain"}}, {{3, "rstd"}});
  require_like_a(node);
  check_chunks(node);
  return {node.inputs[1], {DType::kF32, Shape{node.inputs[1].shape.dim(-1)}}};
}

/// Refuses gradients of the statistics, which exist for the backward pass alone.
void only_first_output(const GradientContext& context) {
  for (size_t i = 1; i < context.output_gradients.size(); ++i)
    if (context.output_gradients[i].valid())
      refuse(context.node, "output " + std::to_string(i) + " has no gradient", "", "",
             "Compute the statistic with reduce_mean to differentiate through it");
}

std::vector<Tensor> layer_norm_gradient(GradientContext& context) {
  only_first_output(context);
  if (!context.output_gradients[0].valid()) return std::vector<Tensor>(3);
  return context.build.ops("layer_norm_grad",
                           {cast_to(context.output_gradients[0], context.inputs[0].dtype()), context.inputs[0],
                            context.inputs[1], context.outputs[1], context.outputs[2]});
}

std::vector<Tensor> rms_norm_gradient(GradientContext& context) {
  only_first_output(context);
  if (!context.output_gradients[0].valid()) return std::vector<Tensor>(2);
  return context.build.ops("rms_norm_grad", {cast_to(context.output_gradients[0], context.inputs[0].dtype()),
                                             context.inputs[0], context.inputs[1], context.outputs[1]});
}

/// Rows are free, the normalised dimension is whole. `text` has R for the rows' factors, W for the last dimension.
ShardingRule norm_rule(const NodeSignature& node, const std::string& text) {
  const int rows = node.inputs[0].shape.rank() - 1;
  const std::string row_factors = factor_names("r", rows);
  std::string rule;
  for (char letter : text)
    rule += letter == 'R' ? row_factors : letter == 'A' ? row_factors + (rows ? ",!w" : "!w") : std::string(1, letter);
  size_t at;
  while ((at = rule.find('W')) != std::string::npos) rule.replace(at, 1, "!w");
  return ShardingRule::parse(rule, node);
}

/// Gradients of gain and bias sum over rows in one order: rows are whole, but between chunks.
ShardingRule norm_grad_rule(const NodeSignature& node) {
  RuleBuilder rule;
  const Shape& shape = node.inputs[1].shape;
  const int64_t chunks = node.attributes.get_int_or("chunks", 1);
  const auto factor = [&](const std::string& name, int64_t size, bool whole) {
    const int index = rule.factor(size, whole, name == "w" ? ShardingRule::Reduce::kNone : ShardingRule::Reduce::kSum);
    rule.at(index).name = name;
    return index;
  };
  ShardingRule::Operand rows;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) {
    const bool cut = chunks > 1 && axis + 2 == shape.rank();
    rows.emplace_back();
    if (cut) rows.back().push_back(factor("c", chunks, false));
    rows.back().push_back(factor("r" + std::to_string(axis), shape.dim(axis) / (cut ? chunks : 1), true));
  }
  const ShardingRule::Operand vector{{factor("w", shape.dim(-1), true)}};
  ShardingRule::Operand full = rows;
  full.push_back(vector[0]);
  rule.input(full).input(full).input(vector);
  for (size_t i = 3; i < node.inputs.size(); ++i) rule.input(rows);
  rule.output(full);
  for (size_t i = 1; i < node.outputs.size(); ++i) rule.output(vector);
  return rule.build();
}

const AttributeSpec kRowChunks{"chunks", Kind::kInt, false,
                               "equal parts of the last dimension of rows, summed apart, then by a tree (1)"};
const AttributeSpec kRowsInOrder{"in_order", Kind::kBool, false,
                                 "sums over rows are one chain of additions in the order of rows (false)"};
const AttributeSpec kEpsilon{"epsilon", Kind::kFloat, true, "added to the variance before the root"};
const AttributeSpec kAxis{"axis", Kind::kInt, true, "dimension that is normalised; may be negative"};

// Of n unit logits: mean square of p is e / n^2; the gradient p (dy - sum(p dy)) is as small as p.
ScalingRule softmax_scaling() {
  const auto extent = [](const ScalingContext& context) {
    const Shape& shape = context.node.inputs[0].shape;
    const int axis = axis_attribute(context.node, "axis", shape.rank());
    return static_cast<double>(std::max<int64_t>(1, shape.dim(axis)));
  };
  const auto share = [extent](const ScalingContext& context) {
    const double n = extent(context), top = std::exp(context.inputs[0].rms * context.inputs[0].rms);
    return std::sqrt(top / (n - 1 + top) / n);
  };
  ScalingRule rule;
  rule.logits = true;
  rule.forward = [share](const ScalingContext& context) {
    Amplitude out = context.inputs[0];
    out.rms = share(context);
    return std::vector{out};
  };
  rule.backward = [share](const ScalingContext& context, std::span<const Amplitude> gradients) {
    return std::vector{scaled(gradients[0], share(context))};
  };
  return rule;
}

/// About -log n - 1/2; the gradient dy - p sum(dy) is dy but for one part in n.
ScalingRule log_softmax_scaling() {
  ScalingRule rule = softmax_scaling();
  rule.forward = [](const ScalingContext& context) {
    const Shape& shape = context.node.inputs[0].shape;
    const int axis = axis_attribute(context.node, "axis", shape.rank());
    const double mean = std::log(static_cast<double>(std::max<int64_t>(1, shape.dim(axis)))) + 0.5;
    Amplitude out = context.inputs[0];
    out.rms = std::hypot(mean, context.inputs[0].rms);
    out.in_sample = out.across = mean * mean / (out.rms * out.rms);
    return std::vector{out};
  };
  rule.backward = [](const ScalingContext&, std::span<const Amplitude> gradients) { return std::vector{gradients[0]}; };
  return rule;
}

void register_softmax(OpRegistry& registry) {
  registry.add({.name = "softmax",
                .doc = "exp(a - max) / sum along one axis; sums in f32",
                .min_inputs = 1,
                .max_inputs = 1,
                .attributes = {kAxis},
                .infer = infer_softmax,
                .gradient = softmax_gradient,
                .sharding = softmax_sharding,
                .cost = [](const NodeSignature& node) { return per_element(node, 5); },
                .cheap = true,
                .scaling = softmax_scaling()});
  registry.add({.name = "log_softmax",
                .doc = "a - max - log(sum(exp(a - max))) along one axis; sums in f32",
                .min_inputs = 1,
                .max_inputs = 1,
                .attributes = {kAxis},
                .infer = infer_softmax,
                .gradient = log_softmax_gradient,
                .sharding = softmax_sharding,
                .cost = [](const NodeSignature& node) { return per_element(node, 5); },
                .cheap = true,
                .scaling = log_softmax_scaling()});
}

void register_layer_norm(OpRegistry& registry) {
  registry.add({.name = "layer_norm",
                .doc = "(a [...,w], gain [w], bias [w]) -> (a - mean) rstd gain + bias, mean f32[...], rstd f32[...]",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {kEpsilon},
                .infer = infer_layer_norm,
                .gradient = layer_norm_gradient,
                .sharding = [](const NodeSignature& node) { return norm_rule(node, "([A],[W],[W])->([A],[R],[R])"); },
                .cost = [](const NodeSignature& node) { return per_element(node, 8); },
                .cheap = true,
                .full_inputs = {1, 2},
                .scaling = norm_scaling()});
  registry.add({.name = "layer_norm_grad",
                .doc = "(dy [...,w], a, gain [w], mean, rstd) -> da, dgain f32[w], dbias f32[w]",
                .min_inputs = 5,
                .max_inputs = 5,
                .attributes = {kRowChunks, kRowsInOrder},
                .infer = infer_layer_norm_grad,
                .gradient = {},
                .sharding = norm_grad_rule,
                .localize = localize_chunks,
                .chunked_extent = rows_extent,
                .cost = [](const NodeSignature& node) { return per_element(node, 14); },
                .full_inputs = {2, 3, 4}});
}

void register_rms_norm(OpRegistry& registry) {
  registry.add({.name = "rms_norm",
                .doc = "(a [...,w], gain [w]) -> a rstd gain, rstd f32[...] = 1/sqrt(mean(a^2) + epsilon)",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {kEpsilon},
                .infer = infer_rms_norm,
                .gradient = rms_norm_gradient,
                .sharding = [](const NodeSignature& node) { return norm_rule(node, "([A],[W])->([A],[R])"); },
                .cost = [](const NodeSignature& node) { return per_element(node, 5); },
                .cheap = true,
                .full_inputs = {1},
                .scaling = norm_scaling()});
  registry.add({.name = "rms_norm_grad",
                .doc = "(dy [...,w], a, gain [w], rstd) -> da, dgain f32[w]",
                .min_inputs = 4,
                .max_inputs = 4,
                .attributes = {kRowChunks, kRowsInOrder},
                .infer = infer_rms_norm_grad,
                .gradient = {},
                .sharding = norm_grad_rule,
                .localize = localize_chunks,
                .chunked_extent = rows_extent,
                .cost = [](const NodeSignature& node) { return per_element(node, 10); },
                .full_inputs = {2, 3}});
}

}  // namespace

void register_normalize_ops(OpRegistry& registry) {
  register_softmax(registry);
  register_layer_norm(registry);
  register_rms_norm(registry);
}

Tensor softmax(Tensor a, int64_t axis) { return a.builder->op("softmax", {a}, {{"axis", axis}}); }

Tensor log_softmax(Tensor a, int64_t axis) { return a.builder->op("log_softmax", {a}, {{"axis", axis}}); }

Tensor layer_norm(Tensor a, Tensor gain, Tensor bias, double epsilon) {
  return a.builder->op("layer_norm", {a, gain, bias}, {{"epsilon", epsilon}});
}

Tensor rms_norm(Tensor a, Tensor gain, double epsilon) {
  return a.builder->op("rms_norm", {a, gain}, {{"epsilon", epsilon}});
}

}  // namespace ramet::ops

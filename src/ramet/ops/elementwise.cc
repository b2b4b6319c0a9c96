#include <cmath>
#include <functional>
#include <map>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/map_program.h"
#include "ramet/ops/polygamma.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

// Element-wise ops: one entry for each line of map_op_table().

namespace ramet::ops {
namespace {

/// What the gradient of an element-wise op is made of. `g` has the output's shape and type.
struct Local {
  Tensor a, b, c, y, g;
  double p, q;
};
/// One gradient an input, before it is summed over broadcast dimensions; invalid: none.
using Gradient = std::function<std::vector<Tensor>(const Local&)>;

/// Where two values tie, the first gets the whole gradient of maximum and minimum.
std::vector<Tensor> choose_gradient(const Local& l, std::string_view compare) {
  const Tensor first = map_binary(compare, l.a, l.b), nothing = zeros(*l.g.builder, {l.g.dtype(), {}});
  return {select(first, l.g, nothing), select(first, nothing, l.g)};
}

/// (1 - a) (1 + a), which loses nothing near 1.
Tensor one_less_square(Tensor a) { return multiply(add_scalar(negate(a), 1), add_scalar(a, 1)); }

std::vector<Tensor> power_gradient(const Local& l) {
  const Tensor base = multiply(l.b, power(l.a, add_scalar(l.b, -1)));
  // The derivative by the exponent is taken where the base is positive, and 0 elsewhere.
  GraphBuilder& build = *l.g.builder;
  const Tensor positive = map_binary("greater", l.a, zeros(build, {l.a.dtype(), {}}));
  const Tensor safe = select(positive, l.a, full(build, l.a.dtype(), {}, 1));
  return {multiply(l.g, base), multiply(l.g, multiply(l.y, log(safe)))};
}

const std::map<std::string_view, Gradient>& gradients() {
  static const auto grad = [](std::string_view op, bool of_output) {
    return [op, of_output](const Local& l) { return std::vector{map_binary(op, of_output ? l.y : l.a, l.g)}; };
  };
  static const auto grad_with = [](std::string_view op) {
    return [op](const Local& l) { return std::vector{l.g.builder->op(op, {l.a, l.g}, {{"parameter", l.p}})}; };
  };
  static const auto pass = [](const Local& l) { return std::vector{l.g}; };
  static const std::map<std::string_view, Gradient> table{
      {"add", [](const Local& l) { return std::vector{l.g, l.g}; }},
      {"subtract", [](const Local& l) { return std::vector{l.g, negate(l.g)}; }},
      {"multiply", [](const Local& l) { return std::vector{multiply(l.g, l.b), multiply(l.g, l.a)}; }},
      {"divide", [](const Local& l) { return std::vector{divide(l.g, l.b), negate(divide(multiply(l.g, l.y), l.b))}; }},
      {"maximum", [](const Local& l) { return choose_gradient(l, "greater_equal"); }},
      {"minimum", [](const Local& l) { return choose_gradient(l, "less_equal"); }},
      {"power", power_gradient},
      {"negate", [](const Local& l) { return std::vector{negate(l.g)}; }},
      {"abs", [](const Local& l) { return std::vector{multiply(l.g, map_unary("sign", l.a))}; }},
      {"exp", [](const Local& l) { return std::vector{multiply(l.g, l.y)}; }},
      {"log", [](const Local& l) { return std::vector{divide(l.g, l.a)}; }},
      {"log1p", [](const Local& l) { return std::vector{divide(l.g, add_scalar(l.a, 1))}; }},
      {"expm1", [](const Local& l) { return std::vector{multiply(l.g, add_scalar(l.y, 1))}; }},
      {"sqrt", [](const Local& l) { return std::vector{divide(scale(l.g, 0.5), l.y)}; }},
      {"rsqrt", [](const Local& l) { return std::vector{multiply(scale(l.g, -0.5), divide(l.y, l.a))}; }},
      {"reciprocal", [](const Local& l) { return std::vector{negate(multiply(l.g, map_unary("square", l.y)))}; }},
      {"square", [](const Local& l) { return std::vector{multiply(scale(l.g, 2), l.a)}; }},
      {"tanh", grad("tanh_grad", true)},
      {"sigmoid", grad("sigmoid_grad", true)},
      {"silu", grad("silu_grad", false)},
      {"relu", grad("relu_grad", true)},  // its output is needed anyway by what follows
      {"leaky_relu", grad_with("leaky_relu_grad")},
      {"elu", grad_with("elu_grad")},
      {"softplus", [](const Local& l) { return std::vector{multiply(l.g, sigmoid(l.a))}; }},
      {"erf",
       [](const Local& l) {
         const double factor = 2 / std::sqrt(M_PI);
         return std::vector{multiply(l.g, scale(exp(negate(map_unary("square", l.a))), factor))};
       }},
      {"gelu", grad("gelu_grad", false)},
      {"gelu_tanh", grad("gelu_tanh_grad", false)},
      {"sin", [](const Local& l) { return std::vector{multiply(l.g, map_unary("cos", l.a))}; }},
      {"cos", [](const Local& l) { return std::vector{negate(multiply(l.g, map_unary("sin", l.a)))}; }},
      {"remainder",
       [](const Local& l) { return std::vector{l.g, negate(multiply(l.g, map_unary("floor", divide(l.a, l.b))))}; }},
      {"fmod",
       [](const Local& l) { return std::vector{l.g, negate(multiply(l.g, map_unary("trunc", divide(l.a, l.b))))}; }},
      {"atan2",
       [](const Local& l) {
         const Tensor part = divide(l.g, add(map_unary("square", l.a), map_unary("square", l.b)));
         return std::vector{multiply(part, l.b), negate(multiply(part, l.a))};
       }},
      {"hypot",
       [](const Local& l) {
         const Tensor part = divide(l.g, l.y);
         return std::vector{multiply(part, l.a), multiply(part, l.b)};
       }},
      {"copysign",
       [](const Local& l) {
         return std::vector{multiply(l.g, multiply(map_unary("sign", l.a), map_unary("sign", l.y))), Tensor{}};
       }},
      {"logaddexp",
       [](const Local& l) {
         const Tensor share = sigmoid(subtract(l.a, l.b));
         return std::vector{multiply(l.g, share), multiply(l.g, add_scalar(negate(share), 1))};
       }},
      {"exp2", [](const Local& l) { return std::vector{multiply(scale(l.g, M_LN2), l.y)}; }},
      {"log2", [](const Local& l) { return std::vector{divide(scale(l.g, M_LOG2E), l.a)}; }},
      {"log10", [](const Local& l) { return std::vector{divide(scale(l.g, M_LOG10E), l.a)}; }},
      {"tan", [](const Local& l) { return std::vector{multiply(l.g, add_scalar(map_unary("square", l.y), 1))}; }},
      {"sinh", [](const Local& l) { return std::vector{multiply(l.g, map_unary("cosh", l.a))}; }},
      {"cosh", [](const Local& l) { return std::vector{multiply(l.g, map_unary("sinh", l.a))}; }},
      {"asinh",
       [](const Local& l) { return std::vector{multiply(l.g, rsqrt(add_scalar(map_unary("square", l.a), 1)))}; }},
      {"acosh",
       [](const Local& l) {
         return std::vector{multiply(l.g, rsqrt(multiply(add_scalar(l.a, -1), add_scalar(l.a, 1))))};
       }},
      {"atanh", [](const Local& l) { return std::vector{divide(l.g, one_less_square(l.a))}; }},
      {"asin", [](const Local& l) { return std::vector{multiply(l.g, rsqrt(one_less_square(l.a)))}; }},
      {"acos", [](const Local& l) { return std::vector{negate(multiply(l.g, rsqrt(one_less_square(l.a))))}; }},
      {"atan", [](const Local& l) { return std::vector{divide(l.g, add_scalar(map_unary("square", l.a), 1))}; }},
      {"erfc",
       [](const Local& l) {
         const double factor = -2 / std::sqrt(M_PI);
         return std::vector{multiply(l.g, scale(exp(negate(map_unary("square", l.a))), factor))};
       }},
      {"lgamma", [](const Local& l) { return std::vector{multiply(l.g, map_unary("digamma", l.a))}; }},
      {"digamma", [](const Local& l) { return std::vector{multiply(l.g, map_unary("trigamma", l.a))}; }},
      {"trigamma", [](const Local& l) { return std::vector{multiply(l.g, polygamma(l.a, 2))}; }},
      {"clamp",
       [](const Local& l) {
         return std::vector{l.g.builder->op("clamp_grad", {l.a, l.g}, {{"parameter", l.p}, {"second", l.q}})};
       }},
      {"scale", [](const Local& l) { return std::vector{scale(l.g, l.p)}; }},
      {"add_scalar", pass},
      {"round_bf16", pass},
      {"round_f16", pass},
      {"cast", pass},
      {"select",
       [](const Local& l) {
         const Tensor nothing = zeros(*l.g.builder, {l.g.dtype(), {}});
         return std::vector{Tensor{}, select(l.a, l.g, nothing), select(l.a, nothing, l.g)};
       }},
  };
  return table;
}

/// Ops whose result has a gradient of zero everywhere (or none at all): it stops there without a word.
bool stops(const MapOpInfo& info) {
  if (info.types == MapOpTypes::kCompare || info.types == MapOpTypes::kTest || info.types == MapOpTypes::kLogical ||
      info.types == MapOpTypes::kInteger)
    return true;
  for (const char* known : {"sign", "floor", "ceil", "round", "trunc", "floor_divide", "stop_gradient"})
    if (info.name == known) return true;
  return false;
}

std::vector<Tensor> gradient_of(const Gradient& gradient, GradientContext& context) {
  const auto input = [&](size_t i) { return i < context.inputs.size() ? context.inputs[i] : Tensor{}; };
  const Attributes& attributes = context.node.attributes;
  Local local{input(0),
              input(1),
              input(2),
              context.outputs[0],
              context.output_gradients[0],
              attributes.has("parameter") ? attributes.get_float("parameter") : 0,
              attributes.has("second") ? attributes.get_float("second") : 0};
  std::vector<Tensor> results = gradient(local);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool wanted = context.needed[i] && is_floating(context.node.inputs[i].dtype);
    results[i] = wanted && results[i].valid() ? sum_to(results[i], context.node.inputs[i]) : Tensor{};
  }
  return results;
}

/// Type of the result: by the table's class, floats of two types meeting in f32.
DType result_dtype(const NodeSignature& node, const MapProgram& program) {
  std::vector<DType> inputs;
  for (const TensorType& type : node.inputs) inputs.push_back(type.dtype);
  const DType result = map_value_types(program, inputs, node.text()).back();
  if (program.steps[0].info().types == MapOpTypes::kCast) {
    return node.attributes.get_dtype("dtype");
  }
  if (!is_floating(result)) return result;
  const size_t first = program.steps[0].info().types == MapOpTypes::kSelect ? 1 : 0;
  DType dtype = inputs[first];
  for (size_t i = first + 1; i < inputs.size(); ++i) dtype = promote_floats(node, dtype, inputs[i]);
  return dtype;
}

std::vector<TensorType> infer(const NodeSignature& node) {
  const MapProgram program = map_program_of(node);
  Shape shape = node.inputs[0].shape;
  for (size_t i = 1; i < node.inputs.size(); ++i) shape = broadcast_shapes(shape, node.inputs[i].shape, node.text());
  require_bounded(node, shape);
  const MapProgram::Step& step = program.steps[0];
  if (step.info().parameters > 0 && std::isnan(step.parameter))
    refuse(node, "attribute 'parameter' is not a number", "nan");
  if (step.info().parameters > 1 && !(step.parameter <= step.second))
    refuse(node, "bounds in the wrong order", text_of(step.parameter) + " and " + text_of(step.second),
           "parameter <= second");
  return {{result_dtype(node, program), shape}};
}

bool same_type(const NodeSignature& node, size_t input, const TensorType& output) {
  return node.inputs[input] == output;
}

/// Identities that keep every bit: what does nothing goes away.
Tensor simplify(SimplifyContext& context) {
  const NodeSignature& node = context.node;
  const TensorType output = node.op->infer(node).at(0);
  const std::string& name = node.op->map_op;
  const auto parameter_is = [&](double value) {
    return node.attributes.has("parameter") && node.attributes.get_float("parameter") == value;
  };
  const bool nothing = name == "cast" || name == "stop_gradient" || (name == "scale" && parameter_is(1));
  if (nothing && same_type(node, 0, output)) return context.inputs[0];
  if (name == "select" && context.inputs[1].id == context.inputs[2].id && same_type(node, 1, output))
    return context.inputs[1];
  if ((name == "maximum" || name == "minimum") && context.inputs[0].id == context.inputs[1].id)
    return context.inputs[0];
  return {};
}

/// Ops that are functions on all numbers get their rule from the function itself, which is also the meaning of its
/// gradient: d f(x) for a change of x.
bool is_smooth(std::string_view name) {
  for (const char* known :
       {"abs", "exp",  "expm1", "square", "tanh",  "sigmoid",    "silu",  "relu", "leaky_relu", "elu",  "softplus",
        "erf", "gelu", "sin",   "cos",    "clamp", "add_scalar", "asinh", "atan", "erfc",       "sinh", "cosh"})
    if (name == known) return true;
  return name == "gelu_tanh";
}

/// `f` at the node's immediates, and its derivative by differences.
ScalingRule scaling_of_function(const MapOpInfo& info) {
  const auto at_node = [scalar = info.scalar](const NodeSignature& node) {
    const auto immediate = [&](const char* name) {
      return node.attributes.has(name) ? node.attributes.get_float(name) : 0;
    };
    return [scalar, p = immediate("parameter"), q = immediate("second")](double x) { return scalar(x, 0, 0, p, q); };
  };
  ScalingRule rule;
  rule.forward = [at_node](const ScalingContext& context) {
    return function_rule(at_node(context.node), nullptr).forward(context);
  };
  rule.backward = [at_node](const ScalingContext& context, std::span<const Amplitude> gradients) {
    constexpr double kSmall = 0x1p-10;
    const auto slope = [f = at_node(context.node)](double x) { return (f(x + kSmall) - f(x - kSmall)) / (2 * kSmall); };
    return function_rule(nullptr, slope).backward(context, gradients);
  };
  return rule;
}

ScalingRule scaling_of(const MapOpInfo& info) {
  if (info.name == "add" || info.name == "subtract") return sum_rule();
  if (info.name == "multiply") return multiply_rule();
  if (info.name == "cast" || info.name == "stop_gradient" || info.name == "negate") return passing_rule();
  if (info.name == "scale") {
    ScalingRule rule;
    rule.forward = [](const ScalingContext& context) {
      return std::vector{scaled(context.inputs[0], context.node.attributes.get_float("parameter"))};
    };
    rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
      return std::vector{scaled(gradients[0], context.node.attributes.get_float("parameter"))};
    };
    return rule;
  }
  if (info.scalar && is_smooth(info.name)) return scaling_of_function(info);
  return {};
}

OpDef make_op(const MapOpInfo& info) {
  OpDef op;
  op.name = std::string(info.name);
  op.doc = "element-wise " + std::string(info.doc) + "; inputs broadcast";
  op.min_inputs = op.max_inputs = info.arity;
  using Kind = AttributeSpec::Kind;
  if (info.parameters > 0) op.attributes.push_back(required_attribute("parameter", Kind::kFloat, "p"));
  if (info.parameters > 1) op.attributes.push_back(required_attribute("second", Kind::kFloat, "q"));
  if (info.types == MapOpTypes::kCast)
    op.attributes.push_back(required_attribute("dtype", Kind::kDType, "of the result"));
  op.infer = infer;
  op.gradient_stops = stops(info);
  const auto found = gradients().find(info.name);
  if (found != gradients().end())
    op.gradient = [&rule = found->second](GradientContext& context) { return gradient_of(rule, context); };
  op.simplify = simplify;
  op.sharding = elementwise_sharding;
  op.cost = [flops = info.flops](const NodeSignature& node) { return streaming_cost_each(node, flops); };
  op.map_op = op.name;
  op.commutative = info.commutative;
  op.cheap = true;
  op.scaling = scaling_of(info);
  return op;
}

}  // namespace

void register_elementwise_ops(OpRegistry& registry) {
  for (const MapOpInfo& info : map_op_table())
    if (info.types != MapOpTypes::kDropout)
      registry.add(make_op(info));  // dropout is an op of its own (ops/attention.cc)
}

Tensor map_unary(std::string_view op, Tensor a) { return a.builder->op(op, {a}); }
Tensor map_binary(std::string_view op, Tensor a, Tensor b) { return a.builder->op(op, {a, b}); }
Tensor add(Tensor a, Tensor b) { return map_binary("add", a, b); }
Tensor subtract(Tensor a, Tensor b) { return map_binary("subtract", a, b); }
Tensor multiply(Tensor a, Tensor b) { return map_binary("multiply", a, b); }
Tensor divide(Tensor a, Tensor b) { return map_binary("divide", a, b); }
Tensor maximum(Tensor a, Tensor b) { return map_binary("maximum", a, b); }
Tensor minimum(Tensor a, Tensor b) { return map_binary("minimum", a, b); }
Tensor power(Tensor a, Tensor b) { return map_binary("power", a, b); }
Tensor scale(Tensor a, double factor) { return a.builder->op("scale", {a}, {{"parameter", factor}}); }
Tensor add_scalar(Tensor a, double term) { return a.builder->op("add_scalar", {a}, {{"parameter", term}}); }
Tensor negate(Tensor a) { return map_unary("negate", a); }
Tensor exp(Tensor a) { return map_unary("exp", a); }
Tensor log(Tensor a) { return map_unary("log", a); }
Tensor sqrt(Tensor a) { return map_unary("sqrt", a); }
Tensor rsqrt(Tensor a) { return map_unary("rsqrt", a); }
Tensor tanh(Tensor a) { return map_unary("tanh", a); }
Tensor sigmoid(Tensor a) { return map_unary("sigmoid", a); }
Tensor relu(Tensor a) { return map_unary("relu", a); }
Tensor erf(Tensor a) { return map_unary("erf", a); }
Tensor gelu(Tensor a) { return map_unary("gelu", a); }
Tensor gelu_tanh(Tensor a) { return map_unary("gelu_tanh", a); }
Tensor equal(Tensor a, Tensor b) { return map_binary("equal", a, b); }
Tensor less(Tensor a, Tensor b) { return map_binary("less", a, b); }
Tensor select(Tensor condition, Tensor a, Tensor b) { return condition.builder->op("select", {condition, a, b}); }
Tensor cast(Tensor a, DType dtype) { return a.builder->op("cast", {a}, {{"dtype", dtype}}); }

}  // namespace ramet::ops

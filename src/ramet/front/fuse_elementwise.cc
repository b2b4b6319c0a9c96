#include <algorithm>
#include <cmath>

#include "ramet/front/patterns.h"

// Patterns of element-wise calls and reductions: GELU, norms over the last dimension, cross-entropy.

namespace ramet::front {
namespace {

bool near(double a, double b) { return std::fabs(a - b) <= 2e-6 * std::fabs(b); }

/// Whether a value is number * x.
bool is_multiple(const PatternProgram& program, const std::string& value, double number, const std::string& x) {
  const Factors factors = factors_of(program, value, false);
  return near(factors.number, number) && factors.values == std::vector<std::string>{x};
}

constexpr double kCubic = 0.044715;

/// Whether a value is sqrt(2 / pi) (x + 0.044715 x^3), in one of two forms.
bool is_tanh_argument(const PatternProgram& program, const std::string& value, const std::string& x) {
  const Factors factors = factors_of(program, value, false);
  if (!near(factors.number, std::sqrt(2 / M_PI))) return false;
  const auto is_powers = [&](const std::string& part, size_t power) {
    const Factors cubic = factors_of(program, part, false);
    return near(cubic.number, kCubic) && cubic.values == std::vector<std::string>(power, x);
  };
  if (factors.values.size() == 1) {
    const TracedCall* sum = program.maker(factors.values[0]);
    if (!sum || sum->op != "aten.add" || !program.read_once(factors.values[0]) || number_of(*sum, "alpha", 1) != 1)
      return false;
    const std::string a = tensor_of(*sum, "self"), b = tensor_of(*sum, "other");
    return (a == x && is_powers(b, 3)) || (b == x && is_powers(a, 3));
  }
  if (factors.values.size() != 2) return false;
  for (int at : {0, 1})
    if (factors.values[static_cast<size_t>(at)] == x) {
      const std::string rest = plus_number(program, factors.values[static_cast<size_t>(1 - at)], 1);
      if (!rest.empty() && is_powers(rest, 2)) return true;
    }
  return false;
}

const TracedCall* made_by(const PatternProgram& program, const std::string& value, std::string_view op) {
  const TracedCall* call = program.maker(value);
  return call && call->op == op ? call : nullptr;
}

/// Extents and type of the last dimension, over which a reduction goes; 0 where it goes over others.
bool over_last(const PatternProgram& program, const TracedCall& call) {
  const TracedArgument* dims = call.find("dim");
  const TracedArgument* keep = call.find("keepdim");
  const TensorType* type = program.type(tensor_of(call, "self"));
  if (!dims || !type || !keep || !keep->flag) return false;
  const std::vector<TracedArgument> list =
      dims->kind == TracedArgument::Kind::kList ? dims->list : std::vector<TracedArgument>{*dims};
  if (list.size() != 1 || type->shape.rank() < 1) return false;
  return list[0].integer == -1 || list[0].integer == type->shape.rank() - 1;
}

/// Whether the value is of floats, f32 or narrower.
bool is_float(const PatternProgram& program, const std::string& value) {
  const TensorType* type = program.type(value);
  return type && is_floating(type->dtype) && type->dtype != DType::kF64;
}

/// The value before casts from one floating-point type to another.
std::string behind_casts(const PatternProgram& program, std::string value) {
  for (;;) {
    const TracedCall* call = program.maker(value);
    if (!call || (call->op != "aten._to_copy" && call->op != "aten.to" && call->op != "aten.alias")) return value;
    const std::string before = tensor_of(*call, "self");
    if (!is_float(program, before) || !is_float(program, value)) return value;
    value = before;
  }
}

/// variance + epsilon under a root: of rsqrt(variance + epsilon), or sqrt or pow(..., 0.5) as a divisor.
struct Inverse {
  std::string x{};  ///< what is divided
  const TracedCall* mean = nullptr;
  double epsilon = 0;
};

/// mean + epsilon, both read once.
bool read_sum(const PatternProgram& program, const std::string& sum, Inverse& inverse) {
  const TracedCall* add = program.maker(sum);
  if (!add || add->op != "aten.add" || !program.read_once(sum) || number_of(*add, "alpha", 1) != 1) return false;
  for (const auto& [one, two] : {std::pair("self", "other"), std::pair("other", "self")}) {
    const auto epsilon = number_of(*add, one);
    if (!epsilon || *epsilon < 0) continue;
    inverse.epsilon = *epsilon;
    inverse.mean = program.inner(add->find(two), {"aten.mean", "aten.var"});
    return inverse.mean != nullptr;
  }
  return false;
}

/// x / sqrt(mean + epsilon), as a product with rsqrt or a quotient.
std::optional<Inverse> inverse_of(const PatternProgram& program, const TracedCall& call) {
  Inverse inverse;
  if (call.op == "aten.mul") {
    for (const auto& [one, two] : {std::pair("self", "other"), std::pair("other", "self")}) {
      const TracedCall* root = program.inner(call.find(one), {"aten.rsqrt", "aten.pow"});
      if (!root || (root->op == "aten.pow" && number_of(*root, "exponent") != -0.5)) continue;
      inverse.x = tensor_of(call, two);
      if (!inverse.x.empty() && read_sum(program, tensor_of(*root, "self"), inverse)) return inverse;
    }
  } else if (call.op == "aten.div" && !call.find("rounding_mode")) {
    const TracedCall* root = program.inner(call.find("other"), {"aten.sqrt", "aten.pow"});
    if (!root || (root->op == "aten.pow" && number_of(*root, "exponent") != 0.5)) return std::nullopt;
    inverse.x = tensor_of(call, "self");
    if (!inverse.x.empty() && read_sum(program, tensor_of(*root, "self"), inverse)) return inverse;
  }
  return std::nullopt;
}

/// The value whose square is the mean's operand; "" where it is no square.
std::string squared(const PatternProgram& program, const TracedCall& mean) {
  if (mean.op != "aten.mean" || !over_last(program, mean)) return "";
  const std::string operand = tensor_of(mean, "self");
  const Factors factors = factors_of(program, operand, false);
  return factors.number == 1 && factors.values.size() == 2 && factors.values[0] == factors.values[1] ? factors.values[0]
                                                                                                     : "";
}

bool same_type(const PatternProgram& program, const std::string& a, const std::string& b) {
  return program.type(a) && program.type(b) && *program.type(a) == *program.type(b);
}

/// Replaces call `index` by a norm of x over its last dimension.
void put_norm(PatternProgram& program, size_t index, const std::string& op, const std::string& x, double epsilon) {
  const TracedCall& call = program.calls()[index];
  program.replace(index, call_like(call, op,
                                   {{"input", tensor_argument(x)},
                                    {"normalized_shape", list_argument({program.type(x)->shape.dim(-1)})},
                                    {"eps", number_argument(epsilon)}}));
}

}  // namespace

bool fuse_gelu(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  if (call.op != "aten.mul" && call.op != "aten.div") return false;
  const Factors factors = factors_of(program, call.outputs[0]);
  if (!near(factors.number, 0.5) || factors.values.size() != 2) return false;
  for (const size_t at : {0, 1}) {
    const std::string& x = factors.values[at];
    const std::string rest = plus_number(program, factors.values[1 - at], 1);
    if (rest.empty() || !program.read_once(rest) || !is_float(program, x) || !same_type(program, x, call.outputs[0]))
      continue;
    const TracedCall *erf = made_by(program, rest, "aten.erf"), *tanh = made_by(program, rest, "aten.tanh");
    const bool exact = erf && is_multiple(program, tensor_of(*erf, "self"), std::sqrt(0.5), x);
    if (!exact && !(tanh && is_tanh_argument(program, tensor_of(*tanh, "self"), x))) continue;
    TracedArgument form{.kind = TracedArgument::Kind::kText, .text = exact ? "none" : "tanh"};
    program.replace(index, call_like(call, "aten.gelu", {{"self", tensor_argument(x)}, {"approximate", form}}));
    return true;
  }
  return false;
}

bool fuse_rms_norm(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  const auto inverse = inverse_of(program, call);
  if (!inverse || squared(program, *inverse->mean).empty()) return false;
  // The mean may be of a wider type than what is divided.
  const std::string x = behind_casts(program, inverse->x);
  if (behind_casts(program, squared(program, *inverse->mean)) != x || !is_float(program, x) ||
      !is_float(program, call.outputs[0]) || program.type(x)->shape != program.type(call.outputs[0])->shape)
    return false;
  // A narrow x is normalised in f32 and rounded at the end, as the casts behind it say.
  const std::string from = program.type(x)->dtype == program.type(call.outputs[0])->dtype ? x : inverse->x;
  if (!same_type(program, from, call.outputs[0])) return false;
  put_norm(program, index, "aten.rms_norm", from, inverse->epsilon);
  return true;
}

bool fuse_layer_norm(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  const auto inverse = inverse_of(program, call);
  if (!inverse) return false;
  const TracedCall* difference = program.maker(inverse->x);
  if (!difference || difference->op != "aten.sub" || number_of(*difference, "alpha", 1) != 1) return false;
  const std::string x = tensor_of(*difference, "self");
  const TracedCall* mean = program.maker(tensor_of(*difference, "other"));
  if (!mean || mean->op != "aten.mean" || tensor_of(*mean, "self") != x || !over_last(program, *mean)) return false;
  const TracedCall& variance = *inverse->mean;
  const bool of_x = variance.op == "aten.var" && tensor_of(variance, "self") == x && over_last(program, variance) &&
                    ((variance.find("correction") && number_of(variance, "correction") == 0) ||
                     (variance.find("unbiased") && !variance.find("unbiased")->flag));
  const bool of_difference = squared(program, variance) == inverse->x;
  if ((!of_x && !of_difference) || !is_float(program, x) || !same_type(program, x, call.outputs[0])) return false;
  put_norm(program, index, "aten.layer_norm", x, inverse->epsilon);
  return true;
}

bool fuse_norm_weight(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  const bool product = call.op == "aten.mul", sum = call.op == "aten.add" && number_of(call, "alpha", 1) == 1;
  if (!product && !sum) return false;
  for (const auto& [one, two] : {std::pair("self", "other"), std::pair("other", "self")}) {
    const TracedCall* norm = product ? program.inner(call.find(one), {"aten.rms_norm", "aten.layer_norm"})
                                     : program.inner(call.find(one), {"aten.layer_norm"});
    const std::string vector = tensor_of(call, two);
    if (!norm || vector.empty() || !program.type(vector)) continue;
    const TracedArgument *shape = norm->find("normalized_shape"), *weight = norm->find("weight"),
                         *bias = norm->find("bias");
    const bool has_bias = bias && bias->given(), has_weight = weight && weight->given();
    if (!shape || shape->list.size() != 1 || has_bias || (product && has_weight)) continue;
    if (program.type(vector)->shape != Shape{shape->list[0].integer} ||
        !same_type(program, norm->outputs[0], call.outputs[0]) ||
        program.type(vector)->dtype != program.type(call.outputs[0])->dtype)
      continue;
    TracedCall fused = call_like(call, norm->op,
                                 {{"input", *norm->find("input")},
                                  {"normalized_shape", *shape},
                                  {"weight", product      ? tensor_argument(vector)
                                             : has_weight ? *weight
                                                          : TracedArgument()}});
    if (sum) fused.arguments.emplace_back("bias", tensor_argument(vector));
    if (norm->find("eps")) fused.arguments.emplace_back("eps", *norm->find("eps"));
    program.replace(index, std::move(fused));
    return true;
  }
  return false;
}

bool fuse_cross_entropy(PatternProgram& program, size_t index) {
  const TracedCall& call = program.calls()[index];
  if (call.op != "aten.nll_loss" && call.op != "aten.nll_loss_nd" && call.op != "aten.nll_loss2d") return false;
  const TracedCall* logarithm = program.inner(call.find("self"), {"aten.log_softmax", "aten._log_softmax"});
  if (!logarithm || !call.find("target")) return false;
  const std::string logits = tensor_of(*logarithm, "self");
  if (!is_float(program, logits) || !same_type(program, logits, logarithm->outputs[0])) return false;
  const int rank = program.type(logits)->shape.rank();
  const auto dim = number_of(*logarithm, "dim");
  const int classes = rank > 1 ? 1 : 0;
  if (rank < 1 || !dim || (*dim != classes && *dim != classes - rank)) return false;
  TracedCall fused = call_like(call, "aten.cross_entropy_loss", {{"self", tensor_argument(logits)}});
  for (const char* name : {"target", "weight", "reduction", "ignore_index"})
    if (const TracedArgument* argument = call.find(name)) fused.arguments.emplace_back(name, *argument);
  program.replace(index, std::move(fused));
  return true;
}

}  // namespace ramet::front

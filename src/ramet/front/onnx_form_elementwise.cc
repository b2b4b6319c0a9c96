// Element-wise ops as ONNX.
#include <cmath>

#include "ramet/front/onnx_writer.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;

DType type_of(const OnnxOp& op) { return op.signature.inputs.empty() ? DType::kF32 : op.input(0).dtype; }
bool is_natural(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 || dtype == DType::kU64;
}
double parameter(const OnnxOp& op) { return op.attributes().get_float("parameter"); }

/// Ops that are one node of ONNX with the same operands.
const std::map<std::string, std::string, std::less<>>& plain_ops() {
  static const std::map<std::string, std::string, std::less<>> table = {
      {"abs", "Abs"},
      {"acos", "Acos"},
      {"acosh", "Acosh"},
      {"add", "Add"},
      {"asin", "Asin"},
      {"asinh", "Asinh"},
      {"atan", "Atan"},
      {"atanh", "Atanh"},
      {"bitwise_and", "BitwiseAnd"},
      {"bitwise_not", "BitwiseNot"},
      {"bitwise_or", "BitwiseOr"},
      {"bitwise_xor", "BitwiseXor"},
      {"ceil", "Ceil"},
      {"cos", "Cos"},
      {"cosh", "Cosh"},
      {"divide", "Div"},
      {"equal", "Equal"},
      {"erf", "Erf"},
      {"exp", "Exp"},
      {"floor", "Floor"},
      {"gelu", "Gelu"},
      {"greater", "Greater"},
      {"greater_equal", "GreaterOrEqual"},
      {"is_inf", "IsInf"},
      {"is_nan", "IsNaN"},
      {"less", "Less"},
      {"less_equal", "LessOrEqual"},
      {"log", "Log"},
      {"logical_and", "And"},
      {"logical_not", "Not"},
      {"logical_or", "Or"},
      {"maximum", "Max"},
      {"minimum", "Min"},
      {"multiply", "Mul"},
      {"negate", "Neg"},
      {"power", "Pow"},
      {"reciprocal", "Reciprocal"},
      {"relu", "Relu"},
      {"round", "Round"},
      {"select", "Where"},
      {"sigmoid", "Sigmoid"},
      {"sign", "Sign"},
      {"sin", "Sin"},
      {"sinh", "Sinh"},
      {"softplus", "Softplus"},
      {"sqrt", "Sqrt"},
      {"stop_gradient", "Identity"},
      {"subtract", "Sub"},
      {"tan", "Tan"},
      {"tanh", "Tanh"},
  };
  return table;
}

Names plain(OnnxWriter& to, const OnnxOp& op) { return {to.node(plain_ops().find(op.node.op->name)->second, op.in)}; }

Names cast(OnnxWriter& to, const OnnxOp& op) { return {to.cast(op.in[0], op.output().dtype)}; }
Names gelu_tanh(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("Gelu", op.in, {onnx_text("approximate", "tanh")})};
}
Names silu(OnnxWriter& to, const OnnxOp& op) { return {to.node("Mul", {op.in[0], to.node("Sigmoid", op.in)})}; }
Names square(OnnxWriter& to, const OnnxOp& op) { return {to.node("Mul", {op.in[0], op.in[0]})}; }
Names rsqrt(OnnxWriter& to, const OnnxOp& op) { return {to.node("Reciprocal", {to.node("Sqrt", op.in)})}; }
Names not_equal(OnnxWriter& to, const OnnxOp& op) { return {to.node("Not", {to.node("Equal", op.in)})}; }
Names is_finite(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("Not", {to.node("Or", {to.node("IsInf", op.in), to.node("IsNaN", op.in)})})};
}
/// Whether two values have different signs.
std::string differ(OnnxWriter& to, const std::string& a, const std::string& b, DType type) {
  const std::string zero = to.number(type, 0);
  return to.node("Xor", {to.node("Less", {a, zero}), to.node("Less", {b, zero})});
}
Names remainder(OnnxWriter& to, const OnnxOp& op) {
  const DType type = type_of(op);
  if (!is_floating(type)) return {to.node("Mod", op.in)};
  // The exact rest of the division, with the sign of b.
  const std::string rest = to.node("Mod", op.in, {onnx_integer("fmod", 1)});
  const std::string some = to.node("Not", {to.node("Equal", {rest, to.number(type, 0)})});
  const std::string other = to.node("And", {some, differ(to, rest, op.in[1], type)});
  return {to.node("Where", {other, to.node("Add", {rest, op.in[1]}), rest})};
}
Names fmod(OnnxWriter& to, const OnnxOp& op) { return {to.node("Mod", op.in, {onnx_integer("fmod", 1)})}; }
Names floor_divide(OnnxWriter& to, const OnnxOp& op) {
  const DType type = type_of(op);
  const std::string plain = to.node("Div", op.in), rest = remainder(to, op)[0], zero = to.number(type, 0);
  if (is_floating(type)) {
    const std::string whole = to.node("Round", {to.node("Div", {to.node("Sub", {op.in[0], rest}), op.in[1]})});
    const std::string wild = to.node("Or", {to.node("IsInf", {plain}), to.node("IsNaN", {plain})});
    const std::string kept = to.node("Or", {wild, to.node("Equal", {op.in[1], zero})});
    return {to.node("Where", {kept, plain, whole})};
  }
  // ONNX rounds towards 0.
  const std::string some = to.node("Not", {to.node("Equal", {rest, zero})});
  const std::string below = to.node("And", {some, differ(to, op.in[0], op.in[1], type)});
  return {to.node("Sub", {plain, to.node("Where", {below, to.number(type, 1), zero})})};
}
Names trunc(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("Mul", {to.node("Sign", op.in), to.node("Floor", {to.node("Abs", op.in)})})};
}
Names log1p(OnnxWriter& to, const OnnxOp& op) {
  // log(1 + a), corrected by how far 1 + a was rounded: u = 1 + a, then log(u) a / (u - 1) (Kahan).
  const DType type = type_of(op);
  const std::string u = to.node("Add", {op.in[0], to.number(type, 1)});
  const std::string rest = to.node("Sub", {u, to.number(type, 1)});
  const std::string none = to.node("Equal", {rest, to.number(type, 0)});
  const std::string safe = to.node("Where", {none, to.number(type, 1), rest});
  const std::string made = to.node("Mul", {to.node("Log", {u}), to.node("Div", {op.in[0], safe})});
  const std::string great = to.node("IsInf", {u});
  return {to.node("Where", {none, op.in[0], to.node("Where", {great, u, made})})};
}
Names expm1(OnnxWriter& to, const OnnxOp& op) {
  // 2 exp(a/2) sinh(a/2)
  const DType type = type_of(op);
  const std::string half = to.node("Mul", {op.in[0], to.number(type, 0.5)});
  const std::string product = to.node("Mul", {to.node("Exp", {half}), to.node("Sinh", {half})});
  return {to.node("Mul", {product, to.number(type, 2)})};
}
Names exp2(OnnxWriter& to, const OnnxOp& op) { return {to.node("Pow", {to.number(type_of(op), 2), op.in[0]})}; }
Names logarithm(OnnxWriter& to, const OnnxOp& op) {
  const double base = op.node.op->name == "log2" ? 2 : 10;
  return {to.node("Mul", {to.node("Log", op.in), to.number(type_of(op), 1 / std::log(base))})};
}
Names erfc(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("Sub", {to.number(type_of(op), 1), to.node("Erf", op.in)})};
}
Names hypot(OnnxWriter& to, const OnnxOp& op) {
  // In units of the greater one: squares of great numbers are infinite.
  const DType type = type_of(op);
  const std::string a = to.node("Abs", {op.in[0]}), b = to.node("Abs", {op.in[1]}), most = to.node("Max", {a, b});
  const std::string zero = to.node("Equal", {most, to.number(type, 0)});
  const std::string unit = to.node("Where", {zero, to.number(type, 1), most});
  const std::string x = to.node("Div", {a, unit}), y = to.node("Div", {b, unit});
  const std::string sum = to.node("Add", {to.node("Mul", {x, x}), to.node("Mul", {y, y})});
  const std::string infinite = to.node("Or", {to.node("IsInf", {a}), to.node("IsInf", {b})});
  const std::string made = to.node("Mul", {to.node("Sqrt", {sum}), unit});
  return {to.node("Where", {infinite, to.number(type, INFINITY), made})};
}
Names logaddexp(OnnxWriter& to, const OnnxOp& op) {
  const std::string most = to.node("Max", op.in), least = to.node("Min", op.in);
  const std::string rest = to.node("Softplus", {to.node("Sub", {least, most})});
  // The difference of two equal infinities is no number.
  return {to.node("Where", {to.node("IsInf", {most}), most, to.node("Add", {most, rest})})};
}
Names slope(OnnxWriter& to, const OnnxOp& op) {
  return {to.node(op.node.op->name == "elu" ? "Elu" : "LeakyRelu", op.in, {onnx_number("alpha", parameter(op))})};
}
Names by_parameter(OnnxWriter& to, const OnnxOp& op) {
  const char* name = op.node.op->name == "scale" ? "Mul" : "Add";
  return {to.node(name, {op.in[0], to.number(type_of(op), parameter(op))})};
}
Names rescale(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("Mul", {op.in[0], to.number(type_of(op), op.attributes().get_float("forward"))})};
}
Names clamp(OnnxWriter& to, const OnnxOp& op) {
  const DType type = type_of(op);
  return {to.node("Clip",
                  {op.in[0], to.number(type, parameter(op)), to.number(type, op.attributes().get_float("second"))})};
}
Names shift(OnnxWriter& to, const OnnxOp& op) {
  if (!is_natural(type_of(op))) op.refuse("ONNX shifts the bits of integers without a sign alone");
  const char* direction = op.node.op->name == "shift_left" ? "LEFT" : "RIGHT";
  return {to.node("BitShift", op.in, {onnx_text("direction", direction)})};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_elementwise_forms() {
  static const std::vector<OnnxFormEntry> table = [] {
    std::vector<OnnxFormEntry> made = {
        {"cast", cast},
        {"gelu_tanh", gelu_tanh},
        {"silu", silu, true},
        {"square", square},
        {"rsqrt", rsqrt, true},
        {"not_equal", not_equal},
        {"is_finite", is_finite, true},
        {"remainder", remainder, true},
        {"fmod", fmod},
        {"floor_divide", floor_divide, true},
        {"trunc", trunc, true},
        {"log1p", log1p, true},
        {"expm1", expm1, true},
        {"exp2", exp2, true},
        {"log2", logarithm, true},
        {"log10", logarithm, true},
        {"erfc", erfc, true},
        {"hypot", hypot, true},
        {"logaddexp", logaddexp, true},
        {"leaky_relu", slope},
        {"elu", slope},
        {"scale", by_parameter},
        {"add_scalar", by_parameter},
        {"rescale", rescale},
        {"clamp", clamp},
        {"shift_left", shift},
        {"shift_right", shift},
    };
    for (const auto& [name, onnx] : plain_ops()) made.push_back({name, plain});
    return made;
  }();
  return table;
}

}  // namespace ramet::front

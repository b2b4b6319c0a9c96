// ONNX's arithmetic, comparisons, logic, bits and casts.
#include <limits>

#include "ramet/front/onnx_small.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// A unary map op of this name; numbers that are no floats go through f64.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) { std::copy_n(from, N, text); }
};
template <Name op>
Values unary(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (is_floating(a.dtype())) return {map_unary(op.text, a)};
  return {in_type(map_unary(op.text, cast(a, DType::kF64)), a.dtype())};
}
template <Name op>
Values number(const OnnxCall& at) {
  return {map_unary(op.text, at.input(0))};
}
/// Floor and the like leave integers as they are.
template <Name op>
Values rounding(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {is_floating(a.dtype()) ? map_unary(op.text, a) : a};
}

/// Of opset 6 and before: b's dimensions stand from `axis` on.
std::pair<Tensor, Tensor> operands(const OnnxCall& at) {
  const Tensor a = at.input(0);
  Tensor b = at.input(1);
  if (at.version() < 7 && at.flag("broadcast") && at.has("axis")) {
    const int axis = at.axis("axis", a.shape().rank());
    std::vector<int64_t> dims = b.shape().dims();
    for (int i = axis + b.shape().rank(); i < a.shape().rank(); ++i) dims.push_back(1);
    b = reshape(b, Shape(dims));
  }
  return {a, b};
}

template <Name op>
Values binary(const OnnxCall& at) {
  const auto [a, b] = operands(at);
  return {map_binary(op.text, a, b)};
}
/// Comparisons of bools are those of 0 and 1.
template <Name op>
Values comparison(const OnnxCall& at) {
  auto [a, b] = operands(at);
  if (a.dtype() == DType::kBool && b.dtype() == DType::kBool) a = cast(a, DType::kI32), b = cast(b, DType::kI32);
  return {map_binary(op.text, a, b)};
}

Values power(const OnnxCall& at) {
  auto [a, b] = operands(at);
  const DType dtype = a.dtype();
  if (is_floating(dtype) && size_of(dtype) >= 4) return {ops::power(a, in_type(b, dtype))};
  if (is_floating(dtype)) return {in_type(ops::power(cast(a, DType::kF32), in_type(b, DType::kF32)), dtype)};
  return {in_type(ops::power(cast(a, DType::kF64), in_type(b, DType::kF64)), dtype)};
}

Values mod(const OnnxCall& at) {
  const auto [a, b] = operands(at);
  return {at.flag("fmod") ? fmod(a, b) : remainder(a, b)};
}

/// Folds all inputs with a binary function.
template <Tensor (*join)(Tensor, Tensor)>
Values fold_all(const OnnxCall& at) {
  const std::vector<Tensor> all = at.all_inputs();
  if (all.empty()) at.refuse("no inputs");
  Tensor made = all[0];
  for (size_t i = 1; i < all.size(); ++i) made = join(made, all[i]);
  return {made};
}

Values mean(const OnnxCall& at) {
  const Tensor sum = fold_all<ops::add>(at)[0].tensor;
  return {scale(sum, 1.0 / static_cast<double>(at.inputs()))};
}

Values clip(const OnnxCall& at) {
  const Tensor a = at.input(0);
  if (at.version() < 11) {
    const double low = at.number("min", -std::numeric_limits<float>::max());
    const double high = at.number("max", std::numeric_limits<float>::max());
    return {minimum(maximum(a, at.full(a.dtype(), {}, low)), at.full(a.dtype(), {}, high))};
  }
  Tensor made = a;
  const Tensor low = at.input_if(1), high = at.input_if(2);
  // Bounds that are known are options of one op.
  const TensorData *known_low = low.valid() ? at.known(low) : nullptr,
                   *known_high = high.valid() ? at.known(high) : nullptr;
  if (is_floating(a.dtype()) && known_low && known_high && known_low->type().elements() == 1 &&
      known_high->type().elements() == 1 && known_low->tensor().get(0) <= known_high->tensor().get(0))
    return {clamp(a, known_low->tensor().get(0), known_high->tensor().get(0))};
  if (low.valid()) made = maximum(made, reshape(low, {}));
  if (high.valid()) made = minimum(made, reshape(high, {}));
  return {made};
}

Values where(const OnnxCall& at) { return {select(at.input(0), at.input(1), at.input(2))}; }

Values logical_and(const OnnxCall& at) { return {ops::logical_and(at.input(0), at.input(1))}; }
Values logical_or(const OnnxCall& at) { return {ops::logical_or(at.input(0), at.input(1))}; }
Values logical_xor(const OnnxCall& at) { return {ops::logical_xor(at.input(0), at.input(1))}; }
Values logical_not(const OnnxCall& at) { return {ops::logical_not(at.input(0))}; }

Values is_nan(const OnnxCall& at) { return {ops::is_nan(at_least_f32(at.input(0)))}; }
Values is_inf(const OnnxCall& at) {
  return {ops::is_inf(at_least_f32(at.input(0)), at.flag("detect_positive", true), at.flag("detect_negative", true))};
}

Values bit_shift(const OnnxCall& at) {
  const std::string direction = at.text("direction");
  if (direction == "LEFT") return {shift_left(at.input(0), at.input(1))};
  if (direction != "RIGHT") at.refuse("direction '" + direction + "' is not known");
  return {shift_right(at.input(0), at.input(1))};
}

/// To a small type, as casts have it: integers wrap around at the bounds of the type.
Tensor cast_to_small(const OnnxCall& at, const OnnxSmallType& type) {
  const Tensor a = at.input(0);
  if (is_floating(type.carrier)) return to_small(a, type, small_rounding_of(at));
  const double size = type.greatest - type.least + 1;
  const Tensor whole = map_unary("trunc", is_floating(a.dtype()) ? at_least_f32(a) : cast(a, DType::kF32));
  const Tensor turns = map_unary("floor", scale(add_scalar(whole, -type.least), 1 / size));
  return to_small(subtract(whole, scale(turns, size)), type);
}

Values do_cast(const OnnxCall& at) {
  if (at.version() < 6) at.refuse("types by name, as before operator set 6, are not supported");
  if (const OnnxSmallType* small = onnx_small_type(static_cast<int32_t>(at.integer("to"))))
    return {cast_to_small(at, *small)};
  return {cast_to(at.input(0), at.dtype("to"), at.flag("saturate", true))};
}
Values cast_like(const OnnxCall& at) {
  if (const OnnxSmallType* small = small_type_of(at, 1)) return {cast_to_small(at, *small)};
  return {cast_to(at.input(0), at.input(1).dtype(), at.flag("saturate", true))};
}

/// The same bits as another type, of values that are known.
Values bit_cast(const OnnxCall& at) {
  const HostTensor& from = at.must_know(0, "the operand of BitCast");
  const DType to = at.dtype("to");
  if (size_of(to) != size_of(from.type.dtype)) at.refuse("the types of BitCast differ in size");
  HostTensor made({to, from.type.shape});
  made.data = from.data;
  if (to == DType::kBool)
    for (std::byte& each : made.data) each = std::byte{each != std::byte{0}};
  return {at.constant(std::move(made))};
}

Values identity(const OnnxCall& at) { return {at.value(0)}; }

/// 1 above the threshold, 0 elsewhere.
Values binarize(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const DType wide = is_floating(a.dtype()) ? a.dtype() : DType::kF64;
  return {in_type(less(at.full(wide, {}, at.number("threshold", 0)), in_type(a, wide)), a.dtype())};
}

constexpr OnnxEntry kEntries[] = {
    {"Abs", number<"abs">},
    {"Acos", unary<"acos">},
    {"Acosh", unary<"acosh">},
    {"Add", binary<"add">},
    {"And", logical_and},
    {"Asin", unary<"asin">},
    {"Asinh", unary<"asinh">},
    {"Atan", unary<"atan">},
    {"Atanh", unary<"atanh">},
    {"BitCast", bit_cast},
    {"BitShift", bit_shift},
    {"BitwiseAnd", binary<"bitwise_and">},
    {"BitwiseNot", number<"bitwise_not">},
    {"BitwiseOr", binary<"bitwise_or">},
    {"BitwiseXor", binary<"bitwise_xor">},
    {"Cast", do_cast},
    {"CastLike", cast_like},
    {"Ceil", rounding<"ceil">},
    {"Clip", clip},
    {"Cos", unary<"cos">},
    {"Cosh", unary<"cosh">},
    {"Div", binary<"divide">},
    {"Equal", comparison<"equal">},
    {"Erf", unary<"erf">},
    {"Exp", unary<"exp">},
    {"Floor", rounding<"floor">},
    {"Greater", comparison<"greater">},
    {"GreaterOrEqual", comparison<"greater_equal">},
    {"Identity", identity},
    {"IsInf", is_inf},
    {"IsNaN", is_nan},
    {"Less", comparison<"less">},
    {"LessOrEqual", comparison<"less_equal">},
    {"Log", unary<"log">},
    {"Max", fold_all<ops::maximum>},
    {"Mean", mean},
    {"Min", fold_all<ops::minimum>},
    {"Mod", mod},
    {"Mul", binary<"multiply">},
    {"Neg", number<"negate">},
    {"Not", logical_not},
    {"Or", logical_or},
    {"Pow", power},
    {"Reciprocal", unary<"reciprocal">},
    {"Round", rounding<"round">},
    {"Sign", number<"sign">},
    {"Sin", unary<"sin">},
    {"Sinh", unary<"sinh">},
    {"Sqrt", unary<"sqrt">},
    {"Sub", binary<"subtract">},
    {"Sum", fold_all<ops::add>},
    {"Tan", unary<"tan">},
    {"Where", where},
    {"Xor", logical_xor},
    {"ai.onnx.ml.Binarizer", binarize},
};

}  // namespace

std::span<const OnnxEntry> onnx_elementwise_operators() { return kEntries; }

}  // namespace ramet::front

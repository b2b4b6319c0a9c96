#include "ramet/front/onnx_small.h"

#include <cmath>

#include "ramet/front/onnx_import.h"
#include "ramet/front/onnx_support.h"
#include "ramet/ops/build_elementwise.h"

namespace ramet::front {

const OnnxSmallType* small_type_of(const OnnxCall& at, size_t input) {
  if (!at.has(input) || at.scope().depth > 0) return nullptr;
  const std::string& name = at.node().inputs[input];
  const OnnxGraph& graph = at.importer().model().graph;
  for (const OnnxValueInfo& each : graph.inputs)
    if (each.name == name) return onnx_small_type(each.type);
  for (const OnnxTensor& each : graph.initializers)
    if (each.name == name) return onnx_small_type(each.type);
  return nullptr;
}

SmallRounding small_rounding_of(const OnnxCall& at) {
  const std::string mode = at.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") at.refuse("round_mode '" + mode + "' is not known");
  using Powers = SmallRounding::Powers;
  return {.saturate = at.flag("saturate", true),
          .powers = mode == "up"     ? Powers::kUp
                    : mode == "down" ? Powers::kDown
                                     : Powers::kNearest};
}

namespace {

/// The greatest power of two up to `size` (0 for 0), by roundings of f64 (Rump, Ogita and Oishi, SIAM J. Sci. Comput.
/// 31, 2008: "unit in the first place"). `size` is f64, from f32.
Tensor power_below(Tensor size) {
  const Tensor wide = ops::scale(size, 0x1p52 + 1);
  return ops::map_unary("abs", ops::subtract(wide, ops::scale(wide, 1 - 0x1p-53)));
}

Tensor rounded_to_power(Tensor size, const SmallRounding& rounding) {
  const Tensor below = power_below(size), above = ops::scale(below, 2);
  switch (rounding.powers) {
    case SmallRounding::Powers::kDown: return below;
    case SmallRounding::Powers::kUp: return ops::select(ops::equal(below, size), below, above);
    case SmallRounding::Powers::kNearest: return ops::select(ops::less(size, ops::scale(below, 1.5)), below, above);
  }
  return below;
}

Tensor to_small_float(Tensor a, const OnnxSmallType& type, const SmallRounding& rounding) {
  // Steps have no slope, though the numbers by which they are computed have one.
  const Tensor exact = ops::map_unary("stop_gradient", ops::cast(a, DType::kF64));
  const auto number = [&](double value) { return ops::full(*exact.builder, DType::kF64, {}, value); };
  const double none = type.nan < 0 ? 0 : std::nan("");
  const Tensor bounded = ops::clamp(exact, -4 * type.greatest, 4 * type.greatest),
               size = ops::map_unary("abs", bounded);
  Tensor rounded;
  if (type.type == kOnnxPowersOfTwo) {
    rounded = ops::maximum(rounded_to_power(size, rounding), number(type.least));
  } else {
    const double least_normal = std::ldexp(1.0, 1 - type.bias);
    const Tensor step =
        ops::scale(ops::maximum(power_below(size), number(least_normal)), std::ldexp(1.0, -type.mantissa));
    rounded = ops::multiply(ops::map_unary("round", ops::divide(size, step)), step);
  }
  const bool saturate = rounding.saturate || type.nan < 0;
  rounded = ops::select(ops::less(number(type.greatest), rounded), number(saturate ? type.greatest : none), rounded);
  if (type.type != kOnnxPowersOfTwo)
    rounded = ops::select(ops::less(bounded, number(0)), ops::negate(rounded), rounded);
  return ops::cast(ops::select(ops::map_unary("is_nan", exact), number(none), rounded), type.carrier);
}

}  // namespace

Tensor to_small(Tensor a, const OnnxSmallType& type, const SmallRounding& rounding) {
  if (is_floating(type.carrier)) return to_small_float(a, type, rounding);
  const Tensor wide = is_floating(a.dtype()) ? at_least_f32(a) : ops::cast(a, DType::kF32);
  return ops::cast(ops::clamp(ops::map_unary("round", wide), type.least, type.greatest), type.carrier);
}

}  // namespace ramet::front

#include "ramet/front/onnx_small.h"

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

Tensor to_small(Tensor a, const OnnxSmallType& type) {
  Tensor wide = is_floating(a.dtype()) ? at_least_f32(a) : ops::cast(a, DType::kF32);
  if (!is_floating(type.carrier))
    return ops::cast(ops::clamp(ops::map_unary("round", wide), type.least, type.greatest), type.carrier);
  // float4e2m1 has steps of 1/2 below 2, of 1 below 4, and of 2 from there on. It has no NaN.
  const auto number = [&](double value) { return ops::full(*wide.builder, wide.dtype(), {}, value); };
  wide = ops::select(ops::map_unary("is_nan", wide), number(0), wide);
  const Tensor size = ops::map_unary("abs", wide);
  const Tensor step = ops::select(ops::less(size, number(2)), number(0.5),
                                  ops::select(ops::less(size, number(4)), number(1), number(2)));
  const Tensor rounded = ops::multiply(ops::map_unary("round", ops::divide(wide, step)), step);
  return ops::cast(ops::clamp(rounded, type.least, type.greatest), type.carrier);
}

}  // namespace ramet::front

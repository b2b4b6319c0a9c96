#pragma once

#include "ramet/base/house.h"

#include "ramet/front/onnx_call.h"
#include "ramet/front/onnx_tensor.h"

namespace ramet::front {

// Types that no DType is (OnnxSmallType) while a file is imported. A tensor of the graph has the carrier's type alone,
// so the type of an operand is known where the file declares it.

/// The small type of an input that is an input or an initializer of the model; null for others.
const OnnxSmallType* small_type_of(const OnnxCall& at, size_t input);

/// How values that a small type lacks are rounded.
struct SmallRounding {
  bool saturate = true;  ///< beyond the range: the last value of the range; else NaN where the type has it
  enum class Powers : uint8_t { kUp, kDown, kNearest } powers = Powers::kUp;  ///< of float8e8m0
};
/// The attributes `saturate` and `round_mode` of a call.
SmallRounding small_rounding_of(const OnnxCall& at);
/// Values rounded (halves to even) and held within the range of a small type.
Tensor to_small(Tensor a, const OnnxSmallType& type, const SmallRounding& rounding = {});

}  // namespace ramet::front

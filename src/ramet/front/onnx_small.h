#pragma once

#include "ramet/base/house.h"

#include "ramet/front/onnx_call.h"
#include "ramet/front/onnx_tensor.h"

namespace ramet::front {

// Types of 2 and 4 bits while a file is imported. A tensor of the graph has the carrier's type alone, so the type of an
// operand is known where the file declares it.

/// The small type of an input that is an input or an initializer of the model; null for others.
const OnnxSmallType* small_type_of(const OnnxCall& at, size_t input);
/// Values rounded (halves to even) and held within the range of a small type.
Tensor to_small(Tensor a, const OnnxSmallType& type);

}  // namespace ramet::front

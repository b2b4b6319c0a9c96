#pragma once

#include "ramet/base/house.h"

#include <functional>
#include <string_view>
#include <vector>

#include "ramet/front/index_support.h"
#include "ramet/front/onnx_call.h"
#include "ramet/front/onnx_import.h"

namespace ramet::front {

// What translators of several families of ONNX's operators share.

/// f32 for narrower floats; other types stay.
Tensor at_least_f32(Tensor a);
/// `a` computed by a function of f32 (or f64), in a's type again.
Tensor through_f32(Tensor a, const std::function<Tensor(Tensor)>& compute);
/// f32 with the values that `dtype` has; wider types stay.
Tensor rounded_to(Tensor a, DType dtype);
/// Softmax of an f32 tensor with the roundings of ONNX's function for operands of `dtype`: each of its steps is rounded
/// where the type is narrower than f32.
Tensor softmax_in(Tensor a, int64_t axis, DType dtype);
/// Softmax over a dimension, with the roundings of operands of `dtype`. Rows that are hidden whole (-infinity) are
/// `row_of_hidden`, and have a gradient of 0.
Tensor guarded_softmax(Tensor scores, int64_t axis, DType dtype, double row_of_hidden);
/// i32 indices as the i64 that ONNX gives.
inline Tensor as_i64(Tensor a) { return in_type(a, DType::kI64); }
/// The elements along `axis` in numpy's manner of start, stop and step, which may be negative.
Tensor slice_by_step(Tensor a, int64_t axis, int64_t start, int64_t stop, int64_t step);
/// Axes from 0, each once.
std::vector<int64_t> checked_axes(std::vector<int64_t> axes, int rank);
/// Broadcasts by ONNX's rule of Expand: both ways.
Tensor expand(Tensor a, const Shape& shape);
/// [size] as [1, size, 1...] for tensors [N, C, space...] of this rank.
Tensor along_channels(Tensor a, int rank);
/// An operand in another type; floats that become f8 are held within its range.
Tensor cast_to(Tensor a, DType dtype, bool saturate = true);

/// Paddings of a window operator: `auto_pad`, or `pads`.
struct OnnxWindows {
  std::vector<int64_t> taps, strides, dilations, low, high;
};
/// Of an input [N, C, space...] with windows of `taps`.
OnnxWindows onnx_windows(const OnnxCall& at, const Shape& input, std::vector<int64_t> taps);

}  // namespace ramet::front

// ONNX's quantisation, and products and convolutions of quantised operands.
#include "ramet/base/error_types.h"
#include "ramet/front/onnx_small.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// A scale or a zero point in the shape that broadcasts with `shape`: of all elements, of an axis, or of blocks of it.
Tensor spread(const OnnxCall& at, Tensor factor, const Shape& shape, int64_t axis_default) {
  if (factor.shape().elements() == 1) return reshape(factor, {});
  const int64_t block = at.integer("block_size", 0);
  const int rank = shape.rank(), axis = at.axis("axis", rank, axis_default);
  if (block > 0 && factor.shape().rank() == rank)
    return slice_axis(repeat_interleave(factor, block, axis), axis, 0, shape.dim(axis));
  if (factor.shape().rank() != 1 || factor.dim(0) != shape.dim(axis))
    at.refuse("scales fit neither all elements nor one axis", "");
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(axis)] = factor.dim(0);
  return reshape(factor, Shape(dims));
}

/// a in units of the scale, rounded and held within the type, behind its zero point.
Tensor quantized(Tensor a, Tensor scale, Tensor zero, DType to, bool saturate) {
  const Tensor units = divide(a, scale);
  if (is_floating(to)) return cast_to(zero.valid() ? add(units, in_type(zero, units.dtype())) : units, to, saturate);
  Tensor whole = map_unary("round", units);
  if (zero.valid()) whole = add(whole, in_type(zero, units.dtype()));
  return cast(clamp(whole, lowest_of(to), greatest_of(to)), to);
}

Values quantize(const OnnxCall& at) {
  const Tensor a = at.input(0), given = at.input_if(2);
  const int64_t wanted = at.integer("output_dtype", 0);
  const DType to = given.valid() ? given.dtype()
                   : wanted != 0 ? checked_onnx_dtype(static_cast<int32_t>(wanted), "attribute 'output_dtype'")
                                 : DType::kU8;
  const Tensor scale = in_type(spread(at, at.input(1), a.shape(), 1), DType::kF32);
  const Tensor zero = given.valid() ? spread(at, given, a.shape(), 1) : given;
  const OnnxSmallType* const small =
      given.valid() ? small_type_of(at, 2) : onnx_small_type(static_cast<int32_t>(wanted));
  if (small) {
    const Tensor units = divide(in_type(a, DType::kF32), scale);
    const Tensor whole = is_floating(small->carrier) ? units : map_unary("round", units);
    return {to_small(zero.valid() ? add(whole, in_type(zero, DType::kF32)) : whole, *small, small_rounding_of(at))};
  }
  return {quantized(in_type(a, DType::kF32), scale, zero, to, at.flag("saturate", true))};
}

Values dequantize(const OnnxCall& at) {
  const Tensor a = at.input(0), zero = at.input_if(2);
  Tensor made = cast(a, DType::kF32);
  if (zero.valid()) made = subtract(made, in_type(spread(at, zero, a.shape(), 1), DType::kF32));
  made = multiply(made, in_type(spread(at, at.input(1), a.shape(), 1), DType::kF32));
  const int64_t wanted = at.integer("output_dtype", 0);
  return {in_type(made, wanted != 0 ? checked_onnx_dtype(static_cast<int32_t>(wanted), "attribute 'output_dtype'")
                                    : at.input(1).dtype())};
}

/// To u8 by the range of the values, which has 0 in it.
Values dynamic_quantize(const OnnxCall& at) {
  const Tensor a = in_type(at.input(0), DType::kF32), none = at.full(DType::kF32, {}, 0);
  const Tensor high = maximum(reduce_max(a), none), low = minimum(reduce_min(a), none);
  const Tensor step = scale(subtract(high, low), 1.0 / 255);
  const Tensor zero = cast(map_unary("round", clamp(negate(divide(low, step)), 0.0, 255.0)), DType::kU8);
  return {quantized(a, step, zero, DType::kU8, true), step, zero};
}

/// Integers less their zero point, in f64, in which sums are exact; of a vector of zero points, along `axis`.
Tensor exact(Tensor a, Tensor zero, int axis) {
  a = cast(a, DType::kF64);
  if (!zero.valid()) return a;
  zero = cast(zero, DType::kF64);
  if (zero.shape().elements() == 1) return subtract(a, reshape(zero, {}));
  if (zero.shape().rank() == 1) {
    std::vector<int64_t> dims(static_cast<size_t>(a.shape().rank()), 1);
    dims[static_cast<size_t>(normalize_axis(axis, a.shape().rank(), "a zero point"))] = zero.dim(0);
    zero = reshape(zero, Shape(dims));
  }
  return subtract(a, zero);
}
/// A scale of rows or columns, for results of this rank.
Tensor factor(Tensor scale, int rank, int axis) {
  if (scale.shape().elements() == 1) return cast(reshape(scale, {}), DType::kF64);
  if (scale.shape().rank() != 1) return cast(scale, DType::kF64);
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(normalize_axis(axis, rank, "a scale"))] = scale.dim(0);
  return cast(reshape(scale, Shape(dims)), DType::kF64);
}

Values qlinear_matmul(const OnnxCall& at) {
  const Tensor a = exact(at.input(0), at.input(2), -2), b = exact(at.input(3), at.input(5), -1);
  const Tensor sum = matmul(a, b);
  const int rank = sum.shape().rank();
  const Tensor real = multiply(multiply(sum, factor(at.input(1), rank, -2)), factor(at.input(4), rank, -1));
  const Tensor zero = at.input(7);
  return {quantized(real, factor(at.input(6), rank, -2), reshape(zero, {}), zero.dtype(), true)};
}

Tensor exact_convolution(const OnnxCall& at, Tensor a, Tensor filter) {
  const std::vector<int64_t>& dims = filter.shape().dims();
  if (a.shape().rank() < 3 || filter.shape().rank() != a.shape().rank()) at.refuse("operands have no space");
  const OnnxWindows w = onnx_windows(at, a.shape(), at.integers("kernel_shape", {dims.begin() + 2, dims.end()}));
  // Products of 8-bit integers, of which f32 adds up 258 without rounding.
  int64_t terms = 1;
  for (size_t i = 1; i < dims.size(); ++i) terms *= dims[i];
  const DType dtype = terms <= 256 ? DType::kF32 : DType::kF64;
  return cast(convolution(cast(a, dtype), cast(filter, dtype), {},
                          {.strides = w.strides,
                           .dilations = w.dilations,
                           .low = w.low,
                           .high = w.high,
                           .groups = at.integer("group", 1)}),
              DType::kF64);
}

Values conv_integer(const OnnxCall& at) {
  const Tensor a = exact(at.input(0), at.input_if(2), 1), filter = exact(at.input(1), at.input_if(3), 0);
  return {cast(exact_convolution(at, a, filter), DType::kI32)};
}

Values qlinear_conv(const OnnxCall& at) {
  const Tensor a = exact(at.input(0), at.input(2), 1), filter = exact(at.input(3), at.input(5), 0);
  Tensor sum = exact_convolution(at, a, filter);
  const int rank = sum.shape().rank();
  if (const Tensor bias = at.input_if(8); bias.valid()) sum = add(sum, along_channels(cast(bias, DType::kF64), rank));
  const Tensor real = multiply(multiply(sum, factor(at.input(1), rank, 1)), factor(at.input(4), rank, 1));
  const Tensor zero = at.input(7);
  return {quantized(real, factor(at.input(6), rank, 1), reshape(zero, {}), zero.dtype(), true)};
}

constexpr OnnxEntry kEntries[] = {
    {"ConvInteger", conv_integer}, {"DequantizeLinear", dequantize},  {"DynamicQuantizeLinear", dynamic_quantize},
    {"QLinearConv", qlinear_conv}, {"QLinearMatMul", qlinear_matmul}, {"QuantizeLinear", quantize},
};

}  // namespace

std::span<const OnnxEntry> onnx_quantize_operators() { return kEntries; }

}  // namespace ramet::front

#pragma once

#include <cstdint>
#include <vector>

#include "ramet/ir/builder.h"

namespace ramet::ops {

/// One number a dimension of space; an empty list means 1 (strides, dilations) or 0 (zeros before and behind).
struct ConvolutionOptions {
  std::vector<int64_t> strides{}, dilations{}, low{}, high{};
  int64_t groups = 1;          ///< of channels: each group of outputs reads its own group of inputs
  bool channels_last = false;  ///< activations are [N, space..., C]; filters are the same
};

/// Cross-correlation, as networks call convolution: input [N, C, space...], of one to three dimensions of space, with
/// filter [O, C / groups, taps...] -> [N, O, space...], where an extent becomes
/// (extent + low + high - dilation * (taps - 1) - 1) / stride + 1, rounded down. `bias` is [O], or invalid.
/// Sums are f32; the result has the input's type.
Tensor convolution(Tensor input, Tensor filter, Tensor bias, const ConvolutionOptions& options = {});

/// The gradient of a convolution by its input, as an op of its own (PyTorch's ConvTranspose): input [N, C, space...]
/// with filter [C, O / groups, taps...] -> [N, O, space...], where an extent becomes
/// (extent - 1) * stride - low - high + dilation * (taps - 1) + 1 + output_padding. `bias` is [O], or invalid;
/// `output_padding` has one number below the stride (or the dilation) a dimension; empty: 0.
Tensor convolution_transposed(Tensor input, Tensor filter, Tensor bias, const ConvolutionOptions& options = {},
                              const std::vector<int64_t>& output_padding = {});

/// The gradient of a convolution by its filter: input [N, C, space...] and the gradient of the output [N, O, space...]
/// -> f32[O, C / groups, taps...].
Tensor convolution_filter_gradient(Tensor input, Tensor output_gradient, const std::vector<int64_t>& taps,
                                   const ConvolutionOptions& options = {});

}  // namespace ramet::ops

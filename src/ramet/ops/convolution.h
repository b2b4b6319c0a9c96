#pragma once

#include <array>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// One dimension of space of a convolution: output[y] reads input[y * stride + tap * dilation - low] for each tap.
struct ConvolutionSpace {
  int64_t input = 1, output = 1;  ///< extents
  int64_t taps = 1, stride = 1, dilation = 1;
  int64_t low = 0, high = 0;  ///< zeros before and behind the input
  friend bool operator==(const ConvolutionSpace&, const ConvolutionSpace&) = default;
};

/// A node of one of three ops, in the words of the forward convolution output = input * filter, where the filter is
/// [filters, channels / groups, taps...]:
/// - `convolution` computes the output from the input and the filter;
/// - `convolution_transposed` computes the input from the output and the filter (the gradient of the input);
/// - `convolution_filter_grad` computes the filter from the input and the output (the gradient of the filter).
///
/// Order of sums: the first two sum over the channels of the operand that they read (in each group of channels) and
/// over taps. The channels of a group are cut in `chunks` equal parts; the sums of the parts, in f32, are combined by a
/// balanced binary tree (ops/reduce_order.h), then the bias is added, then the result is rounded to the output's type.
/// The third sums over samples and positions, which a layout never cuts within a micro-batch.
struct ConvolutionForm {
  enum class Kind { kForward, kTransposed, kFilterGradient };
  Kind kind = Kind::kForward;
  int64_t samples = 0, channels = 0, filters = 0, groups = 1;
  std::array<ConvolutionSpace, 3> space;  ///< depth, height, width; the last `rank` of them are the node's
  int rank = 1;                           ///< dimensions of space
  bool channels_last = false;
  int64_t chunks = 1;
  bool has_bias = false;    ///< input 2 is the bias, one a channel of the result
  bool accumulate = false;  ///< input 2 is f32, of the result's shape, and is added to it
  TensorType result;

  int64_t group_channels() const { return groups == 0 ? 0 : channels / groups; }
  int64_t group_filters() const { return groups == 0 ? 0 : filters / groups; }
  int64_t taps() const { return space[0].taps * space[1].taps * space[2].taps; }
  int64_t input_positions() const { return space[0].input * space[1].input * space[2].input; }
  int64_t output_positions() const { return space[0].output * space[1].output * space[2].output; }
};
/// Throws Error naming the node when the operands do not fit.
ConvolutionForm convolution_form(const NodeSignature& node);

}  // namespace ramet::ops
